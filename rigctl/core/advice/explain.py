"""A proposal as sentences a person can check.

Two readers: whoever runs the rig, in plain sentences of at most 20 words; and, with `technical`, whoever knows the
policies' papers. Both see the same numbers. Every number of a control set is of one setting, which is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rigctl.core.experiment.persistence import ReadBefore
from rigctl.core.experiment.policy import Proposal, SetReport
from rigctl.core.experiment.problem import Problem
from rigctl.errors import counted
from rigctl.text import (
    decimals_for,
    in_full,
    plus_minus,
    settings,
    shown_name,
    shown_set,
    shown_unit,
    shown_value,
    words_of,
    written,
)

NOTHING_YET: Final = "nothing measured yet"
PURPOSES: Final = MappingProxyType(
    {
        "explore": "to learn",
        "initial": "to learn",
        "commit": "to be good at least cost",
        "harvest": "to be good",
        "confirm": "to be sure",
        "repeat": "once more",
        "reference": "to compare",
        "operate": "for production",
        "learn": "for production, and to learn",
        "unchanged": "for production, as before",
    }
)
"""What a trial of a phase is for, for whoever runs the rig."""
_SHOWN: Final = MappingProxyType({"harvest": "perform"})
"""Phases that are shown by another word than the policy's paper has."""


def explain(
    proposal: Proposal,
    problem: Problem,
    *,
    outcome: str,
    unit: str,
    currency: str,
    technical: bool = False,
    titled: bool = True,
) -> tuple[str, ...]:
    """Say why this trial: the choice, the threshold, and a row per control set.

    `outcome` and its `unit` are names; `technical`: in the terms of the policy's paper; `titled`: say first which trial
    it is, and at what setting.
    """
    units, unit = problem.space.units, shown_unit(unit)
    names = [shown_name(name, units) for name in units]
    if technical:
        return _technical(proposal, problem, outcome, unit, currency)
    label = problem.space.shown(proposal.control_set)
    at = problem.space.setpoints(proposal.control_set, proposal.setting)
    rows = _SetRows(proposal.sets, unit, currency)
    purpose = f", {PURPOSES[proposal.phase]}" if proposal.phase in PURPOSES else ""
    lines = [f"Trial {proposal.trial}{purpose}: control {label}.", f"  at {settings(at, units)}"] if titled else []
    lines.append(sentence(proposal.reason, names))
    controlled = problem.space.control_sets[proposal.control_set].names
    for read in proposal.read:
        lines += _read(read, units, controlled=read.variable in controlled)
    own = next((r for r in proposal.sets if r.control_set == controlled), None)
    if own is not None and own.mean is not None and own.at == at:
        lines.append(f"Expected {outcome} there: {rows.expected(own)}.")
    lines += _price(proposal, problem, label, currency)
    if proposal.threshold is not None and any(r.mean is not None for r in proposal.sets):
        reach = "reach" if problem.maximise else "come down to"
        lines.append(f"A control set is good enough if it may {reach} {rows.value(proposal.threshold)}.")
    lines += (f"Note: {sentence(note, names)}" for note in proposal.notes)
    return (*lines, *_each_set(proposal, problem, rows, own, outcome=outcome, at=at))


def _each_set(
    proposal: Proposal,
    problem: Problem,
    rows: _SetRows,
    own: SetReport | None,
    *,
    outcome: str,
    at: Mapping[str, float],
) -> Iterator[str]:
    """Say of every control set what it promises, and at what setting."""
    units = problem.space.units
    if any(report.mean is not None for report in proposal.sets):
        besides = "" if all(f.limited for f in problem.further) else ", whatever becomes of the other outcomes"
        yield f"Expected {outcome} of each control set{besides}:"
    elif proposal.sets:
        yield f"What {outcome} to expect is not known yet. The control sets:"
    for report in proposal.sets:
        yield f"  {shown_set(report.control_set, units)}: {rows.promise(report)}{_standing(report, own, at)}"
        if report.mean is not None:
            yield f"    at {settings(report.at, units)}"


def _price(proposal: Proposal, problem: Problem, label: str, currency: str) -> list[str]:
    """Say what the trial may cost; if nobody has met that cost, what is assumed."""
    most = None if proposal.predicted_cost is None else f"{in_full(proposal.predicted_cost, 4)} {currency}"
    if proposal.cost_known:
        return [] if most is None else [f"The trial may cost up to {most}."]
    unknown = f"The cost of {label} is not known yet"
    if proposal.assumed_cost is not None:
        return [f"{unknown}. About {in_full(proposal.assumed_cost, 3)} {currency} is assumed, {most} at most."]
    limit = (
        "" if problem.cost_ceiling is None else f" It must not exceed {in_full(problem.cost_ceiling, 4)} {currency}."
    )
    return [f"{unknown}, and nothing says what to assume.{limit}"]


def _read(read: ReadBefore, units: Mapping[str, str], *, controlled: bool) -> list[str]:
    """Say what a variable read before the trial, how far that is trusted, and what is expected of it."""
    name, unit = shown_name(read.variable, units), units[read.variable]
    if words_of(read.variable, units):
        return _read_level(read, name, units)
    expected = f"{plus_minus(read.mean, read.sd)} {unit}".rstrip()
    if read.value is None:
        return [] if controlled else [f"{name} was not read before the trial. Expected: {expected}."]
    value = plus_minus(read.value, read.error) if read.error else f"{in_full(read.value, 4)}"
    seen = f"{name} read {value} {unit}".rstrip() + " before the trial"
    if controlled:
        return [f"{seen}, and is controlled during it."]
    share = f"{100 * read.rho:.0f} %"
    free = f"{counted(read.pairs, 'trial')} that did not control it"
    lines = [f"{seen}. Expected during it: {expected}."]
    if read.rho == 0.0:
        return [*lines, f"The reading does not count yet, after {free}."]
    usual = f"Usually it is at {plus_minus(read.usual_mean, read.usual_sd)} {unit}".rstrip() + "."
    kept = f"In {free}, {share} of a deviation remained" if read.pairs else f"{share} of a deviation remains"
    return [*lines, f"{kept}.", usual]


