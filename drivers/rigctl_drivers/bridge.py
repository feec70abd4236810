"""Drives instruments by the classes of PyMeasure, QCoDeS or a laboratory, over rigctl's own lines.

The class decides which bytes are sent. Safety stays here: the port, deadlines and silences, the comparison of each
setpoint with what the instrument holds, and the safe state. No class is trusted: a value counts only if bytes came from
the instrument during the call, and the class's own `shutdown()` is never called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from pydantic import Field

from rigctl.errors import DeviceError, DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.flaws import got
from rigctl.printable import one_line
from rigctl.rig.protocols import (
    LONGEST_NAME,
    ByteLine,
    ClaimedPlace,
    Deadline,
    Device,
    DeviceOptions,
    Driver,
    Identity,
    Meter,
    Reading,
    Sensor,
)
from rigctl.rig.testing import SilentLine
from rigctl_drivers.foreign_call import ForeignCall, StillBusy
from rigctl_drivers.instrument_libraries import InstrumentLibrary, PyMeasure, Qcodes, resource_name
from rigctl_drivers.scpi import identity_of, off_scale
from rigctl_drivers.setpoint import SetpointActuator, same

if TYPE_CHECKING:
    from rigctl_drivers.visa_library import LineLibrary

T = TypeVar("T")

PROPERTY: Final = r"^[A-Za-z]\w*(\.[A-Za-z]\w*)*$"
CHECK_S: Final = 2.0
"""Time for `check` to create an instrument where nobody answers, wall seconds."""
LATE: Final = 64 * 1024
"""Bytes; longer than any answer."""
MOST_ABANDONED: Final = 8
"""Abandoned calls, still running, after which a device is asked nothing more: each keeps a thread."""
Switch = bool | int | str


class BridgeOptions(DeviceOptions):
    """One quantity of an instrument, named by properties of its class."""

    library: ClassVar[type[InstrumentLibrary]]
    instrument: str = Field(pattern=r"^(\w+(\.\w+)*:)?\w+(\.\w+)*$")
    """The class, as `keysight.KeysightE36312A`; one of your own, offered to rigctl, as `my_lab.furnace:Furnace`."""
    channel: str | None = Field(default=None, pattern=PROPERTY)
    """The part of the instrument that has the properties, e.g. `ch_1`."""
    unit: str = ""
    """Unit of the reading, the setpoint or the counter, in which the class works."""
    read: str | None = Field(default=None, pattern=PROPERTY)
    """The property that is measured; makes the device a sensor."""
    set: str | None = Field(default=None, pattern=PROPERTY)
    """The property that sets and reads the setpoint; makes the device an actuator."""
    enable: str | None = Field(default=None, pattern=PROPERTY)
    """The property that puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    on: Switch = True
    """Value of `enable` for on, both set and read."""
    off: Switch = False
    """Value of `enable` for off, both set and read."""
    safe_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint of the safe state; without `enable` also the one that imposes nothing. Without it, safe means off."""
    step: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Resolution of the setpoint, to which each is rounded before it is sent; a whole step sends whole numbers."""
    counter: str | None = Field(default=None, pattern=PROPERTY)
    """A property that only rises; makes the device a meter, and nothing else."""
    identity: str | None = Field(default=None, pattern=PROPERTY)
    """The property that identifies the instrument, for classes that do not ask `*IDN?`; needs `model`."""
    model: str | None = Field(default=None, min_length=1)
    """Model that must answer: the second field of `*IDN?`, or a part of the text that `identity` reads."""
    arguments: Mapping[str, bool | int | float | str] = Field(default_factory=dict)
    """Further arguments for creating the class, e.g. `{read_termination: "\\r"}`."""

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        drives = self.set is not None or self.enable is not None
        on_off = self.enable is not None and self.set is None
        return (
            (drives or self.read is not None or self.counter is not None, "nothing to do: give `read` or `set`"),
            (self.counter is None or not (drives or self.read), "`counter` stands alone: give a sensor its own device"),
            (
                self.set is None or self.enable is not None or self.safe_value is not None,
                "`set` needs `enable` or `safe_value`, else there is no safe state: it may only be read",
            ),
            (self.safe_value is None or drives, "`safe_value` needs `set` or `enable`"),
            (not on_off or self.safe_value in (None, 0.0, 1.0), "`safe_value` of an on/off device must be 0 or 1"),
            (self.on != self.off, "`on` and `off` must differ"),
            (self.identity is None or self.model is not None, "`identity` needs `model`, which it must hold"),
        )

    @property
    def named(self) -> Mapping[str, bool]:
        """Return the properties that are used, and whether each is set."""
        uses = {self.read: False, self.counter: False, self.identity: False, self.set: True, self.enable: True}
        return {name: is_set for name, is_set in uses.items() if name is not None}

    def rounded(self, setpoint: float) -> float:
        return setpoint if self.step is None else round(setpoint / self.step) * self.step

    def misfit(self, setpoint: float) -> str:
        return "" if self.set is not None or setpoint in (0.0, 1.0) else "an on/off device takes 0 or 1"

    def occupies(self) -> Sequence[ClaimedPlace]:
        """Claim the line, shared with others of the same class, and each property to itself."""
        at = "" if self.channel is None else f"{self.channel}."
        claims = [
            ClaimedPlace(f"property {at}{name}", "writes" if is_set else "reads")
            for name, is_set in self.named.items()
            if name != self.identity
        ]
        return [ClaimedPlace("the line", "shares", self.instrument), *claims]

    def assess(self) -> tuple[Sequence[str], Sequence[str]]:
        """Import the class, look at its properties, and create an instrument where nobody answers."""
        library, name = self.library, self.instrument
        try:
            found = library.find(name)
        except ValueError as problem:
            return [str(problem)], []
        plain = {} if self.channel is not None else self.named
        flaws = [library.unusable(found, prop, to_set=False) for prop in plain if prop != self.identity]
        flaws += [library.unusable(found, prop, to_set=True) for prop, is_set in plain.items() if is_set]
        if any(flaws):
            return list(dict.fromkeys(filter(None, flaws))), []
        caveats = [f"rigctl guarantees {_promise(self)}, but not that {name} sends the right commands"]
        if tried(self)[1] and (self.set or self.enable):
            caveats.append(
                f"{name} asks questions when it is created; until the instrument answers, it cannot be told to go safe"
            )
        with suppress(OSError, TypeError):  # no source: a compiled module
            if "sleep(" in inspect.getsource(inspect.getmodule(found) or found):
                caveats.append(f"the module of {name} calls sleep(); a call that takes longer than `timeout` fails")
        return [], caveats


