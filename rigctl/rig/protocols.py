"""What an instrument can do, as narrow protocols; all a driver needs to know of rigctl.

labgrid's split: a *line* is where an instrument is and how bytes or registers get there, a *device* is what it can do.
Drivers are plain synchronous code, called in one worker thread per bus; each call takes a `Deadline`.
Optional abilities are separate protocols: a device is a `Sensor`, an `Actuator`, a `Meter`, a `Doser`, or several.

Two kinds of time. A `Deadline` bounds I/O on a real line: wall seconds. Everything the *process* does (settling,
mixing, an instrument's processing delay) is rig time, read and slept through `Clock`; beside a simulated rig it runs
faster than the wall by one factor that both share.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from rigctl.errors import DeviceTimeout
from rigctl.printable import one_line

LONGEST_NAME = 200
"""Characters that are taken of each thing an instrument says of itself."""
LOOK_S = 0.05
"""A line that waits for an answer looks at its deadline at least this often, wall seconds."""


class Severity(IntEnum):
    """How bad a reading is. INVALID never reaches the optimiser."""

    NONE = 0
    MINOR = 1
    MAJOR = 2
    INVALID = 3


@dataclass(frozen=True, slots=True)
class Reading:
    """One value read from an instrument, never an old one: what could not be read is INVALID."""

    value: float
    """Engineering units; NaN when INVALID."""
    unit: str
    time_s: float
    """Rig time, seconds."""
    severity: Severity = Severity.NONE
    detail: str = ""

    def __post_init__(self) -> None:
        if self.detail:
            object.__setattr__(self, "detail", one_line(self.detail))

    @classmethod
    def invalid(cls, unit: str, time_s: float, detail: str) -> Reading:
        """Make what stands in for a value that could not be read, or cannot be true."""
        return cls(math.nan, unit, time_s, Severity.INVALID, detail)

    @property
    def valid(self) -> bool:
        """Tell whether the value may be used at all."""
        return self.severity < Severity.INVALID


@dataclass(slots=True)
class Hurry:
    """Lets a bus cut short what is under way, because something urgent waits. Mutable, shared with the bus's thread."""

    at_s: float = math.inf
    """The monotonic wall instant by which whatever can be broken off must be over."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The monotonic wall instant by which an I/O call must be over.

    A line that waits looks again at least every `LOOK_S`: with `hurry` the instant may come nearer meanwhile.
    """

    at_s: float
    hurry: Hurry | None = None
    """Of an exchange that may be broken off without harm: a question."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Make a deadline `seconds` of wall time from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Return the wall seconds left, never negative."""
        at_s = self.at_s if self.hurry is None else min(self.at_s, self.hurry.at_s)
        return max(0.0, at_s - time.monotonic())

    def within(self, seconds: float) -> Deadline:
        """Return this deadline, or `seconds` of wall time from now if that is earlier."""
        return Deadline(min(self.at_s, time.monotonic() + seconds), self.hurry)

    def check(self, doing: str) -> None:
        """Raise `DeviceTimeout` naming what was being done, once the deadline has passed."""
        if self.remaining_s == 0.0:
            raise DeviceTimeout(f"{doing}: no complete answer in time")


class Clock(Protocol):
    """Rig time: monotonic, comparable between processes of one boot, unaffected by changes of the wall clock."""

    @property
    def speedup(self) -> float:
        """Return the rig seconds per wall second."""

    def now_s(self) -> float:
        """Return rig time, seconds."""

    def sleep(self, seconds: float) -> None:
        """Block this thread for `seconds` of rig time."""


# Lines ------------------------------------------------------------------------------------------------------------


