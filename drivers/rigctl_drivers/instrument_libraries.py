"""Finds, creates, reads and sets instruments of PyMeasure and of QCoDeS.

A class is named below the library's package, as in its documentation (`keysight.KeysightE36312A`). One of your own is
named in full (`my_lab.furnace:Furnace`), and an installed distribution must offer it under `rigctl.instruments`: else
a configuration could run any code. Libraries are imported here alone, when a device is checked or connected.
"""

from __future__ import annotations

import inspect
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from rigctl_drivers.visa_library import LineLibrary


OFFERED: Final = "rigctl.instruments"
"""Entry-point group of classes that belong to neither library."""
SERIAL: Final = "ASRL1::INSTR"
"""VISA's name of a serial port; which one it is, the line knows."""


def resource_name(url: str) -> str:
    """Return VISA's name of a line, by which a class chooses its settings for serial ports or for sockets."""
    scheme, _, place = url.partition("?")[0].partition("://")
    if scheme == "serial":
        return SERIAL
    host, _, port = place.rpartition(":")
    return f"TCPIP0::{host.strip('[]')}::{port}::SOCKET" if port.isdigit() else f"TCPIP0::{place}::5025::SOCKET"


class InstrumentLibrary(ABC):
    """One library of instrument classes; never instantiated."""

    name: ClassVar[str]
    package: ClassVar[str]
    """Where its classes are."""
    extra: ClassVar[str]
    """The extra of rigctl that installs it."""

    @classmethod
    def find(cls, instrument: str) -> type:
        """Import a class.

        Raises:
            ValueError: the library is not installed, the module cannot be imported, there is no such class, or nobody
                offers it.
        """
        module, is_own, name = instrument.partition(":")
        home = cls.package.partition(".")[0]
        if not is_own:
            below, _, name = instrument.rpartition(".")
            module = f"{cls.package}.{below}".rstrip(".")
        elif instrument not in {offered.value for offered in entry_points(group=OFFERED)}:
            raise ValueError(f"no installed distribution offers {instrument} (entry-point group {OFFERED})")
        try:
            found = getattr(import_module(module), name, None)
        except (Exception, SystemExit) as problem:  # other people's module may raise anything
            if not is_own and find_spec(home) is None:
                remedy = f"pip install 'rigctl[{cls.extra}]'"
                raise ValueError(f"{cls.name} is not installed; {remedy}") from problem
            raise ValueError(f"module {module} cannot be imported: {problem!r}") from problem
        log = logging.getLogger(home)
        if not log.handlers:  # otherwise its log goes to stderr; our errors say what matters
            log.addHandler(logging.NullHandler())
        if not isinstance(found, type) or not (is_own or found.__module__.startswith(f"{home}.")):
            raise ValueError(f"there is no class {name} in {module}")
        return found

    @staticmethod
    @abstractmethod
    def make(found: type, resource: str, visa: LineLibrary, arguments: Mapping[str, Any]) -> Any:
        """Create an instrument of a class on a line; it may use the line at once."""

    @staticmethod
    def get(part: Any, name: str) -> Any:
        return getattr(part, name)

    @staticmethod
    def put(part: Any, name: str, value: Any) -> None:
        setattr(part, name, value)

    @staticmethod
    @abstractmethod
    def identity(instrument: Any) -> str | None:
        """Ask who answers, as `maker,model,serial,firmware`; None if the class cannot ask."""

    @classmethod
    def unusable(cls, found: type, name: str, *, to_set: bool) -> str:  # noqa: ARG003 - here nothing is known
        """Say why a property cannot be read, or set; empty if it can, or if only the instrument knows."""
        return ""


class PyMeasure(InstrumentLibrary):
    """PyMeasure: properties."""

    name = "PyMeasure"
    package = "pymeasure.instruments"
    extra = "visa"

    @staticmethod
    def make(found: type, resource: str, visa: LineLibrary, arguments: Mapping[str, Any]) -> Any:
        """Create one; a class that takes no settings of its connection gets pyvisa's.

        The class of a serial instrument may refuse a socket, which has no baud rate. It then gets a serial port's name:
        its instrument stands behind a device server.
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
        """Look at the property itself; those of channels exist only in the instrument."""
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
        """Create one under a unique name, as QCoDeS demands, without the greeting that it would print."""
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
