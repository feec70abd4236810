"""What is known of a running campaign: follows its events, draws nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rigctl.campaign.events import (
    AlarmRaised,
    CampaignEnded,
    CampaignEvent,
    CampaignResult,
    CampaignStarted,
    TrialEnded,
    TrialProposed,
    TrialStep,
)
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.core.money import Micros
from rigctl.rig.values import Alarm

LAST_TRIALS = 8


@dataclass(frozen=True, slots=True)
class Labels:
    """Names and units, as shown."""

    rig: str
    outcome: str
    outcome_unit: str
    currency: str
    units: Mapping[str, str]
    maximise: bool

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Labels:
        """A configuration's."""
        return cls(
            rig=loaded.name,
            outcome=loaded.rig.outcome_name,
            outcome_unit="" if loaded.outcome_unit == "1" else loaded.outcome_unit,
            currency=loaded.currency,
            units={v.name: "" if v.unit == "1" else v.unit for v in loaded.problem.space.variables},
            maximise=loaded.problem.maximise,
        )


@dataclass(slots=True)
class Board:
    """The state of affairs; mutable, used in the event loop only."""

    labels: Labels
    budget: Micros
    spent: Micros = 0
    trials: int = 0
    proposed: TrialProposed | None = None
    state: State | None = None
    best: TrialRow | None = None
    recent: deque[TrialRow] = field(default_factory=lambda: deque(maxlen=LAST_TRIALS))
    alarms: deque[Alarm] = field(default_factory=lambda: deque(maxlen=3))
    result: CampaignResult | None = None

    def follow(self, event: CampaignEvent) -> None:
        """Take in one event."""
        match event:
            case CampaignStarted():
                self.trials, self.spent, self.budget = event.trials, event.spent, event.budget
            case TrialProposed():
                self.proposed, self.state = event, State.PROPOSED
            case TrialStep():
                self.state = event.state
            case TrialEnded():
                self.state, self.trials = event.row.state, event.row.trial
                self.spent, self.budget = event.spent, event.budget
                self.recent.append(event.row)
                self._compare(event.row)
            case AlarmRaised():
                self.alarms.append(event.alarm)
            case CampaignEnded():
                self.result = event.result

    def _compare(self, row: TrialRow) -> None:
        """The best *observed* outcome; the recommendation looks at expectations instead."""
        if row.state is not State.RECORDED or row.outcome is None:
            return
        best = None if self.best is None else self.best.outcome
        if best is None or (row.outcome > best if self.labels.maximise else row.outcome < best):
            self.best = row