class PyMeasureOptions(BridgeOptions):
    """One quantity of an instrument that PyMeasure has a class for."""

    library = PyMeasure


class QcodesOptions(BridgeOptions):
    """One quantity of an instrument that QCoDeS has a class for."""

    library = Qcodes


class BridgeDriver(Driver):
    """What the drivers of all libraries have in common."""

    schemes = ("serial", "tcp")

    @staticmethod
    def connect(options: BridgeOptions, line: ByteLine) -> Device:
        """Return the device; its instrument is created by the first call."""
        instrument = ForeignInstrument(options, line)
        if options.counter is not None:
            return BridgeMeter(instrument)
        if options.set is None and options.enable is None:
            return BridgeSensor(instrument)
        return BridgeOutput(instrument) if options.read is None else BridgeControlled(instrument)


class DeafLine(SilentLine):
    """A line that reports at once that nobody answers."""

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:  # noqa: ARG002 - as the line has it
        self.asked.append(deadline)
        raise DeviceTimeout("nobody is there", bus=self.url)


def tried(options: BridgeOptions) -> tuple[bool, bool]:
    """Create an instrument where nobody answers; tell whether that worked, and whether it used the line."""
    line = DeafLine()
    made = ForeignInstrument(options, line)
    with suppress(Exception):  # a class may raise anything where nobody answers
        made.made(Deadline.after(CHECK_S))
    return made.is_made, bool(line.asked)


def _promise(options: BridgeOptions) -> str:
    """Say what holds whatever a class does."""
    if options.set is None and options.enable is None:
        return "deadlines and fresh values"
    safe = f"{options.enable} = {options.off}" if options.safe_value is None else f"{options.safe_value:g}"
    return f"deadlines, the read-back of each setpoint and the safe state ({safe})"


class PyMeasureDriver(BridgeDriver):
    """Driver of PyMeasure's instruments."""

    name = "pymeasure"
    summary = "a quantity of an instrument that PyMeasure has a class for (serial or TCP)"
    options = PyMeasureOptions


class QcodesDriver(BridgeDriver):
    """Driver of QCoDeS' VISA instruments."""

    name = "qcodes"
    summary = "a quantity of an instrument that QCoDeS has a VISA class for (serial or TCP)"
    options = QcodesOptions


