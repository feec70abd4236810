"""A proposal as sentences a person can check."""

from __future__ import annotations

from math import floor, isfinite, log10

from rigctl.core.experiment.problem import Problem
from rigctl.core.policy import Proposal, SetReport


def explain(proposal: Proposal, problem: Problem, *, outcome: str, unit: str, currency: str) -> tuple[str, ...]:
    """Why this trial: the choice, the threshold, and one sentence per control set."""
    chosen = problem.space.control_sets[proposal.control_set]
    setpoints = problem.space.setpoints(proposal.control_set, proposal.setting)
    units = {v.name: "" if v.unit == "1" else v.unit for v in problem.space.variables}
    values = ", ".join(f"{name} = {value:.4g} {units[name]}".rstrip() for name, value in setpoints.items())
    head = f"Trial {proposal.trial} ({proposal.policy}, {proposal.phase}): control {chosen.label} at {values}."
    lines = [head, f"{proposal.reason[:1].upper()}{proposal.reason[1:]}."]
    if proposal.threshold is not None:
        better = "above" if problem.maximise else "below"
        lines.append(
            f"A set stays in play while its most optimistic {outcome} is {better} {proposal.threshold:.4g} {unit}."
        )
    if proposal.predicted_cost is not None:
        lines.append(f"It is predicted to cost at most {proposal.predicted_cost:.4g} {currency}.")
    lines += [f"Note: {note}." for note in proposal.notes]
    if problem.further:
        lines.append(f"What each control set promises of {outcome}, whatever becomes of the other outcomes:")
    lines += [_sentence(report, unit, currency) for report in proposal.sets]
    return tuple(lines)


def plus_minus(mean: float, sd: float) -> str:
    """Two digits of the spread, and as many decimals of the mean: `3380 ± 310`, `11.24 ± 0.15`."""
    if not (isfinite(mean) and 1e-4 < sd < 1e6):
        return f"{mean:.4g} ± {sd:.2g}"
    digit = 1 - floor(log10(sd))
    decimals = max(digit, 0)
    return f"{round(mean, digit):.{decimals}f} ± {round(sd, digit):.{decimals}f}"


def _sentence(report: SetReport, unit: str, currency: str) -> str:
    label = "+".join(report.control_set)
    state = "in play" if report.eligible else "out"
    cost = "never metered" if report.cost_mean is None else f"costs {report.cost_mean:.4g} {currency} a trial"
    low, high = sorted((report.lower, report.upper))
    trials = "1 trial" if report.trials == 1 else f"{report.trials} trials"
    return (
        f"{label}: {state}; expected {plus_minus(report.mean, report.sd)} {unit} at its most promising setting, "
        f"bounds {low:.4g} to {high:.4g}; {cost} (at least {report.cost_lcb:.4g}), {trials}."
    )
