"""The papers' figures from a table of results: which panels, which axes, which lines.

C = Tay et al. (NeurIPS 2023), U = Hoang et al., P = Xie et al., M = Abdolshah et al.; what is shown where follows their
captions, the logarithmic regret axis of C follows its published plotting code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rigctl.bench.asking.labels import plain_label
from rigctl.bench.figures.figure import Curve, Figure, Panel, Spread, order_of
from rigctl.bench.names import must_be_one_of
from rigctl.bench.tables.results import (
    Axis,
    PolicyScenario,
    at_share,
    best_set,
    curve_of,
    function_and_d,
    group_index,
    left_behind,
    policies_of,
    scenarios_of,
    trials_of,
    within,
)

if TYPE_CHECKING:
    import pandas as pd

COST_ORDER = ("cheap", "moderate", "expensive", "uniform", "varying", "varying-sum")
PROBLEM_ORDER = ("gp-sample3", "hartmann3", "hartmann6+6", "ackley6+6", "levy6+6", "plant", "airfoil")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a panel shows."""

    column: str
    label: str
    axis: Axis = "cost"
    log_y: bool = False
    spread: Spread = "standard error"
    diamonds: bool = False
    """Where policies have settled on the best control set."""


def figures_of(paper: str, frame: pd.DataFrame) -> tuple[Figure, ...]:
    """Return the figures of a paper (`unknown-cost`, `ucb-cvs`, `gittins`, `ca-mobo`), or of any grid (`overview`).

    Raises:
        UsageError: there is no such layout, or the table is not one of this bench.
    """
    layouts = {f.__name__.replace("_", "-"): f for f in (unknown_cost, ucb_cvs, gittins, ca_mobo, overview)}
    must_be_one_of(paper, layouts, "figures")
    trials = trials_of(frame)
    return () if trials.empty else layouts[paper](trials)


def ucb_cvs(trials: pd.DataFrame) -> tuple[Figure, ...]:
    """Lay out C Fig. 2, a row per objective, a column per cost set and variance; C Fig. 3, baselines per unit cost."""
    simple = Quantity("simple", "simple regret", log_y=True, diamonds=True)
    divided = [p for p in policies_of(trials) if plain_label(p).endswith("-per-cost")]
    per_cost = trials.index.isin(divided, level="policy")
    figures = [_grid("ucb-cvs-fig2", "Simple regret against cost (C Fig. 2)", trials[~per_cost], simple)]
    if per_cost.any():
        here = within(trials, scenarios_of(trials[per_cost]))
        figures.append(_grid("ucb-cvs-fig3", "Baselines per unit cost (C Fig. 3)", here, simple))
    return tuple(figures)


def unknown_cost(trials: pd.DataFrame) -> tuple[Figure, ...]:
    """Lay out U Fig. 1, simple regret; U Fig. 2, number of evaluations; and the regrets that U's theory bounds."""
    shown = (
        ("fig1", "Simple regret against cost (U Fig. 1)", Quantity("simple", "simple regret", log_y=True)),
        ("fig2", "Number of evaluations against cost (U Fig. 2)", Quantity("trial", "evaluations")),
        ("quality", "Cumulated quality regret (U Theorem 1)", Quantity("quality", "quality regret")),
        ("cost", "Cumulated cost regret (U Theorem 1)", Quantity("cost_regret", "cost regret")),
        ("inference", "Regret of what would be recommended", Quantity("inference", "inference regret", log_y=True)),
    )
    return tuple(_grid(f"unknown-cost-{name}", title, trials, quantity) for name, title, quantity in shown)


def gittins(trials: pd.DataFrame) -> tuple[Figure, ...]:
    """Lay out P Fig. 5, the largest d, costs downwards; and P Fig. 15, 16: a row per function, a column per d."""
    regret = Quantity("simple", "regret", log_y=True, spread="quartiles")
    scenarios = scenarios_of(trials)
    d = max(function_and_d(s.problem)[1] for s in scenarios)
    most = within(trials, [s for s in scenarios if function_and_d(s.problem)[1] == d])
    title = f"Regret against cumulative cost, d = {d} (P Fig. 5)"
    figures = [_matrix("gittins-fig5", title, most, regret, by_function=False)]
    for costs, number in (("uniform", 15), ("varying", 16)):
        here = within(trials, [s for s in scenarios if s.costs == costs])
        if not here.empty:
            title = f"Regret against cumulative cost, {costs} costs (P Fig. {number})"
            figures.append(_matrix(f"gittins-fig{number}", title, here, regret, by_function=True))
    return tuple(figures)


def ca_mobo(trials: pd.DataFrame) -> tuple[Figure, ...]:
    """Lay out M Fig. 3 and 4: per problem the cumulated dear input and the dominated hypervolume against t."""
    dear = Quantity("dear_input", "cumulated dear input", axis="trial")
    volume = Quantity("hypervolume", "dominated hypervolume", axis="trial")
    rows = [[_panel(trials, s, s.problem, q) for q in (dear, volume)] for s in _ordered(scenarios_of(trials))]
    title = "Use of the dear input, and hypervolume, against t (M Fig. 3, 4)"
    return (_figure("ca-mobo-fig3", title, rows, trials, share_y=False),)


