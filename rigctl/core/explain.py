"""A proposal as sentences a person can check."""

from __future__ import annotations

from rigctl.core.policy import Problem, Proposal, SetReport


def explain(proposal: Proposal, problem: Problem, *, outcome: str, unit: str, currency: str) -> tuple[str, ...]:
    """Why this trial: the choice, the threshold, and one sentence per control set."""
    chosen = problem.space.control_sets[proposal.control_set]
    setpoints = problem.space.setpoints(proposal.control_set, proposal.setting)
    values = ", ".join(f"{name} = {value:.4g}" for name, value in setpoints.items())
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
    lines += [_sentence(report, unit, currency) for report in proposal.sets]
    return tuple(lines)


def _sentence(report: SetReport, unit: str, currency: str) -> str:
    label = "+".join(report.control_set)
    state = "in play" if report.eligible else "out"
    cost = "never metered" if report.cost_mean is None else f"costs {report.cost_mean:.4g} {currency} a trial"
    low, high = sorted((report.lower, report.upper))
    return (
        f"{label}: {state}; expected {report.mean:.4g} ± {report.sd:.2g} {unit} at its most promising setting, "
        f"bounds {low:.4g} to {high:.4g}; {cost} (at least {report.cost_lcb:.4g}), {report.trials} trials."
    )
