"""What differs between libraries of instruments: where their classes are, how one is made, read and set.

A class is named as its documentation does below the library's package (`keysight.KeysightE36312A`), or in full with a
colon (`my_lab.furnace:Furnace`). Libraries are imported only here, when a device is checked or made.
"""

from __future__ import annotations

import inspect
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from rigctl_drivers.visa_library import LineLibrary


SERIAL: Final = "ASRL1::INSTR"
"""VISA's name of a serial port; which one it is, the line knows."""


class InstrumentLibrary(ABC):
    """One library of instrument classes; never instantiated."""

    name: ClassVar[str]
    package: ClassVar[str]
    """Where its classes are."""
    extra: ClassVar[str]
    """What of rigctl's extras installs it."""

    @classmethod
    def find(cls, instrument: str) -> type:
        """Import a class.

        Raises:
            ValueError: the library is not installed, or there is no such class.
        """
        module, separator, name = instrument.partition(":")
        if not separator:
            below, _, name = instrument.rpartition(".")
            module = f"{cls.package}.{below}".rstrip(".")
        try:
            found = getattr(import_module(module), name, None)
        except ImportError as problem:
            try:
                import_module(cls.package)
            except ImportError:
                remedy = f"pip install 'rigctl[{cls.extra}]'"
                raise ValueError(f"{cls.name} is not installed ({problem}); {remedy}") from problem
            raise ValueError(f"there is no module {module} ({problem})") from problem
        log = logging.getLogger(cls.package.partition(".")[0])
        if not log.handlers:  # else what it logs goes to stderr; what matters of it is in our errors
            log.addHandler(logging.NullHandler())
        if not isinstance(found, type):
            raise ValueError(f"there is no class {name} in {module}")  # noqa: TRY004 - of the configuration
        return found

    @staticmethod
    @abstractmethod
    def make(found: type, resource: str, visa: LineLibrary, arguments: Mapping[str, Any]) -> Any:
        """Make an instrument of a class on a line; it may talk already."""

    @staticmethod
    def get(part: Any, name: str) -> Any:
        return getattr(part, name)

    @staticmethod
    def put(part: Any, name: str, value: Any) -> None:
        setattr(part, name, value)

    @staticmethod
    @abstractmethod
    def identity(instrument: Any) -> str | None:
        """Ask who answers, as `maker,model,serial,firmware`; None where the class cannot ask."""

    @classmethod
    def unusable(cls, found: type, name: str, *, to_set: bool) -> str:  # noqa: ARG003 - here nothing is known
        """Say why what a class calls by this name cannot be read, or set; empty where that is not known to be so."""
        return ""


class PyMeasure(InstrumentLibrary):
    """PyMeasure: properties."""

    name = "PyMeasure"
    package = "pymeasure.instruments"
    extra = "visa"

    @staticmethod
    def make(found: type, resource: str, visa: LineLibrary, arguments: Mapping[str, Any]) -> Any:
        """Make one; a class that hands nothing on to its connection gets a connection with pyvisa's settings.

        One of a serial instrument may refuse a socket, which has no baud rate; behind a device server it is one.
        """
        kinds = {p.kind for p in inspect.signature(found).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            adapter = import_module("pymeasure.adapters").VISAAdapter(resource, visa_library=visa, **arguments)
            return found(adapter)
        try:
            return found(resource, visa_library=visa, **arguments)
        except ValueError:
            if resource == SERIAL:
                raise
            return found(SERIAL, visa_library=visa, **arguments)

    @staticmethod
    def identity(instrument: Any) -> str | None:
        try:
            return str(instrument.id)
        except (AttributeError, NotImplementedError):
            return None

    @classmethod
    def unusable(cls, found: type, name: str, *, to_set: bool) -> str:
        """Look at the property itself; one of a channel that is made with the instrument cannot be seen."""
        known = inspect.getattr_static(found, name, None)
        if known is None:
            return f"{found.__name__} has no {name}"
        if not isinstance(known, property):
            return f"{name} is no property"
        use, command = (known.fset, "set_command") if to_set else (known.fget, "get_command")
        given = None if use is None else inspect.signature(use).parameters.get(command)
        return f"{name} cannot be {'set' if to_set else 'read'}" if use is None or (given and not given.default) else ""


class Qcodes(InstrumentLibrary):
    """QCoDeS: parameters."""

    name = "QCoDeS"
    package = "qcodes.instrument_drivers"
    extra = "qcodes"

    @staticmethod
    def make(found: type, resource: str, visa: LineLibrary, arguments: Mapping[str, Any]) -> Any:
        """Make one under a name of its own, for QCoDeS takes none twice; without the greeting that it would print."""
        quiet = type(found.__name__, (found,), {"connect_message": lambda *_, **__: None})
        return quiet(f"rigctl_{uuid.uuid4().hex}", resource, visalib=visa, **arguments)

    @staticmethod
    def get(part: Any, name: str) -> Any:
        return getattr(part, name).get()

    @staticmethod
    def put(part: Any, name: str, value: Any) -> None:
        getattr(part, name).set(value)

    @staticmethod
    def identity(instrument: Any) -> str | None:
        told = instrument.get_idn()
        return ",".join(str(told.get(key) or "") for key in ("vendor", "model", "serial", "firmware"))