def _read_level(read: ReadBefore, name: str, units: Mapping[str, str]) -> list[str]:
    """Say which level a category had before the trial, and how far that is trusted."""
    if read.value is None:
        return []
    free, share = f"{counted(read.pairs, 'trial')} that did not control it", f"{100 * read.rho:.0f} %"
    trusted = f"It stays so in {share} of trials, by {free}" if read.rho else f"That does not count yet, after {free}"
    return [f"{name} was {shown_value(read.variable, read.value, units)} before the trial.", f"{trusted}."]


def _standing(report: SetReport, own: SetReport | None, at: Mapping[str, float]) -> str:
    """Say whether a set was chosen, or could not be."""
    if report is own:
        return "; chosen" if report.at == at else "; chosen, at another setting"
    if report.ruled_out:
        return f"; skipped: {report.ruled_out}"
    return "" if report.eligible else "; skipped"


def phase_word(phase: str) -> str:
    """Return a phase as it is shown to people; all of them stand in the glossary."""
    return _SHOWN.get(phase, phase)


def sentence(text: str, names: Sequence[str]) -> str:
    """Return a reason or note with a capital, unless it begins with a name, and a full stop."""
    first, _, _ = text.partition(" ")
    named = "+" in first or first.rstrip(":,") in names
    return f"{text if named else text[:1].upper() + text[1:]}".rstrip(".") + "."


class _SetRows:
    """Write the numbers of all control sets with the same decimals."""

    def __init__(self, reports: Sequence[SetReport], unit: str, currency: str) -> None:
        self._unit, self._currency = unit, currency
        self._known = any(r.mean is not None for r in reports)  # else what stands above the rows says it of all
        self._decimals = decimals_for([r.sd for r in reports if r.sd is not None])
        self._money = decimals_for([0.01 * r.cost_mean for r in reports if r.cost_mean])

    def expected(self, report: SetReport) -> str:
        if report.mean is None or report.lower is None or report.upper is None:
            return NOTHING_YET
        low, high = sorted((report.lower, report.upper))
        span = f"{written(low, self._decimals)} to {written(high, self._decimals)} {self._unit}".rstrip()
        return f"{span}, most likely {written(report.mean, self._decimals)}"

    def value(self, amount: float) -> str:
        return f"{amount:.{self._decimals}f} {self._unit}".rstrip()

    def promise(self, report: SetReport) -> str:
        expected = f"{self.expected(report)}; " if self._known else ""
        return f"{expected}{self._cost(report)}; {counted(report.trials, 'trial')}"

    def _cost(self, report: SetReport) -> str:
        if report.cost_mean is None:
            return "cost not known yet"
        mean, least = (f"{v:.{self._money}f}" for v in (report.cost_mean, report.cost_lcb))
        told = f"{mean} {self._currency} a trial"
        # a bound of nothing says nothing, and one that is the mean neither
        return told if report.cost_lcb <= 0 or least == mean else f"{told} (at least {least})"


def _technical(proposal: Proposal, problem: Problem, outcome: str, unit: str, currency: str) -> tuple[str, ...]:
    units, own = problem.space.units, problem.space.shown(proposal.control_set)
    at = settings(problem.space.setpoints(proposal.control_set, proposal.setting), units)
    reason = proposal.technical or proposal.reason
    lines = [
        f"Trial {proposal.trial} ({proposal.policy}, {proposal.phase}): control {own} at {at}.",
        f"{reason[:1].upper()}{reason[1:]}.",
    ]
    if proposal.threshold is not None:
        better = "above" if problem.maximise else "below"
        threshold = f"{better} {in_full(proposal.threshold, 4)} {unit}"
        lines.append(f"A set stays in play while its most optimistic {outcome} is {threshold}.")
    lines += _price(proposal, problem, own, currency)
    for read in proposal.read:
        value = "not read" if read.value is None else f"read {in_full(read.value, 4)} (sd {read.error:.2g})"
        name = shown_name(read.variable, units)
        lines.append(
            f"{name}: {value}, rho {read.rho:.2f} of {counted(read.pairs, 'pair')}; left alone "
            f"{plus_minus(read.mean, read.sd)}, without the reading {plus_minus(read.usual_mean, read.usual_sd)}."
        )
    lines += [f"Note: {note}." for note in proposal.notes]
    for r in proposal.sets:
        label, state = shown_set(r.control_set, units), "in play" if r.eligible else "out"
        cost = "cost not known" if r.cost_mean is None else f"costs {in_full(r.cost_mean, 4)} {currency} a trial"
        if r.mean is None or r.sd is None or r.lower is None or r.upper is None:
            value = NOTHING_YET
        else:
            low, high = sorted((r.lower, r.upper))
            value = f"posterior {plus_minus(r.mean, r.sd)} {unit}, bounds {in_full(low, 4)} to {in_full(high, 4)}"
        lines.append(
            f"{label}: {state}; {value}, at {settings(r.at, units)}; {cost} (lower bound {in_full(r.cost_lcb, 4)}), "
            f"{counted(r.trials, 'trial')}."
        )
    return tuple(lines)
