"""The verbs that only look: status, explain, replay, drivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rigctl.campaign.acts import changes
from rigctl.campaign.journal.rows import ByHand, TrialRow
from rigctl.campaign.replay import ReplayedTrial, came_of_row, flips_of, prices, replay, situation_before
from rigctl.config.profiles import ProfileInfo
from rigctl.console.assemble import OpenCampaign
from rigctl.console.benches.suggest import sentences
from rigctl.console.output import INDENT
from rigctl.core.advice import aftermath
from rigctl.core.advice.aftermath import CameOf
from rigctl.core.advice.flips import Counterfactuals
from rigctl.core.counterfactuals import shown
from rigctl.core.experiment.policy import Proposal
from rigctl.errors import UsageError, counted
from rigctl.page.campaign import campaign_spec
from rigctl.page.shown import ShownLabels
from rigctl.text import shown_set, shown_unit


@dataclass(frozen=True, slots=True)
class Explanation:
    """Says why a trial was chosen."""

    trial: int
    origin: str
    """`policy`, or who else decided."""
    sentences: tuple[str, ...]
    proposal: Proposal | None
    """With the numbers; None for a trial done by hand for which no suggestion was kept."""
    changes: Counterfactuals | None = None
    """What would have changed the choice; None: not looked for, or the decision cannot be made again."""
    came_of: CameOf | None = None
    """What came of it; None while it is under way."""


def explained(
    campaign: OpenCampaign, trial: int | None, *, technical: bool = False, quick: bool = False
) -> Explanation:
    """Return why a trial (None: the last one) was chosen, what would have changed that, and what came of it.

    With `technical` in the terms of the policy's paper; `quick` leaves out what would have changed it, for which some
    60 decisions are made.

    Raises:
        UsageError: no such trial.
    """
    rows = campaign.reader.trials()
    if not rows:
        raise UsageError("explain: the campaign has no trial yet")
    row = rows[-1] if trial is None else campaign.reader.trial(trial)
    corrected = _corrections(row, ShownLabels.of(campaign.loaded))
    if row.proposal is None and row.origin != "manual":
        what = f"ended before it was decided: {row.because}" if row.state.final else "looks, and is not decided yet"
        return Explanation(row.trial, row.origin, (f"Trial {row.trial} {what}.", *corrected), None)
    if row.proposal is None:
        suggested, lines = _by_hand(campaign, row, technical=technical)
        return Explanation(row.trial, row.origin, (*lines, *corrected), suggested)
    lines = sentences(campaign.loaded, row.proposal, technical=technical)
    if row.origin != "policy":
        lines = (f"Trial {row.trial} was not chosen by the policy ({row.origin}): {row.note}", *lines)
    lines += (*corrected, *(f"{label} could not be played then: {why}." for label, why in row.unavailable.items()))
    loaded, spec, reader = campaign.loaded, campaign_spec(campaign.loaded), campaign.reader
    before = situation_before(reader, spec, row)
    flips = None if quick else flips_of(before, row, prices(reader, spec))
    came_of = came_of_row(before, row, reader.policy_state(before=row.trial + 1))
    unit, names = shown_unit(loaded.outcome_unit), loaded.problem.space.units
    if flips is not None:
        lines += ("Changes that would have led to another choice:",)
        lines += tuple(f"  {line}" for line in shown(flips, currency=loaded.currency, unit=unit, names=names))
    if came_of is not None:
        told = aftermath.told(came_of, outcome=loaded.rig.outcome_label, unit=unit, currency=loaded.currency)
        lines += ("Result:", *(f"  {line}" for line in told))
    return Explanation(row.trial, row.origin, lines, row.proposal, flips, came_of)


def _by_hand(campaign: OpenCampaign, row: TrialRow, *, technical: bool) -> tuple[Proposal | None, tuple[str, ...]]:
    """Return what was suggested for a trial that a person did, if it was kept, and what to say of the trial."""
    label = shown_set(row.control_set, campaign.loaded.problem.space.units)
    known = row.by_hand or ByHand()
    if known.imported is not None:
        source = campaign.reader.people.imports()[known.imported].source
        return None, (f"Trial {row.trial} is from before the campaign: {label}, from {source}. It was not charged.",)
    if known.suggestion is None:
        return None, (f"Trial {row.trial} was done by hand: {label}.",)
    suggested = campaign.reader.people.suggestions()[known.suggestion].proposal
    how = f"but not as suggested: {known.departed}" if known.departed else "as suggested"
    lines = () if suggested is None else sentences(campaign.loaded, suggested, technical=technical)
    return suggested, (f"Trial {row.trial} was done by hand, {how}.", *lines)


def _corrections(row: TrialRow, labels: ShownLabels) -> tuple[str, ...]:
    """Say what was corrected of a trial, by whom and why."""
    words = {"void": "is void", "restore": "counts again"}
    found = []
    for made in row.corrected:
        amended = changes(made.was, made.becomes, labels.currency, labels.names)
        what = words.get(made.kind) or f"was amended: {'; '.join(amended)}"
        found.append(f"Trial {row.trial} {what} ({made.who}, {made.utc[:16]}: {made.why}).")
    return tuple(found)


def replayed(campaign: OpenCampaign) -> tuple[ReplayedTrial, ...]:
    """Recompute every decision, those that were handed to a person too."""
    trials = replay(campaign.reader, campaign_spec(campaign.loaded))
    return tuple(trial for trial in trials if trial.decided)


def replay_json(trials: Sequence[ReplayedTrial]) -> Mapping[str, Any]:
    """Return how many decisions agree, those that do not, and which were made by what other code."""
    differing, other = [t for t in trials if not t.agrees], _by_other_code(trials)
    return {
        "trials": len(trials),
        "agree": len(trials) - len(differing),
        "differing": differing,
        "other_code": [{"code": code, "trials": numbers} for code, numbers in other.items()],
    }


def _by_other_code(trials: Sequence[ReplayedTrial]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for trial in trials:
        if trial.code:
            found.setdefault(trial.code, []).append(trial.trial)
    return found


def replay_lines(trials: Sequence[ReplayedTrial]) -> Sequence[str]:
    """Return every difference, other code that may be why, and how many have none, for people."""
    differing = [f"trial {t.trial}: {'; '.join(t.differences)}" for t in trials if not t.agrees]
    other = [
        f"{counted(len(numbers), 'decision')} made by other code may come out differently: {code}"
        for code, numbers in _by_other_code(trials).items()
    ]
    return [
        *differing,
        *other,
        f"{len(trials) - len(differing)} of {counted(len(trials), 'decision')} come out the same",
    ]


def profile_lines(found: Sequence[ProfileInfo]) -> Iterator[str]:
    for profile in found:
        yield f"{profile.driver:8} {', '.join(f'{profile.name}/{quantity}' for quantity in profile.quantities)}"
        about = (("", profile.instrument), ("usual port: ", profile.url), ("read in: ", profile.source))
        yield from (f"{INDENT}{before}{told}" for before, told in about if told)
        yield from (f"{INDENT}{problem}" for problem in profile.problems)
    if not found:
        yield "no profiles"
