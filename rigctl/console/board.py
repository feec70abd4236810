"""What is known of a running campaign: follows its events, draws nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rigctl.campaign import events
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.core.money import Micros
from rigctl.core.multi_objective.pareto import non_dominated
from rigctl.rig.values import Alarm

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
        )

    @property
    def outcome(self) -> str:
        return next(iter(self.outcomes))

    @property
    def further(self) -> tuple[str, ...]:
        return tuple(self.outcomes)[1:]


def _shown(units: Mapping[str, str]) -> Mapping[str, str]:
    return {name: "" if unit == "1" else unit for name, unit in units.items()}


@dataclass(slots=True)
class Board:
    """Keeps the state of affairs; mutable, used in the event loop only."""

    labels: Labels
    budget: Micros
    spent: Micros = 0
    trials: int = 0
    before: int = 0
    """Trials of earlier runs, whose outcomes the board does not know."""
    proposed: events.TrialProposed | None = None
    state: State | None = None
    best: TrialRow | None = None
    front: tuple[TrialRow, ...] = ()
    """Trials whose outcomes no other one's beat all together; empty where there is one outcome only."""
    recent: deque[TrialRow] = field(default_factory=lambda: deque(maxlen=LAST_TRIALS))
    alarms: deque[Alarm] = field(default_factory=lambda: deque(maxlen=3))
    pausing: str = ""
    """Why no trial goes on just now; empty while they do."""
    result: events.CampaignResult | None = None

    def follow(self, event: events.CampaignEvent) -> None:
        match event:
            case events.CampaignStarted():
                self.trials, self.spent, self.budget = event.trials, event.spent, event.budget
                self.before = event.trials
            case events.TrialProposed():
                self.proposed, self.state = event, State.PROPOSED
            case events.TrialStep():
                self.state = event.state
            case events.TrialEnded():
                self.state, self.trials = event.row.state, event.row.trial
                self.spent, self.budget = event.spent, event.budget
                self.recent.append(event.row)
                self._compare(event.row)
            case events.PhaseChanged():
                self.pausing = "" if event.phase == "RUNNING" else f"{event.phase.lower()}: {event.why}"
            case events.AlarmRaised():
                self.alarms.append(event.alarm)
            case events.CampaignEnded():
                self.result = event.result

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
