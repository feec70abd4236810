"""Abilities that a device may have besides those of `rigctl.rig.protocols`; each is asked for, none is required."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from rigctl.rig.protocols import Actuator, Deadline, Identity, Line, Reading

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a healthy device takes over its part in going safe, wall seconds, answer included."""

    command_s: float
    """The command itself."""
    confirm_s: float
    """Asking afterwards whether it holds."""


@runtime_checkable
class Paced(Protocol):
    """A device that knows how long its exchanges take; of one that does not, its timeout is assumed for each."""

    def pace(self) -> Pace:
        """Reckon it from baud, latency and frame lengths; sends nothing."""


@runtime_checkable
class SafeTogether(Protocol):
    """An actuator that can go to its safe state in one exchange with its neighbours."""

    def safe_group(self) -> Hashable | None:
        """Name the group: those with equal ones may go together, e.g. coils of one unit; None: this one goes alone."""

    def safe_all(self, group: Sequence[Actuator], deadline: Deadline) -> None:
        """Send all of the group (this one among them) to their safe states in as few frames as can be.

        Raises:
            DeviceFault: the device refuses such frames; each must be told by itself.
        """

    def safe_all_s(self, group: Sequence[Actuator]) -> float:
        """Return how long that takes with a healthy device, wall seconds; sends nothing."""


@runtime_checkable
class SaysSimulated(Protocol):
    """A device that can be asked whether it is simulated; rig time may run faster than the wall only on such a rig."""

    def simulated(self, deadline: Deadline) -> bool:
        """Tell whether it says of itself that it is simulated; False where it cannot say."""


@runtime_checkable
class AsksAgain(Protocol):
    """A line that repeats a read by itself after a spoilt answer."""

    @property
    def read_retries(self) -> int:
        """Return how often it has done so."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a device says of its calibration."""

    points: int | None
    """Of how many points it is; 0: it has none; None: it does not say."""
    slopes: tuple[float, ...] = ()
    """Percent of an ideal probe's, as it lists them; empty where it does not."""
    detail: str = ""
    """Its own words."""


@runtime_checkable
class KnowsCalibration(Protocol):
    """A device that knows whether it is calibrated."""

    def calibration(self, deadline: Deadline) -> Calibration:
        """Ask it; changes nothing."""


@runtime_checkable
class Calibratable(KnowsCalibration, Protocol):
    """A pump that can be told what it really dispensed the last time."""

    def calibrate(self, volume_ml: float, deadline: Deadline) -> None:
        """Tell it that its last dose was this volume, as a person has measured it. Sent once."""


@runtime_checkable
class Anonymous(Protocol):
    """A device that cannot be told from another of its kind: identifying it shows only that something answers."""

    anonymous: bool
    """True: before a safe command it need not be recognised, for there is nothing to recognise it by."""


def said(question: Callable[[], T], otherwise: T) -> T:
    """Return what a device says of itself; no driver's bug in saying it may keep anything from going safe."""
    try:
        return question()
    except Exception:  # noqa: BLE001 -- `check_driver` finds it; here there is another way
        return otherwise


class Heart(Protocol):
    """What keeps a device's watchdog from making its outputs safe."""

    every_s: float
    """Wall seconds between two heartbeats."""

    def beat(self, deadline: Deadline) -> None:
        """Write the next heartbeat; sent once, and may be followed by another at any time."""

    def check(self, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless the last heartbeat arrived, and the watchdog is on, with a sane time."""


@runtime_checkable
class Fed(Protocol):
    """A device whose outputs may be watched over by the device itself."""

    heart: Heart | None
    """None: nothing is to be fed."""


@runtime_checkable
class Compensated(Protocol):
    """A sensor whose reading depends on a temperature that another one reads."""

    temperature_from: str | None
    """Name of the device that reads it, degC; None: nothing is compensated."""

    def take_temperature(self, reading: Reading) -> None:
        """Note the temperature for the readings that follow, also one that is INVALID; sends nothing."""


@runtime_checkable
class NoticesLoss(Protocol):
    """A line that opens its port anew by itself, and can say beforehand that it will have to."""

    def is_lost(self) -> bool:
        """Tell whether the port is closed, its other end has gone, or it was opened anew since this was last asked.

        Asks nobody, and takes nothing that has come.
        """

    def stay(self) -> None:
        """Open no other port until `is_lost` is asked again: what follows is for who was recognised on this one."""


@runtime_checkable
class Settles(Protocol):
    """A line whose silence after a timeout ends where time does: because something urgent waits, perhaps."""

    def settle(self, deadline: Deadline, *, command: bool = False) -> bool:
        """Do as `resync`, up to the deadline at most; tell whether no late answer can come any more.

        A `command` waits for nothing that `press_on` has waived.
        """


@runtime_checkable
class KeepsQuiet(Protocol):
    """A line that knows how long it stays silent after a question without an answer."""

    def quiet_for_s(self, *, pressed_on: bool) -> float:
        """Return how long the next question waits at most, wall seconds; `pressed_on`: though that was waived."""


# abilities of a driver: asked of its class, of options alone, so that nothing need be connected ---------------------


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


@runtime_checkable
class Occupies(Protocol):
    """A driver that knows what its devices use of their line; of another one a byte line is kept as a whole."""

    @staticmethod
    def occupies(options: Any) -> Sequence[ClaimedPlace]:
        """Return all that a device with these options uses."""


@runtime_checkable
class Fits(Protocol):
    """A driver that knows which setpoints its devices can hold."""

    @staticmethod
    def misfits(options: Any, setpoints: Sequence[float]) -> Sequence[str]:
        """Say why some of these, or of those among the options, cannot be held, one sentence each."""


@runtime_checkable
class Rounds(Protocol):
    """A driver that knows what becomes of a setpoint on its way: a register has steps, a command few digits."""

    @staticmethod
    def rounded(options: Any, setpoint: float) -> float:
        """Return what a device with these options holds once it was sent this; it never falls as that rises."""


@runtime_checkable
class Feeds(Protocol):
    """A driver whose devices may have a watchdog."""

    @staticmethod
    def watchdog(options: Any) -> tuple[str, bool]:
        """Name the part of the line whose outputs go safe together, and tell whether a device so described feeds it."""


@runtime_checkable
class Grained(Protocol):
    """A driver of meters that knows how finely they count."""

    @staticmethod
    def grain(options: Any, total: float) -> float:
        """Return the smallest step of the counter at this count, unit of the meter; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class Found:
    """An instrument that answered somebody who looked who is there."""

    driver: str
    options: Mapping[str, Any]
    """Of the driver, as far as they are known; an instrument of many quantities needs more."""
    identity: Identity
    name: str
    """What people call it, or what it is, as a beginning of a device's name."""
    channels: Sequence[tuple[Mapping[str, Any], str]] = ()
    """What else was seen there: further options, and in words what stands there now."""


@runtime_checkable
class Looks(Protocol):
    """A driver that can look, by questions alone, for its instruments on a line that nobody has described."""

    look_rank: ClassVar[int]
    """Whose turn is first: the question that another kind of instrument could least take for a command is."""

    @staticmethod
    def look(line: Line, units: Sequence[int], deadline: Deadline, /) -> Sequence[Found]:
        """Return who answers; of Modbus units, those with these addresses. Nothing is sent that changes anything."""