class ForeignInstrument:
    """An instrument of a foreign class on one of our lines, created when it is first needed."""

    def __init__(self, options: BridgeOptions, line: ByteLine) -> None:
        self.library = options.library
        self.options = options
        self.line = line
        self._visa: LineLibrary | None = None
        self._made: Any = None
        self._abandoned: list[ForeignCall] = []
        """Calls that did not return in time, as far as they still run."""
        with suppress(ValueError, ImportError):  # reported when it is created; an import may outlast an exchange
            self.library.find(options.instrument)
            import_module("rigctl_drivers.visa_library")

    def identity(self, deadline: Deadline) -> str | None:
        """Ask who answers; None if the class cannot ask."""
        made = self.made(deadline)
        if self.options.identity is not None:
            return str(self._call(lambda: self.library.get(made, self.options.identity or ""), deadline, "identify"))
        return self._call(lambda: self.library.identity(made), deadline, "identify")

    def get(self, name: str, deadline: Deadline) -> Any:
        """Ask for a property; raises `GarbledReply` if nothing came from the instrument."""
        self.made(deadline)
        return self._call(lambda: self.library.get(self._part(), name), deadline, name)

    def number(self, name: str, deadline: Deadline) -> float:
        value = self.get(name, deadline)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise GarbledReply(got(value, "must be a number", where=name))
        return float(value)

    def put(self, name: str, value: float | Switch, deadline: Deadline) -> None:
        """Set a property; raises `DeviceFault` if nothing was sent."""
        self.made(deadline)
        self._call(lambda: self.library.put(self._part(), name, value), deadline, f"{name} = {value}", proof="sent")

    def made(self, deadline: Deadline) -> Any:
        """Return the class's object, created now if need be. Raises `DeviceFault` if that fails."""
        if self._made is None:
            try:
                found = self.library.find(self.options.instrument)
                from rigctl_drivers.visa_library import LineLibrary  # noqa: PLC0415 - pyvisa is an extra
            except (ValueError, ImportError) as problem:
                raise DeviceFault(str(problem)) from problem
            visa = self._visa = LineLibrary.alone()
            make, resource = self.library.make, resource_name(self.line.url)
            arguments = self.options.arguments
            self._made = self._call(lambda: make(found, resource, visa, arguments), deadline, "creating it", proof="")
        return self._made

    @property
    def is_made(self) -> bool:
        return self._made is not None

    def _part(self) -> Any:
        path = [] if self.options.channel is None else self.options.channel.split(".")
        return reduce(getattr, path, self._made)

    def _call(self, work: Callable[[], T], deadline: Deadline, doing: str, *, proof: str = "heard") -> T:
        """Run foreign code on the line, which is brought into step first.

        `proof` is `heard` or `sent`, if bytes must have passed over the line; an answer of None needs none.

        Raises:
            DeviceTimeout: no answer in time, or the code did not return; the next call creates a new instrument.
            GarbledReply: the code could not use the answer, or did not ask for one.
            DeviceFault: the code refused before anything was heard.
        """
        visa, where = self._visa, f"{self.options.instrument}: {doing}"
        if visa is None:
            raise DeviceFault(f"{where}: there is no instrument")
        self._abandoned = [call for call in self._abandoned if call.thread and call.thread.is_alive()]
        if len(self._abandoned) >= MOST_ABANDONED and proof == "heard":
            raise DeviceTimeout(f"{where}: {MOST_ABANDONED} calls have not returned; nothing is asked until one does")
        if not self.line.settle(deadline, command=True):
            raise DeviceTimeout("an earlier answer may still come; nothing was sent", bus=self.line.url)
        call = visa.call = ForeignCall(self.line, deadline)
        try:
            value = call.run(work)
            visa.call = None
        except StillBusy as problem:
            self._visa = self._made = None
            self._abandoned.append(call)
            with suppress(DeviceError):  # its question may still be answered: the line must stay silent first
                self.line.read_bytes(LATE, Deadline.after(0.001))
            remedy = "give the device a longer `timeout`, or use another class"
            raise DeviceTimeout(f"{where}: {problem.what}; {remedy}", bus=self.line.url) from problem
        except Exception as problem:  # foreign code may raise anything
            visa.call = None
            raise self._told(where, problem, call) from problem
        if proof == "heard" and not call.heard and value is not None:
            raise call.lost or GarbledReply(f"{where}: the class answered {value!r} without asking the instrument")
        if proof == "sent" and not call.sent:
            raise call.lost or DeviceFault(f"{where}: the class sent nothing")
        return value

    def _told(self, where: str, problem: Exception, call: ForeignCall) -> DeviceError:
        said = f"{where}: {type(problem).__name__}: {one_line(str(problem), LONGEST_NAME)}"
        if call.lost is not None:
            return type(call.lost)(f"{where}: {call.lost.what}{self._frame()}", bus=self.line.url)
        return (GarbledReply if call.heard else DeviceFault)(said, bus=self.line.url)

    def _frame(self) -> str:
        """Say which settings of its port the class expects, as far as the line's URL does not say the same."""
        asked = {} if self._visa is None else self._visa.wanted_frame()
        others = [f"{k}={v}" for k, v in asked.items() if f"{k}={v}" not in self.line.url]
        return f"; the class expects a port with {'&'.join(others)}" if others else ""


