"""What is known of a running campaign: follows its events, draws nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rigctl.campaign import events
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.status import UnderWay
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.core.money import Micros
from rigctl.core.multi_objective.pareto import non_dominated
from rigctl.rig.metering import trial_s
from rigctl.rig.values import Alarm, Seen

LAST_TRIALS = 8


@dataclass(frozen=True, slots=True)
class Labels:
    """Holds names and units, as shown."""

    rig: str
    currency: str
    units: Mapping[str, str]
    """Of variables, by name."""
    outcomes: Mapping[str, str]
    """Units of all outcomes by name, the first one first."""
    signs: tuple[float, ...]
    """In that order: 1 where more is better, -1 where less is."""
    wired: bool = True
    """Whether instruments meter what trials cost; else a person tells it."""
    costs_told: bool = False
    """Whether the configuration says it."""

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Labels:
        problem = loaded.problem
        outcomes = {loaded.rig.outcome_name: loaded.outcome_unit, **{f.name: f.unit for f in problem.further}}
        better = (problem.maximise, *(f.maximise for f in problem.further))
        return cls(
            rig=loaded.name,
            currency=loaded.currency,
            units=_shown({v.name: v.unit for v in problem.space.variables}),
            outcomes=_shown(outcomes),
            signs=tuple(1.0 if more else -1.0 for more in better),
            wired=loaded.wired,
            costs_told=problem.costs_told,
        )

    @property
    def outcome(self) -> str:
        return next(iter(self.outcomes))

    @property
    def further(self) -> tuple[str, ...]:
        return tuple(self.outcomes)[1:]


def _shown(units: Mapping[str, str]) -> Mapping[str, str]:
    return {name: "" if unit == "1" else unit for name, unit in units.items()}


@dataclass(frozen=True, slots=True)
class Pace:
    """Says how long a trial takes at least, and what may be dosed."""

    speedup: float
    """Rig seconds per wall second."""
    least_s: float
    """Of a trial, rig time: what preparing waits, settling and measuring take."""
    day_ml: Mapping[str, float]
    """Caps of 24 h, by pump."""
    most_doses: Mapping[str, int]
    """In one trial, by pump."""

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Pace:
        rig = loaded.rig
        return cls(
            speedup=rig.speedup,
            least_s=trial_s(rig.timing),
            day_ml={n: limits.per_day_ml for n, limits in rig.limits.items() if limits.per_day_ml is not None},
            most_doses={n: dosing.max_doses for n, dosing in rig.dosing.items()},
        )


@dataclass(slots=True)
class Board:
    """Keeps the state of affairs; mutable, used in one thread only."""

    labels: Labels
    pace: Pace
    budget: Micros
    spent: Micros = 0
    batches: events.Batches | None = None
    """Run for production; None: it is trials of the campaign that are run."""
    trials: int = 0
    before: int = 0
    """Trials of earlier runs, whose outcomes the board does not know."""
    now_s: float = 0.0
    """Rig time, as last told."""
    trial: UnderWay | None = None
    best: TrialRow | None = None
    front: tuple[TrialRow, ...] = ()
    """Trials whose outcomes no other one's beat all together; empty where there is one outcome only."""
    recent: deque[TrialRow] = field(default_factory=lambda: deque(maxlen=LAST_TRIALS))
    readings: Mapping[str, Seen] = field(default_factory=dict)
    alarms: deque[Alarm] = field(default_factory=lambda: deque(maxlen=3))
    pausing: str = ""
    """Why no trial goes on just now; empty while they do."""
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_TRIALS))
    """What the last trials took from the first move to the last reading, rig time."""
    result: events.CampaignResult | None = None

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Board:
        return cls(Labels.of(loaded), Pace.of(loaded), loaded.problem.budget)

    def follow(self, event: events.CampaignEvent) -> None:
        match event:
            case events.CampaignStarted():
                self.trials, self.spent, self.budget = event.trials, event.spent, event.budget
                self.before, self.batches = event.trials, event.batches
            case events.TrialProposed() | events.TrialStep(state=State.LOOKING):
                self.trial = UnderWay.of(event, self.trial)
                self.now_s = event.at_s if isinstance(event, events.TrialStep) else self.now_s
            case events.TrialStep() | events.TrialLooked() | events.Dosed() if self.trial is not None:
                self.trial.follow(event)
                self._timed(event, self.trial)
            case events.RigSeen():
                self.now_s, self.readings = event.now_s, event.readings
            case events.TrialEnded() | events.OutcomeCame():
                self._over(event)
            case events.PhaseChanged():
                self.pausing = "" if event.phase == "RUNNING" else f"{event.phase.lower()}: {event.why}"
            case events.AlarmRaised():
                self.alarms.append(event.alarm)
            case events.CampaignEnded():
                # one that ends while it starts has told nothing before
                self.result, self.spent, self.budget = event.result, event.result.spent, event.result.budget
            case _:
                pass

    def _over(self, event: events.TrialEnded | events.OutcomeCame) -> None:
        if isinstance(event, events.TrialEnded):
            self.spent, self.budget = event.spent, event.budget
            self.batches = event.batches or self.batches
        self.take(event.row)

    def take(self, row: TrialRow) -> None:
        """Take in a trial that is over, or whose outcome has come later."""
        self.trials = max(self.trials, row.trial)
        if self.trial is not None and self.trial.trial == row.trial:
            self.trial.state, self.trial.until_s = row.state, {}
        earlier = [place for place, known in enumerate(self.recent) if known.trial == row.trial]
        if earlier:
            self.recent[earlier[0]] = row
        else:
            self.recent.append(row)
        self._compare(row)

    def _timed(self, event: events.CampaignEvent, trial: UnderWay) -> None:
        if not isinstance(event, events.TrialStep):
            return
        self.now_s = event.at_s
        if event.state is State.MEASURED and trial.begun_s is not None:
            self.took_s.append(event.at_s - trial.begun_s)

    @property
    def usual_s(self) -> float:
        """Return what a trial takes from its first move, wall seconds times the speedup."""
        return max(self.pace.least_s, sum(self.took_s) / len(self.took_s)) if self.took_s else self.pace.least_s

    @property
    def trial_left_s(self) -> float | None:
        """Return what the trial under way takes yet, wall seconds; None where none is."""
        if self.trial is None or self.trial.state.charged:
            return None
        return self.trial.left_s(self.now_s, self.usual_s) / self.pace.speedup

    @property
    def trials_left(self) -> float | None:
        """Return how many more trials the budget buys at what they have cost so far; None before the first.

        None of production, too, which no budget bounds.
        """
        if not self.spent or not self.trials or self.batches is not None:
            return None
        return max(0.0, (self.budget - self.spent) * self.trials / self.spent)

    def _compare(self, row: TrialRow) -> None:
        """Compare *observed* outcomes; the recommendation looks at expectations instead."""
        if row.state is not State.RECORDED or row.outcome is None:
            return
        if len(row.further) == len(self.labels.further) > 0:
            rows = (*self.front, row)
            values = np.array([[r.outcome, *(r.further[name] for name in self.labels.further)] for r in rows])
            kept = non_dominated(np.array(self.labels.signs) * values.astype(float))
            self.front = tuple(r for r, keep in zip(rows, kept, strict=True) if keep)
        best = None if self.best is None else self.best.outcome
        if best is None or self.labels.signs[0] * (row.outcome - best) > 0:
            self.best = row
