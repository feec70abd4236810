"""The papers' figures from a table of results: which panels, which axes, which lines.

C = Tay et al. (NeurIPS 2023), U = Hoang et al., P = Xie et al., M = Abdolshah et al.; what is shown where follows their
captions, the logarithmic regret axis of C follows its published plotting code.

Figures as data, before anything is drawn: panels of lines with a band, the same for every format.

Here they are laid out as the papers laid theirs out; `draw` draws them, `page` makes them pages to look into. A policy
has one look in every figure and format: colour and line style, as `labels.yaml` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal
from zlib import crc32

import numpy as np
import pandas as pd

from rigctl.bench.asking.options import listed, plain_label
from rigctl.bench.cell import must_be_one_of
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
from rigctl.core.experiment.arrays import FloatArray
from rigctl.flaws import got

Spread = Literal["standard error", "quartiles"]
Dash = Literal["solid", "dash", "dot", "dashdot", "longdash"]
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot", "longdash")
PALETTE = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#7F7F7F",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy's line looks."""

    name: str
    """In legends."""
    colour: str
    dash: Dash = "solid"


def style_of(policy: str) -> Style:
    """Return the look of a policy label; of one not listed, a fixed function of its letters."""
    said = listed().get(plain_label(policy))
    if said is not None:
        return Style(said["name"], PALETTE[said["colour"]], said.get("line", "solid"))
    number, colours = crc32(policy.encode()), tuple(PALETTE.values())
    return Style(policy, colours[number % len(colours)], DASHES[1 + number // len(colours) % (len(DASHES) - 1)])


def order_of(policy: str) -> tuple[int, str]:
    """Return a key that sorts policies as they are listed; others after them, by name."""
    labels = list(listed())
    return (labels.index(plain_label(policy)) if plain_label(policy) in labels else len(labels), policy)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One policy in one panel. All arrays (g,), finite."""

    policy: str
    x: FloatArray
    y: FloatArray
    """Mean, or median where the spread is quartiles."""
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    se: FloatArray
    """NaN for a single seed."""
    n: int
    diamond: tuple[float, float] | None = None
    """Where a policy from then on only plays the best set, on average."""

    @classmethod
    def of(cls, policy: str, curve: pd.DataFrame, n: int, spread: Spread, settled: float | None = None) -> Curve:
        """Return the line of a `curve_of` n seeds, with the diamond at the settled cost."""
        x = curve.index.to_numpy(dtype=float)
        mean, se, low, median, high = (curve[name].to_numpy() for name in ("mean", "se", "low", "median", "high"))
        y = median
        if spread == "standard error":
            around = np.nan_to_num(se)
            y, low, high = mean, mean - around, mean + around
        diamond = None
        if settled is not None and isfinite(settled) and len(x):
            place = int(np.argmin(np.abs(x - settled)))
            diamond = (float(x[place]), float(y[place]))
        return cls(policy, x, y, low, high, mean, se, n, diamond)

    def told_at(self, x: float) -> str:
        """Return mean ± standard error and number of seeds at a place, or nothing where there is no line."""
        place = int(np.searchsorted(self.x, x, side="right")) - 1
        if place < 0:
            return ""
        mean, se = self.mean[place], self.se[place]
        settled = f", only the best set from {self.diamond[0]:.3g} on" if self.diamond and self.diamond[0] <= x else ""
        return f"{mean:.4g}{f' ± {se:.2g}' if isfinite(se) else ''} (n = {self.n}){settled}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; without lines it stays blank and says so."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Curve, ...]
    log_y: bool = False

    def floor(self) -> float:
        """Return the least value shown: bands that reach zero or below are cut at a positive one on a log axis."""
        if not self.log_y:
            return -np.inf
        positive = [float(v[v > 0].min()) for line in self.lines for v in (line.y, line.low) if (v > 0).any()]
        smallest = min(positive, default=1e-6)
        means = [float(line.y[line.y > 0].min()) for line in self.lines if (line.y > 0).any()]
        # a band that nearly touches zero would otherwise stretch the axis over decades with nothing in them
        return max(smallest, 0.3 * min(means, default=smallest))


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels in rows and columns, with one legend for all."""

    name: str
    """File name without ending."""
    title: str
    caption: str
    """What is shown, over how many seeds."""
    rows: tuple[tuple[Panel, ...], ...]
    share_y: bool = True
    """Panels of a row have the same y axis."""

    def __post_init__(self) -> None:
        if not self.rows or len({len(row) for row in self.rows}) != 1:
            panels = [len(row) for row in self.rows]
            raise ValueError(got(panels, "must be the same in each row", where=f"figure {self.name}: panels"))

    @property
    def policies(self) -> tuple[str, ...]:
        """Return every policy that has a line somewhere, in the order of legends."""
        found = {line.policy for row in self.rows for panel in row for line in panel.lines}
        return tuple(sorted(found, key=order_of))

    @property
    def has_diamonds(self) -> bool:
        return any(line.diamond for row in self.rows for panel in row for line in panel.lines)


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