class BridgeDevice(Device):
    """What every one of them can be asked."""

    def __init__(self, instrument: ForeignInstrument) -> None:
        self._instrument = instrument
        self._options = instrument.options
        self.unit = instrument.options.unit
        self.meter_unit = instrument.options.unit

    def identify(self, deadline: Deadline) -> Identity:
        """Ask `*IDN?` or the `identity`; a class that can ask neither is only asked whether something answers."""
        told, model = self._instrument.identity(deadline), self._options.model
        if told is None:
            self.anonymous = True
            self._instrument.get(next(name for name in self._options.named if name), deadline)
            return Identity(self._options.instrument)
        if self._options.identity is not None:
            if model is None or model.casefold() not in told.casefold():
                raise IdentityMismatch(f"{told!r} answers, expected {model!r} in it; check `bus`")
            return Identity(model, serial=told)
        return identity_of(told, model)

    def _reading(self, name: str | None, deadline: Deadline) -> Reading:
        value = self._instrument.number(name or "", deadline)
        now_s = self._instrument.line.clock.now_s()
        if off_scale(value):
            return Reading.invalid(self.unit, now_s, f"{name} reads {value} (off scale)")
        return Reading(value, self.unit, now_s)


class BridgeSensor(BridgeDevice, Sensor):
    """A sensor by a property."""

    def read(self, deadline: Deadline) -> Reading:
        return self._reading(self._options.read, deadline)


class BridgeMeter(BridgeDevice, Meter):
    """A counter that only rises."""

    def total(self, deadline: Deadline) -> Reading:
        return self._reading(self._options.counter, deadline)


class BridgeOutput(BridgeDevice, SetpointActuator):
    """An actuator: what was set is read back before anything is switched on, and after everything that is set."""

    def __init__(self, instrument: ForeignInstrument) -> None:
        super().__init__(instrument)
        o = self._options
        self.sets, self.switches = o.set is not None, o.enable is not None
        self.safe_value, self.release_value = o.safe_value, None if self.switches else o.safe_value

    def _set(self, value: float, deadline: Deadline) -> None:
        """Set once, and ask what the instrument holds: validators may have made another value of it."""
        o = self._options
        sent = o.rounded(value)
        whole = o.step is not None and o.step.is_integer()
        self._instrument.put(o.set or "", int(sent) if whole else sent, deadline)
        held = self._held(deadline)
        if not same(held, sent, max(1e-9, (o.step or 0.0) / 2)):
            raise DeviceFault(f"{o.set} was set to {sent:g} and reads {held:g}; it was not switched on")

    def _switch(self, on: bool, deadline: Deadline) -> None:
        o = self._options
        self._instrument.put(o.enable or "", o.on if on else o.off, deadline)
        if self._is_on(deadline) is not on:
            raise DeviceFault(f"{o.enable} was set to {o.on if on else o.off} and reads {o.off if on else o.on}")

    def _held(self, deadline: Deadline) -> float:
        value = self._instrument.number(self._options.set or "", deadline)
        if off_scale(value):
            raise GarbledReply(f"{self._options.set} reads {value}, which is no setpoint")
        return value

    def _is_on(self, deadline: Deadline) -> bool:
        o = self._options
        value = self._instrument.get(o.enable or "", deadline)
        if value not in (o.on, o.off):
            raise GarbledReply(got(value, f"must be {o.on} or {o.off}", where=o.enable or ""))
        return bool(value == o.on)


class BridgeControlled(BridgeSensor, BridgeOutput):
    """Imposes a setpoint and reads a quantity."""
