"""Past decisions made again: all of them, which must come out the same bit for bit; and one, in hindsight.

Hindsight says what would have changed a decision, and what came of it. Both read the journal only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rigctl.campaign.decide import Question, as_decided, decide, explore, last_that_worked, without_answer
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import StartRow, TrialRow
from rigctl.campaign.production import for_production, told_by
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import Decision, Origin
from rigctl.core.advice.aftermath import CameOf, came_of
from rigctl.core.advice.flips import Counterfactuals
from rigctl.core.counterfactuals import MOST, NO_ANSWER, NOTHING, Price, Situation, counterfactuals
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import Micros, to_units
from rigctl.core.experiment.policy import BudgetSpent, Finished, Proposal
from rigctl.core.experiment.problem import JsonState
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.policies.fallback import REPEAT
from rigctl.errors import PolicyError, counted
from rigctl.provenance import deciding_code, difference
from rigctl.text import set_label

# All decisions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplayedTrial:
    """One decision, compared."""

    trial: int
    origin: Origin
    """Of trials done by hand the suggestion is recomputed, if there was one; of those decided too late the fallback."""
    differences: tuple[str, ...]
    code: str
    """In what the code that decided it is not today's, in words; empty if it is."""
    decided: bool = True
    """False for a trial done by hand for which no suggestion was kept."""

    @property
    def agrees(self) -> bool:
        """Tell whether control set, setting and the policy's memory came out the same."""
        return not self.differences


def replay(reader: Reader, spec: CampaignSpec) -> Iterator[ReplayedTrial]:
    """Recompute every decision in order, each from what was known then: history, policy state, budget, seed."""
    now, deciders, suggested = deciding_code(spec.policy), reader.deciders(), reader.people.suggestions()
    operations = reader.batches.operations().items()
    batches = {n: for_production(spec, told_by(told, spec.policy, spec.seed)) for n, told in operations}
    histories: dict[int, History] = {}
    for row in reader.trials():
        made: Decision = row
        decider = deciders.get(row.trial)
        if row.by_hand is not None and row.by_hand.suggestion is not None:
            made = suggested[row.by_hand.suggestion]
            decider = reader.decider_of(row.by_hand.suggestion)
        if made.corrections not in histories:
            histories[made.corrections] = reader.history(spec.problem.space, corrections=made.corrections)
        known = _before(histories[made.corrections], row.trial)
        differences = tuple(_differences(reader, batches.get(row.trial, spec), made, known))
        yield ReplayedTrial(row.trial, row.origin, differences, _other_code(decider, now), made.proposal is not None)


def _before(history: History, trial: int) -> History:
    earlier = (o for o in history.observations if o.trial < trial)
    return History.of(earlier, corrections=history.corrections)


def _other_code(decider: StartRow | None, now: Mapping[str, str]) -> str:
    if decider is None:
        return ""
    if decider.code is None:
        return f"rigctl {decider.version}, which did not note its code"
    return difference(decider.code, now)


def _differences(reader: Reader, spec: CampaignSpec, row: Decision, history: History) -> Iterator[str]:
    if row.proposal is None:
        return
    if len(history) != row.history_length:
        yield f"history: decided on {counted(row.history_length, 'trial')}, the journal has {len(history)} before it"
        return
    problem = as_decided(spec.problem, row)
    question = Question(spec.decides, problem, row.seed, history, reader.policy_state(before=row.trial))
    try:
        again = _again(reader, row, row.proposal, question)
    except BudgetSpent as spent:
        yield f"now finds that nothing fits the budget: {spent}"
        return
    except Finished as finished:
        yield f"now finds that the policy's stopping rule fires: {finished}"
        return
    yield from _compared(row, again)


def _again(reader: Reader, row: Decision, played: Proposal, question: Question) -> Decision:
    """Decide anew; a policy that gave no answer is not asked again: it might do as it did then."""
    if row.origin != "timed-out":
        return decide(question)
    if played.phase != REPEAT:
        return explore(question, "timed-out", row.note)
    return without_answer(
        question, last_that_worked(t for t in reader.trials(row.corrections) if t.trial < row.trial), row.note
    )


def _compared(row: Decision, again: Decision) -> Iterator[str]:
    if again.origin != row.origin:
        yield f"origin: was {row.origin}, is {again.origin} ({again.note or 'the proposal can be played now'})"
    if again.control_set != row.control_set:
        yield f"control set: was {set_label(row.control_set)}, is {set_label(again.control_set)}"
    elif again.proposal is not None and row.proposal is not None and again.proposal.setting != row.proposal.setting:
        yield f"setting: was {list(row.proposal.setting)}, is {list(again.proposal.setting)}"
    # As text, so that NaN equals NaN.
    if json.dumps(again.policy_state, sort_keys=True) != json.dumps(row.policy_state, sort_keys=True):
        yield "policy state: differs"


# One decision in hindsight --------------------------------------------------------------------------------------------

PER = {"energy": (1.0, "kWh"), "volume": (1000.0, "L"), "time": (1.0, "h"), "fixed": (1.0, "trial")}
"""By a meter's kind: how many of its own units people speak of, and what these are called."""


def situation_before(reader: Reader, spec: CampaignSpec, row: TrialRow) -> Situation:
    """Return all that the decision of a trial depended on, as it was known then."""
    further = [f.name for f in spec.problem.further]
    known = reader.history(spec.problem.space, further, corrections=row.corrections)  # as it was known then
    problem, history = as_decided(spec.problem, row), _before(known, row.trial)
    return Situation(spec.policy, reader.policy_state(before=row.trial), problem, history, row.seed)


def asked(situation: Situation) -> str | None:
    """Decide as a campaign does, safe exploration included."""
    s = situation
    try:
        decision = decide(Question(s.policy, s.problem, s.seed, s.history, s.state))
    except Finished:
        return NOTHING
    except PolicyError:
        return NO_ANSWER
    return set_label(decision.control_set)


def prices(reader: Reader, spec: CampaignSpec) -> tuple[Price, ...]:
    """Return what every meter's consumption has cost, by trial."""
    amounts: dict[str, dict[int, Micros]] = {}
    for line in reader.ledger():
        amounts.setdefault(line.meter, {})[line.trial] = line.amount
    charged = ((m, *PER[m.kind], amounts[m.name]) for m in spec.rig.meters if m.name in amounts)
    return tuple(Price(m.name, float(m.mean_price) * units, per, of) for m, units, per, of in charged)


def flips_of(
    situation: Situation, row: TrialRow, priced: tuple[Price, ...], most: int = MOST
) -> Counterfactuals | None:
    """Find what would have changed the decision of a trial, made in this situation; None if it cannot be made again.

    That is so for trials done by hand, for decisions that came too late, and where today's code or configuration decide
    otherwise. Nothing would change a batch of production: it is run as it was made.
    """
    if row.operated or row.origin not in ("policy", "rejected"):
        return None
    try:
        found = counterfactuals(situation, asked, prices=priced, most=most)
    except PolicyError:  # it cannot decide any more as it did
        return None
    return found if found.answer == set_label(row.control_set) else None


def came_of_row(situation: Situation, row: TrialRow, state: JsonState | None) -> CameOf | None:
    """Hold a trial that is over against what was expected of it, by the hyper-parameters in `state`.

    None while it is under way, or if it was done by hand.
    """
    if row.proposal is None or not row.state.final:
        return None
    s, known = situation, Hyperparameters.remembered(state)
    at = row.proposal.control_set, row.proposal.setting
    return came_of(s.problem, s.history, known, *at, outcome=row.outcome, cost=to_units(row.cost))
