"""What the guard lets through: ranges, caps of pumps and tanks, hours, and how a setpoint may move. Frozen values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Final, Literal

from annotated_types import MinLen

from rigctl.kinds import Clash, DeviceName, PositiveSpan, PositiveVolume, Rate, Section, Volume
from rigctl.rig.calendar import HoursOfWeek
from rigctl.rig.slewing import Slew

HOUR_S, DAY_S = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class CapSpan:
    """What a cap counts over."""

    key: str
    """How the configuration calls it."""
    words: str
    """What so much is given in."""
    seconds: float | None
    """Rig seconds up to now, after which it comes free again; infinity: never; None: the trial under way."""

    @property
    def slides(self) -> bool:
        """Return whether it comes free again by waiting."""
        return self.seconds is not None and math.isfinite(self.seconds)

    def since_s(self, now_s: float) -> float | None:
        """Return the time from which what was given counts now, as `DoseLog.given_ml` takes it."""
        return None if self.seconds is None else now_s - self.seconds


SPANS: Final = (
    CapSpan("per_trial", "a trial", None),
    CapSpan("per_hour", "1 h", HOUR_S),
    CapSpan("per_day", "24 h", DAY_S),
    CapSpan("per_campaign", "the campaign", math.inf),
)
"""Of caps, from the narrowest to the widest."""


@dataclass(frozen=True, slots=True)
class Caps(Section):
    """Most that may be given, beside the cap of a single dose."""

    per_trial_ml: PositiveVolume | None = None
    """Most in one trial; a trial that needs more fails."""
    per_hour_ml: PositiveVolume | None = None
    """Most in any hour of rig time."""
    per_day_ml: PositiveVolume | None = None
    """Most in any 24 hours of rig time."""
    per_campaign_ml: PositiveVolume | None = None
    """Most in the whole campaign; then nothing that needs it is chosen any more."""

    @property
    def most_ml(self) -> Mapping[CapSpan, float]:
        """Return the caps that there are, those of the narrowest span first."""
        caps = {span: getattr(self, f"{span.key}_ml") for span in SPANS}
        return {span: most_ml for span, most_ml in caps.items() if most_ml is not None}

    def clashes(self) -> Iterator[Clash]:
        """A wider span may not have a smaller cap, for it would never be reached."""
        spans = [(span.key, most_ml) for span, most_ml in self.most_ml.items() if span.seconds is not None]
        for (key, most_ml), (wider, wider_ml) in pairwise(spans):
            if most_ml > wider_ml:
                yield Clash(key, f"must be at most {wider}: {{{wider}}}", (wider,))


@dataclass(frozen=True, slots=True)
class LimitSpec(Caps):
    """Caps of one pump; hours of any actuator."""

    per_dose_ml: Volume | None = None
    """Largest single dose."""
    allowed: HoursOfWeek | None = None
    """When it may be driven: "08:00-18:00", "Mon-Fri 08:00-18:00", or a list of such; default: always."""
    max_step: PositiveSpan | None = None
    """Largest change of its setpoint in one command, the variable's unit; larger ones are made in steps."""
    max_rate_per_s: Rate | None = None
    """Fastest change of its setpoint, e.g. 10 uM/min; larger ones are made in steps."""

    def clashes(self) -> Iterator[Clash]:
        """No dose may be larger than all of a day."""
        if self.per_dose_ml is not None and self.per_day_ml is not None and self.per_dose_ml > self.per_day_ml:
            yield Clash("per_dose", "must be at most per_day: {per_day}", ("per_day",))
        yield from Caps.clashes(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorLimits(LimitSpec):
    """What the guard lets through to one actuator, engineering units."""

    low: float
    high: float
    safe_state: Literal["off"] | float
    """`off` releases (or stops) it; a number is applied."""

    @property
    def slew(self) -> Slew | None:
        """Return how its setpoint may move; None: at once."""
        if self.max_step is None and self.max_rate_per_s is None:
            return None
        return Slew(self.max_step or math.inf, self.max_rate_per_s or math.inf)


@dataclass(frozen=True, slots=True)
class TankSpec(Caps):
    """Caps of all pumps together that feed one tank, or draw from it."""

    pumps: Annotated[tuple[DeviceName, ...], MinLen(1)] = field(kw_only=True)
    """The pumps."""


@dataclass(frozen=True, slots=True)
class CapSpec(TankSpec):
    """What one pump, or all pumps of one tank together, may give."""

    name: str = field(kw_only=True)
    """Of the pump or the tank."""

    @property
    def windows(self) -> tuple[tuple[float, float, str], ...]:
        """Return the caps that come free again: rig seconds, mL, and in words."""
        held = ((span.seconds, most_ml, span.words) for span, most_ml in self.most_ml.items() if span.slides)
        return tuple((span_s, most_ml, words) for span_s, most_ml, words in held if span_s is not None)


def caps_of(limits: Mapping[str, Caps], tanks: Mapping[str, TankSpec]) -> tuple[CapSpec, ...]:
    """Return all caps but those of single doses: of pumps by themselves, then of tanks."""

    def named(name: str, pumps: tuple[str, ...], caps: Caps) -> CapSpec:
        return CapSpec(
            caps.per_trial_ml, caps.per_hour_ml, caps.per_day_ml, caps.per_campaign_ml, pumps=pumps, name=name
        )

    own = [named(name, (name,), caps) for name, caps in limits.items() if caps.most_ml]
    return (*own, *(named(name, tank.pumps, tank) for name, tank in tanks.items()))