def overview(trials: pd.DataFrame) -> tuple[Figure, ...]:
    """Lay out any grid: the regrets and evaluations against cost, simple regret against trials, a row per problem."""
    quantities = (
        ("simple", Quantity("simple", "simple regret", log_y=True, diamonds=True)),
        ("inference", Quantity("inference", "inference regret", log_y=True)),
        ("quality", Quantity("quality", "quality regret")),
        ("cost", Quantity("cost_regret", "cost regret")),
        ("cost-varying", Quantity("cost_varying", "cost-varying regret")),
        ("evaluations", Quantity("trial", "evaluations")),
        ("simple-by-trial", Quantity("simple", "simple regret", axis="trial", log_y=True)),
    )
    against = {"cost": "cost", "trial": "trials"}
    return tuple(_grid(n, f"{q.label.capitalize()} against {against[q.axis]}", trials, q) for n, q in quantities)


def _grid(name: str, title: str, trials: pd.DataFrame, quantity: Quantity) -> Figure:
    """Return a row per problem and budget, a column per costs and variance."""
    found = {((s.problem, s.budget), (s.costs, s.variance)): s for s in _ordered(scenarios_of(trials))}
    columns = sorted({column for _, column in found}, key=lambda c: (_rank(c[0]), c[0], c[1]))

    def heading(row: tuple[str, float], column: tuple[str, float]) -> str:
        about = [f"{column[0]} costs" if column[0] else "", f"variance {column[1]:g}" if column[1] else ""]
        return "\n".join(part for part in (row[0], ", ".join(a for a in about if a)) if part)

    rows = [
        [_panel(trials, found.get((row, column)), heading(row, column), quantity) for column in columns]
        for row in dict.fromkeys(row for row, _ in found)
    ]
    return _figure(name, title, rows, trials, quantity.spread)


def _matrix(name: str, title: str, trials: pd.DataFrame, quantity: Quantity, *, by_function: bool) -> Figure:
    """Return P's layouts: functions across and costs down, or d across and functions down."""
    found = {(*function_and_d(s.problem), s.costs): s for s in scenarios_of(trials)}
    functions, sizes = sorted({k[0] for k in found}), sorted({k[1] for k in found})
    costs = sorted({k[2] for k in found}, key=lambda c: (_rank(c), c))
    if by_function:
        keys = [[(f, d, costs[0]) for d in sizes] for f in functions]
    else:
        keys = [[(f, sizes[0], c) for f in functions] for c in costs]
    rows = [
        [_panel(trials, found.get(k), f"{k[0].capitalize()}, d = {k[1]}\n{k[2]} costs", quantity) for k in row]
        for row in keys
    ]
    return _figure(name, title, rows, trials, quantity.spread, share_y=False)


def _ordered(scenarios: Sequence[PolicyScenario]) -> list[PolicyScenario]:
    return sorted(scenarios, key=lambda s: (_place(PROBLEM_ORDER, s.problem), s.problem, _rank(s.costs), *s[1:]))


def _rank(costs: str) -> int:
    return _place(COST_ORDER, costs.removesuffix("-known").removesuffix("-exact"))


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _panel(trials: pd.DataFrame, scenario: PolicyScenario | None, title: str, quantity: Quantity) -> Panel:
    """Return a scenario's panel, blank where it was not run."""
    here = within(trials, [] if scenario is None else [scenario])
    best = best_set(here) if quantity.diamonds else ""
    lines = []
    for policy in sorted(policies_of(here), key=order_of):
        mine = here[here.index.isin([policy], level="policy")]
        curve = curve_of(mine, quantity.column, quantity.axis)
        settled = left_behind(mine, mine["control_set"] != best) if best else None
        if len(curve):
            lines.append(Curve.of(policy, curve, mine.index.nunique(), quantity.spread, settled))
    across = "metered cost" if quantity.axis == "cost" else "trial t"
    return Panel(title, across, quantity.label, tuple(lines), quantity.log_y)


def _figure(
    name: str,
    title: str,
    rows: Sequence[Sequence[Panel]],
    trials: pd.DataFrame,
    spread: Spread = "standard error",
    *,
    share_y: bool = True,
) -> Figure:
    seeds = group_index(at_share(trials, "trial")).value_counts()
    count = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    what = "Medians and quartiles" if spread == "quartiles" else "Means and standard errors"
    caption = f"{what} over {count} seeds; costs in units of currency, regrets in units of the outcome."
    figure = Figure(name, title, caption, tuple(map(tuple, rows)), share_y)
    more = " A diamond: from there on, on average, the policy plays the best control set only."
    return replace(figure, caption=caption + more) if figure.has_diamonds else figure
