"""What the page shows, as frozen values: everything is worked out here, nothing in a browser.

Money is in currency units, outcomes and variables in their own units, `utc` is ISO 8601 by the wall clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any, Literal

from rigctl.campaign.answered import GivenAnswer
from rigctl.campaign.journal.alarms import Alarms, AlarmState
from rigctl.campaign.journal.glance import MeterSum
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.status import ActiveFinding
from rigctl.config.load import LoadedConfig
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.experiment.persistence import ReadBefore
from rigctl.text import Names, shown_unit


@dataclass(frozen=True, slots=True)
class ShownOutcome:
    """One outcome as it is named."""

    name: str
    unit: str
    maximise: bool = True
    shown: str = ""
    """What people read instead of the name; empty: the name."""
    limits: tuple[float, float] = (-inf, inf)
    """Of a further outcome, its own unit."""

    @property
    def label(self) -> str:
        return self.shown or self.name


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """Holds names and units; a unit of 1 is shown as nothing."""

    rig: str
    currency: str
    units: Names
    """Of the variables, in their order."""
    outcomes: tuple[ShownOutcome, ...]
    """The first one is the one that is optimised."""
    wired: bool = True
    """Whether instruments meter what trials cost; else a person tells it."""
    costs_told: bool = False
    """Whether the configuration says it."""

    @classmethod
    def of(cls, loaded: LoadedConfig) -> ShownLabels:
        problem, rig = loaded.problem, loaded.rig
        signs = (problem.maximise, *(f.maximise for f in problem.further))
        limits = ((-inf, inf), *(f.limits for f in problem.further))
        outcomes = tuple(
            ShownOutcome(o.name, shown_unit(o.unit), maximise, o.label or "", kept)
            for o, maximise, kept in zip(rig.outcomes, signs, limits, strict=True)
        )
        names = loaded.name, loaded.currency, problem.space.units
        return cls(*names, outcomes, loaded.wired, problem.costs_told)

    @property
    def outcome(self) -> ShownOutcome:
        return self.outcomes[0]

    @property
    def further(self) -> tuple[str, ...]:
        return tuple(outcome.name for outcome in self.outcomes[1:])

    def keeps(self, row: TrialRow) -> bool:
        """Tell whether a trial's further outcomes were within their limits, as far as they were measured."""
        measured = ((o.limits, row.further.get(o.name)) for o in self.outcomes[1:])
        return all(value is None or low <= value <= high for (low, high), value in measured)

    @property
    def outcome_units(self) -> Names:
        labels = {outcome.name: outcome.shown for outcome in self.outcomes if outcome.shown}
        return Names({outcome.name: outcome.unit for outcome in self.outcomes}, labels)

    @property
    def names(self) -> Names:
        """Return variables and outcomes together."""
        both = (self.units, self.outcome_units)
        return Names({**both[0], **both[1]}, {**both[0].labels, **both[1].labels}, self.units.levels)

    @property
    def signs(self) -> tuple[float, ...]:
        """Return 1 for each outcome where more is better, -1 where less is."""
        return tuple(1.0 if outcome.maximise else -1.0 for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class Phase:
    """What the campaign as a whole does."""

    word: str
    """`running`, `holding`, `waiting`, `paused`, `ended`, `tripped`, `not running`, `starting` or `by hand`."""
    why: str = ""
    since: str = ""
    """UTC."""
    abnormal: bool = False
    paused: bool = False
    """Whether a person has paused it, from after the trial under way if there is one."""


@dataclass(frozen=True, slots=True)
class WorstActive(ActiveFinding):
    """The worst of what is wrong now."""

    others: int = 0
    """Number of further active findings."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a trial."""

    name: str
    state: Literal["done", "now", "coming", "stopped"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A controlled variable: what it was set to, and what was measured."""

    name: str
    setpoint: str
    """With its unit."""
    measured: str


@dataclass(frozen=True, slots=True)
class Pump:
    """What one pump has given, against its caps, mL."""

    name: str
    trial_ml: float
    doses: int
    day_ml: float
    per_dose_ml: float | None = None
    per_day_ml: float | None = None


@dataclass(frozen=True, slots=True)
class TrialNow:
    """The trial under way, or the last one."""

    trial: int
    control_set: tuple[str, ...]
    state: str
    under_way: bool
    steps: tuple[Step, ...]
    """Empty where a person did it."""
    left_s: float | None
    """Rig seconds until it is measured, as planned; None where that is not known."""
    pairs: tuple[Pair, ...]
    pumps: tuple[Pump, ...]
    outcome: float | None
    cost: float
    note: str = ""
    step_left_s: float | None = None
    """Rig seconds of the step that is lit."""
    read: str = ""
    """What the variables read before it was decided, in words; empty where nobody looked."""


@dataclass(frozen=True, slots=True)
class SetFact:
    """One control set, as the last decision saw it."""

    control_set: tuple[str, ...]
    label: str
    """What people read for it."""
    at: str
    """The setting that the band is of."""
    band: tuple[float, float, float] | None
    """Lowest, mean and highest that can be expected there; None: nothing is known yet."""
    price: float | None
    """Mean price of a whole trial; None: never metered."""
    price_low: float | None
    price_high: float | None
    """Ends of the 95 % interval of that mean; None with fewer than two trials."""
    least: float | None
    """What a trial costs at least by what the policy believed, where that tells more; reasons go by it."""
    trials: int
    spend: float
    chosen: bool
    eligible: bool
    why_not: str = ""
    """In words, where it is ruled out."""


@dataclass(frozen=True, slots=True)
class Why:
    """One decision, as a person can check it."""

    trial: int
    control_set: tuple[str, ...]
    phase: str
    """Of the policy, e.g. `explore`."""
    reason: str
    technical: str
    """The same in the terms of the policy's paper."""
    sets: tuple[SetFact, ...]
    """The cheapest first, those never metered last."""
    threshold: float | None
    notes: tuple[str, ...] = ()
    reads: tuple[ReadBefore, ...] = ()
    """What was read before it, by variable, and what is believed of that; empty where nobody looked."""


@dataclass(frozen=True, slots=True)
class Money:
    """The budget, and how long it lasts."""

    budget: float
    spent: float
    """By the campaign."""
    idle: float
    parts: tuple[MeterSum, ...]
    """The dearest first."""
    per_trial: float | None = None
    """Mean of the last trials, or what the one decided last is predicted to cost."""
    trials_left: tuple[int, int] | None = None
    """At the price of a dear trial, and of a cheap one, of the last."""
    days_left: float | None = None
    """Rig days, as fast as the last trials were."""
    trials_a_month: float | None = None
    """As fast as the last trials were; None where a person did them, at no pace."""
    operated: float = 0.0
    """By batches for production, beside the budget."""

    @property
    def all(self) -> float:
        return self.spent + self.operated


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the log."""

    utc: str
    trial: int | None
    kind: Literal["alarm", "dose", "step", "act"]
    severity: str
    """Of an alarm; empty for what is normal."""
    source: str
    text: str
    number: int = 0
    """Of an alarm that nobody has acknowledged, to do so by."""


@dataclass(frozen=True, slots=True)
class Course:
    """All trials in short, and the journal's last event and correction they were read at: one look goes on from it."""

    rows: tuple[TrialRow, ...] = ()
    event: int = 0
    correction: int = 0
    meters: tuple[MeterSum, ...] = ()
    """Of all trials."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """What is known of an instrument's upkeep."""

    name: str
    says: tuple[str, ...]
    """What is left, and how it is calibrated; phrases."""
    wrong: tuple[str, ...]
    """What is wrong with it, and the remedy; sentences."""
    held: bool
    """Whether control sets that need it are not played."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A trial whose outcome comes later."""

    trial: int
    control_set: tuple[str, ...]
    at: str
    """The setpoints, in words."""
    since: str
    due: str
    """When it is read, or given up; both UTC."""
    how: str
    """Who gives it: `hand`, a person, or `sensor`."""
    outcomes: tuple[ShownOutcome, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a journal (and a running campaign, if it answers) says, gathered at one instant."""

    now: datetime
    labels: ShownLabels
    phase: Phase
    worst: WorstActive | None
    trial: TrialNow | None
    why: Why | None
    money: Money
    course: Course = field(repr=False)
    log: tuple[LogEntry, ...] = ()
    log_of: int | None = None
    """The trial whose log it is; None: of all."""
    charged: int = 0
    """Trials that are over."""
    batches: int = 0
    """For production, if the last trial was one; 0: it was a trial of the campaign."""
    asks: bool = False
    """Whether a campaign runs that can be asked to do something, also one that has not answered just now."""
    alarms: tuple[AlarmState, ...] = ()
    """All of them, each once; active ones first."""
    heard: Alarms = field(default=Alarms(), repr=False, compare=False)
    """What they are made of."""
    version: str = ""
    speedup: float = 1.0
    """Rig seconds per wall second; only a simulated rig has another than 1."""
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Between what nine in ten readings lie when a variable is left alone, where this is declared."""
    instruments: tuple[Instrument, ...] = ()
    """Those of whose upkeep something is known."""
    awaited: tuple[Awaited, ...] = ()
    """Those that are due first come first."""
    answered: GivenAnswer | None = None
    """What `recommend` or the campaign's end has answered last: it stands in until there is a study."""
    drawn: dict[str, tuple[object, Any]] = field(default_factory=dict, repr=False, compare=False)
    """What was drawn, and of what: handed on from look to look, it saves time and decides nothing."""

    def behind(self, study: Study) -> int:
        """Return how many trials that are over a study does not know yet."""
        return self.charged - study.trials

    @property
    def unseen(self) -> int:
        """Return how many warnings there are that nobody has acknowledged."""
        return sum(alarm.condition in ("active", "over") and not alarm.note for alarm in self.alarms)

    @property
    def best(self) -> TrialRow | None:
        """Return the trial that gave the best outcome so far, of those within all limits."""
        rows = [row for row in self.recorded if row.outcome is not None and self.labels.keeps(row)]
        pick = max if self.labels.outcome.maximise else min
        return pick(rows, key=lambda row: row.outcome or 0.0, default=None)

    @property
    def recorded(self) -> tuple[TrialRow, ...]:
        """Return the trials that gave an outcome, in order."""
        return tuple(row for row in self.course.rows if row.recorded)


@dataclass(frozen=True, slots=True)
class Slice:
    """What is expected along one variable through the recommendation."""

    variable: str
    unit: str
    at: tuple[float, ...]
    """Engineering units, rising."""
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """95 % interval of what is expected."""
    tried: tuple[bool, ...]
    """Whether a trial was near."""
    chosen: float | None
    """Where the recommendation is; None: it leaves this variable alone."""


@dataclass(frozen=True, slots=True)
class Supply:
    """A stretch in which a variable that was left alone came from one supply."""

    variable: str
    first: int
    """Trial it began at."""
    last: int
    mean: float
    """Of its readings, engineering units."""


@dataclass(frozen=True, slots=True)
class Study:
    """What is worked out of the model once per trial, as it takes seconds."""

    trials: int
    """Charged trials it knows."""
    decision: int
    """The last trial that was chosen, of which `came` is; 0: none, or it is not sought."""
    recommendation: Recommendation | None
    """None before a trial has given an outcome."""
    slices: tuple[Slice, ...] = ()
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """As `Facts.bands`, as believed now."""
    supplies: tuple[Supply, ...] = ()
    """Where a supply has changed, its stretches before and after."""
    flips: tuple[str, ...] | None = None
    """The cheapest changes that would have flipped the choice of `flips_of`, in words; None: none was sought yet."""
    flips_of: int = 0
    came: tuple[str, ...] = ()
    """What came of the last trial that was chosen, against what was expected of it; sentences."""
    response: tuple[str, ...] = ()
    """How the response has changed, and whether plant or sensor has; sentences. Empty: not that anybody could tell."""
    notes: tuple[str, ...] = ()
    trouble: str = ""
    """Why the model says nothing; empty: it does."""