class Line(Protocol):
    """A wire shared by the devices of one bus; used from that bus's thread only."""

    url: str
    clock: Clock

    def open(self) -> None:
        """Open or reopen the port. Raises `PortUnavailable`, naming the port (and the holder if known)."""

    def close(self) -> None:
        """Close the port; harmless when closed."""

    def resync(self) -> None:
        """Stay silent after a timeout, longer than the slowest late answer, then drop what has arrived."""

    def press_on(self) -> None:
        """Waive the silence that is owed after a timeout, and drop what has arrived: the next command must leave now.

        Only on the way to the safe state, where commands may be repeated and a read-back has the last word: a late
        answer may be taken for the next one's.
        """


@runtime_checkable
class ByteLine(Line, Protocol):
    """A serial port or socket."""

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send everything or raise `DeviceTimeout`."""

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return the next line without its terminator; raises `DeviceTimeout` (a partial line is kept)."""

    def take_dropped(self) -> bytes:
        """Return what `resync` has dropped since last asked: an instrument's notice of a restart may be in it."""


RegisterKind = Literal["holding", "input"]
BitKind = Literal["coil", "discrete"]


@runtime_checkable
class RegisterLine(Line, Protocol):
    """A Modbus TCP or RTU bus. Writes are sent exactly once; reads may be repeated inside, which their error says then.

    All raise `DeviceTimeout`, `GarbledReply`, `DeviceBusy` or `DeviceFault` (naming unit and register).
    """

    def read_registers(
        self, unit: int, kind: RegisterKind, address: int, count: int, deadline: Deadline
    ) -> Sequence[int]:
        """Read `count` 16-bit registers."""

    def read_bits(self, unit: int, kind: BitKind, address: int, count: int, deadline: Deadline) -> Sequence[bool]:
        """Read `count` bits."""

    def write_registers(
        self, unit: int, address: int, values: Sequence[int], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        """Write holding registers (function 06 for one unless `multiple`, 10h for more)."""

    def write_coil(self, unit: int, address: int, value: bool, deadline: Deadline) -> None:
        """Write one coil (function 05)."""

    def write_coils(self, unit: int, address: int, values: Sequence[bool], deadline: Deadline) -> None:
        """Write neighbouring coils in one frame (function 0Fh)."""

    def exchange_s(self, sent_bytes: int, answer_bytes: int) -> float:
        """Return the wall seconds such frames take on the wire, without the device's own turnaround."""


# Devices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers."""

    model: str
    firmware: str = ""
    serial: str = ""

    def __post_init__(self) -> None:
        for name in ("model", "firmware", "serial"):
            object.__setattr__(self, name, one_line(getattr(self, name), LONGEST_NAME))


@runtime_checkable
class Device(Protocol):
    """Any instrument."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who is there, without side effects; raises `IdentityMismatch` if it is not what the driver drives."""


@runtime_checkable
class Sensor(Device, Protocol):
    """Reads one quantity."""

    unit: str

    def read(self, deadline: Deadline) -> Reading:
        """Take a fresh value. A value that arrived but cannot be true (NaN, error code, off scale) is INVALID."""


@dataclass(frozen=True, slots=True)
class ActuatorState:
    """What an actuator says of itself."""

    controlled: bool
    """Whether it is imposing a setpoint now."""
    setpoint: float | None
    """The setpoint it holds, engineering units; None when released, unless letting go is a setpoint, too: a switch that
    is off holds 0, and what is let go by a value holds that."""


@runtime_checkable
class Actuator(Device, Protocol):
    """Imposes a setpoint on one variable, or lets it go. All three writes may be repeated without harm."""

    unit: str

    def apply(self, value: float, deadline: Deadline) -> None:
        """Impose `value` (engineering units). Sent once."""

    def release(self, deadline: Deadline) -> None:
        """Impose nothing: the variable varies freely."""

    def safe(self, deadline: Deadline) -> None:
        """Go to the declared safe state."""

    def read_back(self, deadline: Deadline) -> ActuatorState:
        """Ask the instrument, not memory."""


@runtime_checkable
class Meter(Device, Protocol):
    """Counts what is consumed; the counter only rises."""

    meter_unit: str
    """Unit of `total`, e.g. kWh or mL."""

    def total(self, deadline: Deadline) -> Reading:
        """Read the counter, `meter_unit`."""


@dataclass(frozen=True, slots=True)
class DoseStatus:
    """What a pump says of its last dose."""

    running: bool
    dispensed_ml: float
    """Of the dose in progress or the last one."""
    reset: bool = False
    """The pump restarted since it was last asked: its counters cannot testify."""
    fault: str = ""
    """The dose was refused (`*ER`, `*TOOFAST`, `*MINVOL`), else empty."""


@runtime_checkable
class Doser(Device, Protocol):
    """Dispenses a volume once. A dose cannot be repeated without harm: never retried, see `Rig.dose`."""

    min_dose_ml: float
    max_rate_ml_per_min: float

    def ready(self, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless a dose may be sent: power-up dose zero, not running, motor supply present."""

    def start_dose(self, volume_ml: float, deadline: Deadline) -> None:
        """Send the dose, exactly once. Any exception but `DeviceFault` (refused) leaves it unknown whether it runs."""

    def dose_status(self, deadline: Deadline) -> DoseStatus:
        """Tell whether a dose runs and what it has dispensed."""

    def total_volume_ml(self, deadline: Deadline) -> Reading:
        """Read the volume dispensed since the pump powered up (or was cleared)."""

    def stop(self, deadline: Deadline) -> None:
        """Stop at once; harmless when nothing runs. Whether the pump stands still then, `dose_status` tells.

        Raises:
            DeviceTimeout: no sign that the command arrived.
        """


# Drivers ----------------------------------------------------------------------------------------------------------


class DeviceOptions(BaseModel):
    """Base of a driver's options, a device's section of the configuration without `driver` and `bus`, and its parts.

    Unknown keys are errors; a field's name carries its unit; its docstring goes into the JSON schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Driver(Protocol):
    """Makes devices. Found through the entry-point group `rigctl.drivers`, as a class never instantiated."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `rigctl drivers`."""
    schemes: ClassVar[tuple[str, ...]]
    """Line schemes it can talk over, e.g. `("serial", "tcp")`."""
    options: ClassVar[type[DeviceOptions]]

    @staticmethod
    def connect(name: str, options: DeviceOptions, line: Line) -> Device:
        """Make the device called `name` on this line; sends nothing yet."""


class OpenLine(Protocol):
    """Makes a line for a URL; found through the entry-point group `rigctl.lines`, one per scheme."""

    def __call__(self, url: str, clock: Clock) -> Line:
        """Make the line at `url`, still closed. Raises `ValueError` if the URL does not hold."""


# What the rig needs of whoever keeps the journal -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Doses in a row that did not move the probe that judges them."""

    doses: int
    trials: int
    """How many trials they were spread over."""


class DoseLog(Protocol):
    """The dose protocol's memory. Each call returns only after the record is on disk."""

    async def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        """Record the intent, before anything is sent; returns the dose's id. Raises `JournalUnwritable`."""

    async def sent(self, dose: int) -> None:
        """Record that the command has left."""

    async def done(self, dose: int, volume_ml: float, note: str) -> None:
        """Settle it: this volume was dispensed."""

    async def unknown(self, dose: int, volume_ml: float, note: str) -> None:
        """Settle it pessimistically: the full volume is booked, and an alarm raised."""

    async def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        """Book what a pump gave though nobody asked it to."""

    async def volume_since_ml(self, actuator: str, since_s: float) -> float:
        """Sum up all doses since this rig time, open intents in full; for the caps."""

    async def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:
        """Sum up all doses of these pumps since this rig time, open intents in full; None: of the trial under way."""

    async def answered(self, actuator: str, probe: str, *, moved: float, expected: float, answered: bool) -> None:
        """Record what the last dose of this pump did to the reading that judges it, the probe's units."""

    async def unanswered(self, actuator: str, probe: str) -> Unanswered:
        """Count the doses since the last that this probe answered, over all trials; a person may have forgiven them."""
