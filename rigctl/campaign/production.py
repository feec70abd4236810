"""Production: batches that are run by the rule, beside the trials of the campaign that found it.

Which trials are batches is told by the audit: the process that began them was told to `operate`. What they cost is in
the ledger as ever, and no part of what the campaign has spent of its budget.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

from rigctl.campaign.desk import Stands
from rigctl.campaign.events import Batches, CampaignStarted, Ending, batched
from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.beside import OPERATE
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import Decision, State
from rigctl.core.advice.worth import half_width
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import Micros, to_units
from rigctl.core.operating.playing import Drift, Memory, remembered
from rigctl.core.operating.playing import counted as counted_so_far
from rigctl.core.operating.policy import EXPLORING, NAME, Operating
from rigctl.errors import JournalError, counted
from rigctl.people import this_person

if TYPE_CHECKING:
    from rigctl.core.experiment.policy import Policy


SEE: Final = "See what has changed"
REMEDY: Final = f"What is run was learned before. {SEE}; `rigctl operate CONFIG --anew` makes it anew"
LEARNS: Final = f"What is run is made anew by what batches teach, and this ends then. {SEE} all the same"
SET: Final = f"What is run was told by --set, and stays. {SEE}"
FIXED: Final = f"A model with fixed hyper-parameters takes this for noise, as would one made anew. {SEE}"
MAKING_S: Final = 300.0
"""Wall seconds that a decision may take."""


def said(wish: Operating) -> str:
    """Return what a process was told to operate by, as the JSON that the audit keeps."""
    told = {name: getattr(wish, name) for name in ("tolerance", "learn", "at_least", "full", "worth")}
    return json.dumps(told | {"fixed": dict(wish.fixed)})


def told_by(audit: str, policy: Policy, seed: int) -> Operating:
    """Return the policy of production that a process was told to run, beside the campaign's own policy and seed.

    Raises:
        JournalError: this version tells nobody anything like it.
    """
    try:
        told = json.loads(audit)
        return Operating(policy, seed=seed, **told | {"fixed": tuple(told["fixed"].items())})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JournalError(
            f"the audit: got operate {audit}, must be as `rigctl operate` writes it ({error})"
        ) from error


def for_production(spec: CampaignSpec, decides: Operating, batches: int | None = None) -> CampaignSpec:
    """Return a campaign's rig run for production, until `batches` are over (None: until it is stopped).

    Reference trials would be neither the rule nor within a loss budget, and no stopping rule ends production. A
    decision may take as long as making a rule of a long campaign does on a slow board.
    """
    problem, limit_s = replace(spec.problem, reference=None, stop_worth=None), max(spec.decision_limit_s, MAKING_S)
    return replace(spec, operating=decides, batches=batches, problem=problem, decision_limit_s=limit_s)


def begin(journal: Journal, spec: CampaignSpec) -> None:
    """Start or resume the campaign, and note in the audit that this process operates, if it does.

    Raises:
        UsageError: the journal's campaign was run with another configuration.
    """
    journal.begin(spec, version("rigctl"))
    if spec.operating is not None:
        journal.people.act(OPERATE, this_person(), said(spec.operating))


async def started(journal: JournalThread, spec: CampaignSpec, lost: int | None) -> CampaignStarted:
    """Return how the campaign stands as trials, or batches, begin."""
    campaign = await journal.call(lambda j: j.read.campaign())
    trials = await journal.call(lambda j: len(j.read.history(spec.problem.space)))
    batches = None if spec.operating is None else Batches(campaign.batches, campaign.operated)
    return CampaignStarted(campaign.rig, trials, campaign.spent, campaign.budget, lost, batches)


def over(spec: CampaignSpec, history: History, idle: Micros, caps: str, before: int) -> tuple[Ending, str] | None:
    """Return why no trial follows, of budget, caps and number; None: one may. No budget ends production.

    Args:
        spec: of the campaign.
        history: all trials.
        idle: what was used beside the campaign's own trials.
        caps: why nothing can be played any more, whoever waits; empty: something can.
        before: trials that do not count here: those before the first one of a process that operates, and those
            that were cancelled before anything moved.
    """
    if spec.operating is None and history.spent + idle >= spec.problem.budget:
        return "budget", "all of it is spent"
    if caps:
        return "finished", f"the caps of the campaign are reached: {caps}"
    if spec.operating is not None:
        batches, done = spec.batches, len(history) - before
        return None if batches is None or done < batches else ("trials", f"{done} of {batched(batches)} done")
    limit, done = spec.max_trials, len(history) - history.uncharged - before
    return None if limit is None or done < limit else ("trials", f"{done} of {counted(limit, 'trial')} done")


def drifted(decision: Decision, spec: CampaignSpec) -> list[Stands] | None:
    """Return the changes of supply or response that stand by a decision; None: it knows of none, or not.

    The same is said once what is run knows of it.
    """
    memory = remembered(decision.policy_state)
    if memory is None:
        return None
    told = [(drift, f"{drift.told}. {_to_do(drift, spec)}") for drift in memory.standing]
    return [Stands(f"changed at trial {drift.noticed}", drift.source, text, text) for drift, text in told]


def _to_do(drift: Drift, spec: CampaignSpec) -> str:
    """Say what becomes of a change in production that is run like this, and what a person can do."""
    wish = spec.operating
    if wish is not None and wish.fixed:
        return SET
    if drift.by_errors and spec.problem.model.hyperparameters == "fixed":
        return FIXED
    return REMEDY if wish is None or wish.learn is None else LEARNS


@dataclass(frozen=True, slots=True)
class Production:
    """What has come of the batches since production began. Outcomes in their own units."""

    first: int
    """Trial number of the first batch."""
    batches: int
    recorded: int
    """Of them gave an outcome."""
    awaited: int
    """Whose outcome is still to come."""
    explored: int
    """That tried something else, to learn."""
    instead: int
    """That the rule did not decide, as it could not be asked or be played."""
    outcome: float | None
    """Mean; None: no batch has given one."""
    half: float | None
    """Half its 95 % interval; None with fewer than two."""
    expected: float | None
    """Mean of what was expected of the same batches; None: nothing was."""
    expected_half: float | None
    """Half the 95 % interval for that."""
    spent: Micros
    cost: float | None
    """Mean of the batches that are whole and metered, currency units."""
    made_of: int = 0
    """Trials that what is run was made of last."""
    learns: bool = False
    gained: float = 0.0
    """Over controlling nothing, by the rule, as expected; where it learns."""
    lost: float = 0.0
    """Of that, by exploring, as expected."""
    drifts: tuple[Drift, ...] = ()
    """All since the first batch that still show."""


def production(reader: Reader) -> Production | None:
    """Return what has come of the batches; None: none has been run."""
    memory, rows = _of_this_production(reader)
    if not rows:
        return None
    good = [row for row in rows if row.outcome is not None and not row.voided]
    outcome, half = _interval([row.outcome for row in good if row.outcome is not None])
    expected, expected_half = _hoped(good)
    costs = [to_units(row.cost) for row in rows if row.whole and not row.estimated]
    awaited = {row.trial for row in rows if row.state is State.AWAITING}
    counted = Production(
        first=rows[0].trial,
        batches=len(rows),
        recorded=len(good),
        awaited=len(awaited),
        explored=sum(_own(row) and _phase(row) == EXPLORING for row in rows),
        instead=sum(not _own(row) and _phase(row) != "" for row in rows),
        outcome=outcome,
        half=half,
        expected=expected,
        expected_half=expected_half,
        spent=reader.campaign().operated,
        cost=fmean(costs) if costs else None,
    )
    if memory is None:
        return counted
    # the last batch is not counted before the next one is decided
    account = counted_so_far(memory, {row.trial for row in good}, awaited)
    learned = replace(counted, made_of=memory.since, learns=memory.pending is not None, drifts=memory.drifts)
    return learned if account is None else replace(learned, gained=account.gained, lost=account.lost)


def _of_this_production(reader: Reader) -> tuple[Memory | None, list[TrialRow]]:
    """Return what the last batch that remembers anything does, and the batches since that production began."""
    every = [row for row in reader.trials() if row.operated and row.state.charged]
    memories = (remembered(row.policy_state) for row in reversed(every))
    memory = next((one for one in memories if one is not None), None)
    return memory, [row for row in every if memory is None or row.trial >= memory.begun]


def _hoped(good: Sequence[TrialRow]) -> tuple[float | None, float | None]:
    """Return the mean of what was expected of these batches, and half its 95 % interval."""
    hoped = [found for found in map(_expected, good) if found is not None]
    if not hoped:
        return None, None
    # of one model, so the errors of all batches are nearly the same one
    return fmean(mean for mean, _ in hoped), half_width(fmean(sd for _, sd in hoped))


def _phase(row: TrialRow) -> str:
    """Return what a batch was run for, as it was decided; empty where it was not."""
    return "" if row.proposal is None else row.proposal.phase


def _own(row: TrialRow) -> bool:
    return row.proposal is not None and row.proposal.policy == NAME


def _expected(row: TrialRow) -> tuple[float, float] | None:
    """Return mean and standard deviation of what was expected of a batch."""
    reports = row.proposal.sets if row.proposal is not None and _own(row) else ()
    report = next(iter(reports), None)
    return None if report is None or report.mean is None or report.sd is None else (report.mean, report.sd)


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean, and half its 95 % interval as far as that is known."""
    if not values:
        return None, None
    return fmean(values), half_width(stdev(values) / sqrt(len(values))) if len(values) > 1 else None
