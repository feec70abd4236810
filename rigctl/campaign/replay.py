"""Recomputes every decision from the journal; it must come out the same, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rigctl.campaign.decide import Question, as_decided, decide, explore, last_that_worked, without_answer
from rigctl.campaign.decision import Decision, Origin
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import DeciderRow
from rigctl.campaign.operating import for_production, told_by
from rigctl.campaign.spec import CampaignSpec
from rigctl.core.experiment.history import History
from rigctl.core.policies.fallback import REPEAT
from rigctl.core.policy import BudgetSpent, Finished, Proposal
from rigctl.errors import counted
from rigctl.provenance import deciding_code, difference


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
    now, deciders, suggested = deciding_code(spec.policy), reader.beside.deciders(), reader.people.suggestions()
    batches = {
        n: for_production(spec, told_by(told, spec.policy, spec.seed)) for n, told in reader.beside.operations().items()
    }
    histories: dict[int, History] = {}
    for row in reader.trials():
        made: Decision = row
        decider = deciders.get(row.trial)
        if row.by_hand is not None and row.by_hand.suggestion is not None:
            made = suggested[row.by_hand.suggestion]
            decider = reader.beside.decider_of(row.by_hand.suggestion)
        if made.corrections not in histories:
            histories[made.corrections] = reader.history(spec.problem.space, corrections=made.corrections)
        known = _before(histories[made.corrections], row.trial)
        differences = tuple(_differences(reader, batches.get(row.trial, spec), made, known))
        yield ReplayedTrial(row.trial, row.origin, differences, _other_code(decider, now), made.proposal is not None)


def _before(history: History, trial: int) -> History:
    earlier = (o for o in history.observations if o.trial < trial)
    return History.of(earlier, corrections=history.corrections)


def _other_code(decider: DeciderRow | None, now: Mapping[str, str]) -> str:
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
        yield f"control set: was {'+'.join(row.control_set)}, is {'+'.join(again.control_set)}"
    elif again.proposal is not None and row.proposal is not None and again.proposal.setting != row.proposal.setting:
        yield f"setting: was {list(row.proposal.setting)}, is {list(again.proposal.setting)}"
    # As text, so that NaN equals NaN.
    if json.dumps(again.policy_state, sort_keys=True) != json.dumps(row.policy_state, sort_keys=True):
        yield "policy state: differs"
