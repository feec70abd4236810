"""What the rig reports upwards: measurements, alarms, what reached its safe state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rigctl.printable import printable
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import Action


@dataclass(frozen=True, slots=True)
class Measurement:
    """A window of samples of one sensor, reduced."""

    value: float
    """The statistic of the valid samples, engineering units; NaN when INVALID."""
    spread: float
    """Standard deviation of the valid samples."""
    count: int
    """Valid samples."""
    invalid: int = 0
    """Samples that were INVALID or could not be read."""
    severity: Severity = Severity.NONE
    detail: str = ""


AlarmMark = Literal["stands", "over", "once"]
"""Its cause lasts, and another alarm of the same kind and source says when it is gone; that other alarm; neither."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Tells a person of something; recorded whatever happens next."""

    severity: Severity
    source: str
    """Names the device, or the part of the campaign, that it is about."""
    message: str
    detail: str = ""
    """A traceback, for whoever mends it."""
    kind: str = field(kw_only=True)
    """What is wrong in a few words of the field, e.g. `dose unknown`; kind and source are the alarm's identity."""
    state: AlarmMark = field(default="once", kw_only=True)
    action: Action | Literal[""] = field(default="", kw_only=True)
    """What the watch does because of it."""

    def __post_init__(self) -> None:
        for name in ("source", "message", "detail"):
            object.__setattr__(self, name, printable(getattr(self, name)))


class News:
    """Where every part of a rig or campaign tells what a person should know, by how much it matters; here nobody hears.

    `source` names the device, or the part of the campaign, that it is about; source and `kind` together are its key.
    """

    def alarm(self, alarm: Alarm) -> None:
        """Pass it on: in the event loop, and at once."""

    def once(self, severity: Severity, source: str, message: str, detail: str = "", *, kind: str) -> None:
        self.alarm(Alarm(severity, source, message, detail, kind=kind))

    def major(self, source: str, message: str, detail: str = "", *, kind: str) -> None:
        """Tell what somebody should see to."""
        self.once(Severity.MAJOR, source, message, detail, kind=kind)

    def minor(self, source: str, message: str, detail: str = "", *, kind: str) -> None:
        """Tell what nobody need acknowledge."""
        self.once(Severity.MINOR, source, message, detail, kind=kind)

    def stands(self, source: str, message: str, severity: Severity = Severity.MAJOR, *, kind: str) -> None:
        """Tell what stands until it is over; somebody should see to it, unless it is MINOR."""
        self.alarm(Alarm(severity, source, message, kind=kind, state="stands"))

    def over(self, source: str, message: str, *, kind: str) -> None:
        """Tell that it is over."""
        self.alarm(Alarm(Severity.MINOR, source, message, kind=kind, state="over"))


@dataclass(frozen=True, slots=True)
class SafeReport:
    """The outcome of driving everything to its safe state."""

    reached: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Actuator -> why it could not be brought there (or confirmed)."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The same for people: by line where several on it give no answer; empty where nobody has gathered it."""

    @property
    def ok(self) -> bool:
        """Tell whether every actuator is confirmed safe."""
        return not self.failed


@dataclass(frozen=True, slots=True)
class SafeTimes:
    """How long going safe takes at most while every device answers as it should, wall seconds."""

    told_s: float
    """Until everything has been told, beginning with a question under way on every bus that has to be cut short."""
    confirmed_s: float
    """Until everything has been asked as well."""
    by_bus: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Both for each bus that has something to make safe, by its URL; buses go safe side by side."""


@dataclass(frozen=True, slots=True)
class OpenDose:
    """A dose whose end the journal does not know, e.g. after a crash."""

    dose: int
    actuator: str
    volume_ml: float
    total_before_ml: float


@dataclass(frozen=True, slots=True)
class SeenReading:
    """What is known of one reading, for the watch."""

    value: float | None
    """The last valid one, engineering units; None: there was none yet."""
    unit: str
    age_s: float
    """Wall seconds since then, or since the watch first asked."""
    same_for_s: float = 0.0
    """Rig seconds over which readings have been the same to the last bit."""
    detail: str = ""
    """Why the last attempt gave no valid reading."""
    stale_after_s: float | None = None
    """Wall seconds; None: the watch does not go by this reading."""
    frozen_after_s: float | None = None
    """Rig seconds."""
    must_be_fresh: bool = False
    """Whether a stale reading is wrong by itself, not only where an interlock needs it."""

    @property
    def too_old(self) -> bool:
        return self.stale_after_s is not None and self.age_s > self.stale_after_s


@dataclass(frozen=True, slots=True)
class RigGlance:
    """What the rig was last seen to be."""

    readings: Mapping[str, SeenReading] = field(default_factory=dict)
    """By variable, outcome or watched device."""
    astray: Mapping[str, str] = field(default_factory=dict)
    """Driven actuators that twice in a row did not hold what they were sent, and what they say instead."""
    strays: Mapping[str, str] = field(default_factory=dict)
    """Pumps that ran, since they last stood still for a while, although nothing was asked of them."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """Sensors with a confirmed step beyond their plausible rate."""
    driven: Mapping[str, float] = field(default_factory=dict)
    """What is imposed now, by actuator."""
    quiet: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lines on which no sensor was read for so long that their readings are stale, and which readings these are."""
    stuck: Mapping[str, str] = field(default_factory=dict)
    """Buses whose driver has overrun its deadline and holds the line."""
    exchanges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Exchanges that failed, and reads that were repeated, by bus, since the rig was opened."""
