"""What an instrument can do, as narrow base classes; all a driver needs to know of rigctl.

labgrid's split: a *line* is where an instrument is and how bytes or registers get there, a *device* is what it can do.
Drivers are plain synchronous code, called in one worker thread per bus; each call takes a `Deadline`.
A device is a `Sensor`, an `Actuator`, a `Meter`, a `Doser`, or several; what it may add has a default.

Two kinds of time. A `Deadline` bounds I/O on a real line: wall seconds. Everything the *process* does (settling,
mixing, an instrument's processing delay) is rig time, read and slept through `Clock`; beside a simulated rig it runs
faster than the wall by one factor that both share.
"""

# ruff: noqa: ARG002, ARG004, B027 - defaults take what their method hands them, and some have nothing to do

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, model_validator

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.printable import one_line
from rigctl.rig.clocks import Clock

LONGEST_NAME = 200
"""Characters that are taken of each thing an instrument says of itself."""
PEEK_S = 0.05
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

    A line that waits looks again at least every `PEEK_S`: with `hurry` the instant may come nearer meanwhile.
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


# Lines ------------------------------------------------------------------------------------------------------------


class Line(ABC):
    """A wire shared by the devices of one bus; used from that bus's thread only.

    Methods that are not abstract are for lines that know more of themselves; their defaults suit any line.
    """

    url: str
    clock: Clock
    read_retries: int = 0
    """How often the line itself has repeated a read after a spoilt answer."""

    @abstractmethod
    def open(self) -> None:
        """Open or reopen the port. Raises `PortUnavailable`, naming the port (and the holder if known)."""

    @abstractmethod
    def close(self) -> None:
        """Close the port; harmless when closed."""

    @abstractmethod
    def resync(self) -> None:
        """Stay silent after a timeout, longer than the slowest late answer, then drop what has arrived."""

    @abstractmethod
    def press_on(self) -> None:
        """Waive the silence that is owed after a timeout, and drop what has arrived: the next command must leave now.

        Only on the way to the safe state, where commands may be repeated and a read-back has the last word: a late
        answer may be taken for the next one's.
        """

    def settle(self, deadline: Deadline, *, command: bool = False) -> bool:
        """Do as `resync`, up to the deadline at most; tell whether no late answer can come any more.

        A `command` waits for nothing that `press_on` has waived. By default the deadline cuts nothing short.
        """
        self.resync()
        return True

    def quiet_for_s(self, *, pressed_on: bool) -> float:
        """Return how long the next question waits at most after one without an answer, wall seconds.

        `pressed_on`: though that was waived.
        """
        return 0.0

    def is_lost(self) -> bool:
        """Tell whether the port is closed, its other end has gone, or it was opened anew since this was last asked.

        For lines that open their port by themselves. Asks nobody, and takes nothing that has come.
        """
        return False

    def stay(self) -> None:
        """Open no other port until `is_lost` is asked again: what follows is for who was recognised on this one."""


class ByteLine(Line):
    """A serial port or socket."""

    @abstractmethod
    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send everything or raise `DeviceTimeout`."""

    @abstractmethod
    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return the next line without its terminator; raises `DeviceTimeout` (a partial line is kept)."""

    def read_bytes(self, count: int, deadline: Deadline, until: bytes = b"") -> bytes:
        """Return the next `count` bytes, or what comes up to and including `until` where that is fewer.

        Raises:
            DeviceTimeout: fewer in time; what has come is kept.
            DeviceFault: the line has lines of text only.
        """
        raise DeviceFault("it reads lines of text only, no counted bytes", bus=self.url)

    @abstractmethod
    def take_dropped(self) -> bytes:
        """Return what `resync` has dropped since last asked: an instrument's notice of a restart may be in it."""


class AddressedLine(Line):
    """A bus on which each party has an address and answers only when asked: I2C, 1-Wire, the lines of a GPIO chip."""

    def resync(self) -> None:
        """Do nothing: no answer can come late."""

    def press_on(self) -> None:
        """Do nothing: no silence is owed."""

    @abstractmethod
    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> bytes:
        """Send bytes to an address, if any, then read up to `count` bytes, unless 0. Sent once.

        Raises `DeviceTimeout`: nobody acknowledges, or the bus hangs; what was sent may have arrived.
        """


