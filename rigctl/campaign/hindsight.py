"""A past decision looked at again: what would have changed it, and what came of it. Reads the journal only."""

from __future__ import annotations

from rigctl.campaign.decide import Question, as_decided, decide
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.spec import CampaignSpec
from rigctl.core.aftermath import CameOf, came_of
from rigctl.core.counterfactuals import MOST, NO_ANSWER, NOTHING, Counterfactuals, counterfactuals
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.levers import Price, Situation
from rigctl.core.money import Micros, to_units
from rigctl.core.policy import Finished
from rigctl.errors import PolicyError
from rigctl.rig.spec import MeterSpec

PER = {"energy": (1.0, "kWh"), "volume": (1000.0, "L"), "time": (1.0, "h"), "fixed": (1.0, "trial")}
"""By a meter's kind: how many of its own units people speak of, and what these are called."""


def situation_before(reader: Reader, spec: CampaignSpec, row: TrialRow) -> Situation:
    """Return all that the decision of a trial depended on."""
    further = [f.name for f in spec.problem.further]
    known = reader.history(spec.problem.space, further, corrections=row.corrections)  # as it was known then
    history = History.of((o for o in known.observations if o.trial < row.trial), corrections=known.corrections)
    problem = as_decided(spec.problem, row)
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
    return "+".join(decision.control_set)


def prices(reader: Reader, spec: CampaignSpec) -> tuple[Price, ...]:
    """Return what every meter's consumption has cost, by trial."""
    amounts: dict[str, dict[int, Micros]] = {}
    for line in reader.ledger():
        amounts.setdefault(line.meter, {})[line.trial] = line.amount
    return tuple(_price(meter, amounts[meter.name]) for meter in spec.rig.meters if meter.name in amounts)


def _price(meter: MeterSpec, amounts: dict[int, Micros]) -> Price:
    units, per = PER[meter.kind]
    return Price(meter.name, float(meter.price) * units, per, amounts)


def what_would_change(reader: Reader, spec: CampaignSpec, row: TrialRow, *, most: int = MOST) -> Counterfactuals | None:
    """Find what would have changed a trial's decision; None if it cannot be made again.

    That is so for trials done by hand, for decisions that came too late, and where today's code or configuration decide
    otherwise.
    """
    if row.origin not in ("policy", "rejected"):
        return None
    return flips_of(situation_before(reader, spec, row), row, prices(reader, spec), most)


def flips_of(
    situation: Situation, row: TrialRow, priced: tuple[Price, ...], most: int = MOST
) -> Counterfactuals | None:
    """Find what would have changed a decision that was made in this situation; None if it cannot be made again.

    Of production nothing would: it is run as it was made.
    """
    if row.operated:
        return None
    try:
        found = counterfactuals(situation, asked, prices=priced, most=most)
    except PolicyError:  # it cannot decide any more as it did
        return None
    return found if found.answer == "+".join(row.control_set) else None


def what_came_of(reader: Reader, spec: CampaignSpec, row: TrialRow) -> CameOf | None:
    """Hold a trial that is over against what was expected of it; None while it is under way, or was done by hand."""
    return came_of_row(situation_before(reader, spec, row), row, reader.policy_state(before=row.trial + 1))


def came_of_row(situation: Situation, row: TrialRow, state: JsonState | None) -> CameOf | None:
    """Do so by the hyper-parameters in `state`, for a decision that was made in this situation."""
    if row.proposal is None or not row.state.final:
        return None
    s, known = situation, Hyperparameters.remembered(state)
    at = row.proposal.control_set, row.proposal.setting
    return came_of(s.problem, s.history, known, *at, outcome=row.outcome, cost=to_units(row.cost))
