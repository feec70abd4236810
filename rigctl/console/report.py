"""The last word of a campaign: what to control from now on, at what values, and what else there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rigctl.campaign.journal import Reader
from rigctl.config.load import LoadedConfig
from rigctl.console import trade_off
from rigctl.console.board import Labels
from rigctl.console.output import number, settings
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.policy import trial_rng
from rigctl.core.recommend import LEVEL, Option, Recommendation, recommend

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def from_journal(loaded: LoadedConfig, reader: Reader) -> Recommendation:
    """What the campaign so far recommends.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    return from_history(loaded, history, reader.policy_state() or {})


def from_history(loaded: LoadedConfig, history: History, state: JsonState) -> Recommendation:
    """The same from any history, with the hyper-parameters the policy remembers (if it does).

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    stored = state.get("hyperparameters")
    known = None if stored is None else Hyperparameters.from_json(stored)
    rng = trial_rng(loaded.seed, len(history) + 1)
    return recommend(loaded.problem, history, rng, loaded.tolerance, known, further=state.get("further", ()))


def to_json(recommendation: Recommendation) -> Mapping[str, Any]:
    """For programs: outcomes in their own units, money in currency units."""
    return {
        **_option_json(recommendation.choice),
        "tolerance": recommendation.tolerance,
        "threshold": recommendation.threshold,
        "reason": recommendation.reason,
        **({} if recommendation.front is None else {"front": trade_off.to_json(recommendation.front)}),
        "alternatives": [
            {**_option_json(option), "loss": option.loss, "saving": option.saving}
            for option in recommendation.alternatives
        ],
    }


def _option_json(option: Option) -> Mapping[str, Any]:
    return {
        "control_set": list(option.control_set),
        "setpoints": dict(option.setpoints),
        "expected": option.expected,
        "low": option.low,
        "high": option.high,
        "cost_per_trial": option.cost_per_trial,
        "trials": option.trials,
    }


def show(recommendation: Recommendation, labels: Labels, console: Console, note: str = "") -> None:
    """For people.

    Args:
        recommendation: what to show.
        labels: names and units.
        console: where.
        note: one more line, e.g. what a simulator says of it.
    """
    choice, unit = recommendation.choice, labels.outcome_unit
    console.print()
    console.print(f"Recommendation: control {'+'.join(choice.control_set)}", style="bold")
    console.print(f"  at        {settings(choice.setpoints, labels.units)}")
    interval = f"({LEVEL:.0%} interval {number(choice.low)} to {number(choice.high)})"
    console.print(f"  expect    {labels.outcome} {number(choice.expected)} {unit} {interval}")
    console.print(f"  cost      {_money(choice.cost_per_trial, labels)} per trial, metered in {choice.trials} trials")
    console.print(f"  because   {recommendation.reason}")
    if note:
        console.print(f"  {note}")
    if recommendation.alternatives:
        console.print()
        console.print(_alternatives(recommendation, labels))
    if recommendation.front is not None:
        console.print()
        trade_off.show(recommendation.front, labels, console)


def _alternatives(recommendation: Recommendation, labels: Labels) -> Table:
    from rich.table import Table  # noqa: PLC0415  # only when something is shown

    outcome, money = f"{labels.outcome} {labels.outcome_unit}".strip(), f"cost {labels.currency}"
    table = Table(title="Instead of it", title_justify="left", box=None, padding=(0, 1), header_style="dim")
    table.add_column("control")
    for header in (outcome, "interval", "beside it", money, "beside it", "trials"):
        table.add_column(header, justify="right", no_wrap=True)
    for option in recommendation.alternatives:
        table.add_row(
            " + ".join(option.control_set),  # may be broken at the spaces
            number(option.expected),
            f"{number(option.low)} to {number(option.high)}",
            _against(option.loss, "worse", "better"),
            number(option.cost_per_trial, 3),
            _against(option.saving, "cheaper", "dearer"),
            str(option.trials),
        )
    return table


def _against(difference: float | None, positive: str, negative: str) -> str:
    """A difference from the recommended option as a size and a word."""
    if difference is None:
        return number(None)
    return f"{number(abs(difference), 3)} {positive if difference >= 0 else negative}"


def _money(amount: float | None, labels: Labels) -> str:
    return "unknown" if amount is None else f"{amount:.4g} {labels.currency}"