RegisterKind = Literal["holding", "input"]
BitKind = Literal["coil", "discrete"]
Block = tuple[int, RegisterKind, int, int]
"""Unit, table, first address, count."""


class RegisterLine(Line):
    """A Modbus TCP or RTU bus. Writes are sent exactly once; reads may be repeated inside, which their error says then.

    All raise `DeviceTimeout`, `GarbledReply`, `DeviceBusy` or `DeviceFault` (naming unit and register).
    """

    @abstractmethod
    def read_registers(
        self, unit: int, kind: RegisterKind, address: int, count: int, deadline: Deadline
    ) -> Sequence[int]:
        """Read `count` 16-bit registers."""

    @abstractmethod
    def read_bits(self, unit: int, kind: BitKind, address: int, count: int, deadline: Deadline) -> Sequence[bool]:
        """Read `count` bits."""

    @abstractmethod
    def write_registers(
        self, unit: int, address: int, values: Sequence[int], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        """Write holding registers (function 06 for one unless `multiple`, 10h for more)."""

    @abstractmethod
    def write_coils(
        self, unit: int, address: int, values: Sequence[bool], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        """Write neighbouring coils in one frame (function 05 for one unless `multiple`, 0Fh for more)."""

    @abstractmethod
    def exchange_s(self, sent_bytes: int, answer_bytes: int) -> float:
        """Return the wall seconds such frames take on the wire, without the device's own turnaround."""

    def read_block(self, block: Block, asker: object, deadline: Deadline) -> tuple[Sequence[int], float]:
        """Return neighbouring registers and when they arrived, rig time; read once for all who ask at the same time."""
        return self.read_registers(*block, deadline), self.clock.now_s()

    def vendor(self, unit: int, deadline: Deadline) -> str:
        """Return who made a unit; raises `DeviceFault` where it cannot be asked."""
        raise DeviceFault(f"unit {unit}: this line asks nobody who made it", bus=self.url)

    def is_up(self) -> bool:
        """Tell whether the connection is still the one over which the last answer came; asks nobody."""
        return True


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


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a healthy device takes over its part in going safe, wall seconds, answer included."""

    command_s: float
    """The command itself."""
    confirm_s: float
    """Asking afterwards whether it holds."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a device says of its calibration."""

    points: int | None
    """How many points it has; 0: it is not calibrated; None: it does not say."""
    slopes: tuple[float, ...] = ()
    """Percent of an ideal probe's, as it lists them; empty where it does not."""
    detail: str = ""
    """Its own words."""


class Heart(Protocol):
    """What keeps a device's watchdog from making its outputs safe."""

    every_s: float
    """Wall seconds between two heartbeats."""
    key: tuple[str, ...]
    """Path of the option that sets how often, in the device's section."""

    def beat(self, deadline: Deadline) -> None:
        """Write the next heartbeat; sent once, and may be followed by another at any time."""

    def check(self, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless the last heartbeat arrived, and the watchdog is on, with a sane time."""


class Device(ABC):
    """Any instrument. What is not abstract here and below is for those that know more of themselves."""

    anonymous: bool = False
    """It cannot be told from another of its kind: before a safe command it is not asked who it is."""
    heart: Heart | None = None
    """What feeds its watchdog; None: nothing is to be fed."""
    tells_calibration: bool = False
    """Whether `calibration` asks anything."""
    identified_by: int = 1
    """How many answers tell who is there; each may take its timeout."""
    max_age_s: float = 0.0
    """How old a value that comes by itself may be, wall seconds; then none is INVALID, no timeout. 0: it is asked."""

    @abstractmethod
    def identify(self, deadline: Deadline) -> Identity:
        """Ask who is there, without side effects; raises `IdentityMismatch` if it is not what the driver drives."""

    def simulated(self, deadline: Deadline) -> bool:
        """Tell whether it says that it is simulated; rig time runs faster than the wall only on such a rig."""
        return False

    def calibration(self, deadline: Deadline) -> Calibration:
        """Ask for its calibration; changes nothing."""
        return Calibration(None)

    def pace(self) -> Pace | None:
        """Reckon its part in going safe from baud, latency and frame lengths; None: its timeout for each exchange."""
        return None


class Sensor(Device):
    """Reads one quantity."""

    unit: str
    temperature_from: str | None = None
    """Name of the device whose temperature, degC, compensates the reading; None: nothing does."""

    @abstractmethod
    def read(self, deadline: Deadline) -> Reading:
        """Take a fresh value. A value that arrived but cannot be true (NaN, error code, off scale) is INVALID."""

    def take_temperature(self, reading: Reading) -> None:
        """Note the temperature for the readings that follow, also one that is INVALID; sends nothing."""


@dataclass(frozen=True, slots=True)
class ActuatorState:
    """What an actuator says of itself."""

    controlled: bool
    """Whether it is imposing a setpoint now."""
    setpoint: float | None
    """The setpoint it holds, engineering units; None when released, unless letting go is a setpoint, too: a switch that
    is off holds 0, and what is let go by a value holds that."""


class Actuator(Device):
    """Imposes a setpoint on one variable, or lets it go. All three writes may be repeated without harm."""

    unit: str

    @abstractmethod
    def apply(self, value: float, deadline: Deadline) -> None:
        """Impose `value` (engineering units). Sent once."""

    @abstractmethod
    def release(self, deadline: Deadline) -> None:
        """Impose nothing: the variable varies freely."""

    @abstractmethod
    def safe(self, deadline: Deadline) -> None:
        """Go to the declared safe state."""

    @abstractmethod
    def read_back(self, deadline: Deadline) -> ActuatorState:
        """Ask the instrument, not memory."""

    def safe_group(self) -> Hashable | None:
        """Name who can go safe together in one exchange, e.g. the coils of one unit; None: it goes alone."""
        return None

    def safe_all(self, group: Sequence[Actuator], deadline: Deadline) -> None:
        """Send all of the group (this one among them) to their safe states in as few frames as can be.

        Raises:
            DeviceFault: the device refuses such frames; each must be told by itself.
        """
        raise DeviceFault("each goes to its safe state by itself")

    def safe_all_s(self, group: Sequence[Actuator]) -> float:
        """Return how long that takes with a healthy device, wall seconds; sends nothing."""
        return 0.0


class Meter(Device):
    """Counts what is consumed; the counter only rises."""

    meter_unit: str
    """Unit of `total`, e.g. kWh or mL."""

    @abstractmethod
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


class Doser(Device):
    """Dispenses a volume once. A dose cannot be repeated without harm: never retried, see `Rig.dose`."""

    min_dose_ml: float
    max_rate_ml_per_min: float
    calibratable: bool = False
    """Whether it can be told what it really dispensed."""

    @abstractmethod
    def ready(self, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless a dose may be sent: power-up dose zero, not running, motor supply present."""

    @abstractmethod
    def start_dose(self, volume_ml: float, deadline: Deadline) -> None:
        """Send the dose, exactly once. Any exception but `DeviceFault` (refused) leaves it unknown whether it runs."""

    @abstractmethod
    def dose_status(self, deadline: Deadline) -> DoseStatus:
        """Tell whether a dose runs and what it has dispensed."""

    @abstractmethod
    def total_volume_ml(self, deadline: Deadline) -> Reading:
        """Read the volume dispensed since the pump powered up (or was cleared)."""

    @abstractmethod
    def stop(self, deadline: Deadline) -> None:
        """Stop at once; harmless when nothing runs. Whether the pump stands still then, `dose_status` tells.

        Raises:
            DeviceTimeout: no sign that the command arrived.
        """

    def calibrate(self, volume_ml: float, deadline: Deadline) -> None:
        """Tell it that its last dose was this volume, as a person has measured it. Sent once."""
        raise DeviceFault("it cannot be calibrated; nothing was sent")


# Drivers ----------------------------------------------------------------------------------------------------------


class DeviceOptions(BaseModel):
    """Base of a driver's options, a device's section of the configuration without `driver` and `bus`, and its parts.

    Unknown keys are errors; a field's name carries its unit; its docstring goes into the JSON schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        for holds, problem in self._rules():
            if not holds:
                raise ValueError(problem)
        return self

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        """Return what must hold between several options, each with what is wrong where it does not."""
        return ()

    # asked before anything is connected; the defaults suit most devices

    def occupies(self) -> Sequence[ClaimedPlace] | None:
        """Return all that a device with these options uses of its line; None: a byte line as a whole."""
        return None

    def misfit(self, setpoint: float) -> str:
        """Say why this setpoint cannot be held; empty if it can."""
        return ""

    def rounded(self, setpoint: float) -> float:
        """Return what a device holds once it was sent this; it never falls as that rises."""
        return setpoint

    def assess(self) -> tuple[Sequence[str], Sequence[str]]:
        """Say why a device cannot work, and what of it nobody guarantees, a sentence each; no instrument is asked."""
        return (), ()

    def grain_at(self, total: float) -> float:
        """Return the smallest step of a counter at this count, unit of the meter; 0 if it is not known."""
        return 0.0

    def watchdog(self) -> tuple[str, bool] | None:
        """Name the part of the line whose outputs go safe together, and tell whether this device feeds its watchdog."""
        return None

    def stays_on(self) -> str:
        """Say why it would stay on should we fall silent: it is refused unless `safety.stays_on` names it."""
        return ""


@dataclass(frozen=True, slots=True)
class ClaimedPlace:
    """A place on its line that a device uses."""

    place: str
    """E.g. `unit 1 holding register 4`; one claim for each of several words."""
    use: Literal["reads", "writes", "keeps", "shares"]
    """Others may read what one reads; nobody else writes what one writes, nor uses what one keeps; what is shared is
    the same thing for all (of one span)."""
    span: str = ""
    """What the place is part of, e.g. `4 to 5`: two who read parts of different numbers cannot both be right."""


@dataclass(frozen=True, slots=True)
class Found:
    """An instrument that answered somebody who looked who is there."""

    driver: str
    options: Mapping[str, Any]
    """The driver's options, as far as they are known; an instrument of many quantities needs more."""
    identity: Identity
    name: str
    """What people call it, or what it is, as a beginning of a device's name."""
    channels: Sequence[tuple[Mapping[str, Any], str]] = ()
    """What else was seen there: further options, and in words what stands there now."""


class Driver(ABC):
    """Makes devices. Found through the entry-point group `rigctl.drivers`, as a class never instantiated."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `rigctl tools drivers`."""
    schemes: ClassVar[tuple[str, ...]]
    """Line schemes it can talk over, e.g. `("serial", "tcp")`."""
    options: ClassVar[type[DeviceOptions]]
    search_rank: ClassVar[int | None] = None
    """Whose turn to `search` is first: the question that others could least take for a command is; None: it cannot."""
    profiles: ClassVar[Path | None] = None
    """Folder of the profiles that come with it, options for one make of instrument a file; None: there are none."""

    @staticmethod
    @abstractmethod
    def connect(options: Any, line: Any) -> Device:
        """Make a device with these `options` on a line of one of the schemes; sends nothing yet."""

    @staticmethod
    def search(line: Line, units: Sequence[int], deadline: Deadline, /) -> Sequence[Found]:
        """Return who answers; of Modbus units, those with these addresses. Nothing is sent that changes anything."""
        return ()


class OpenLine(Protocol):
    """Makes a line for a URL; found through the entry-point group `rigctl.lines`, one per scheme."""

    def __call__(self, url: str, clock: Clock) -> Line:
        """Make the line at `url`, still closed. Raises `ValueError` if the URL does not hold."""
