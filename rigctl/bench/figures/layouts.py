"""The papers' figures from a table of results: which panels, which axes, which lines.

C = Tay et al. (NeurIPS 2023), U = Hoang et al., P = Xie et al., M = Abdolshah et al.; what is shown where follows their
captions, the logarithmic regret axis of C follows its published plotting code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigctl.bench.figures.figure import Figure, Line, Panel, Spread
from rigctl.bench.figures.style import order_of
from rigctl.bench.names import must_be_one_of
from rigctl.bench.tables.curves import Axis, curve_of, settled_cost
from rigctl.bench.tables.runs import Run, Setting, best_set, function_and_d, pick, policies_of, runs_of, settings_of

if TYPE_CHECKING:
    import pandas as pd

COST_ORDER = ("cheap", "moderate", "expensive", "uniform", "varying", "varying-sum")
PROBLEM_ORDER = ("gp-sample3", "hartmann3", "hartmann6+6", "ackley6+6", "levy6+6", "plant", "airfoil")
PER_COST = ("-per-cost", "/cost")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a panel shows."""

    column: str
    label: str
    axis: Axis = "cost"
    log_y: bool = False
    spread: Spread = "standard error"
    diamonds: bool = False


def figures_of(paper: str, frame: pd.DataFrame) -> tuple[Figure, ...]:
    """The figures of a paper (`unknown-cost`, `ucb-cvs`, `gittins`, `ca-mobo`), or of any grid (`overview`).

    Raises:
        UsageError: there is no such layout, or the table is not one of this bench.
    """
    layouts = {
        "unknown-cost": unknown_cost,
        "ucb-cvs": ucb_cvs,
        "gittins": gittins,
        "ca-mobo": ca_mobo,
        "overview": overview,
    }
    must_be_one_of(paper, list(layouts), "figures")
    runs = runs_of(frame)
    return layouts[paper](runs) if runs else ()


def ucb_cvs(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """C Fig. 2: a row per objective, a column per cost set and variance; C Fig. 3: the baselines per unit cost."""
    plain = [run for run in runs if not run.policy.endswith(PER_COST)]
    simple = Quantity("simple", "simple regret", log_y=True, diamonds=True)
    figures = [_grid("ucb-cvs-fig2", "Simple regret against cost (C Fig. 2)", plain, simple)]
    naive = [s for s in settings_of(runs) if any(p.endswith(PER_COST) for p in policies_of(pick(runs, s)))]
    if naive:
        here = [run for run in runs if run.setting in naive]
        figures.append(_grid("ucb-cvs-fig3", "Baselines per unit cost (C Fig. 3)", here, simple))
    return tuple(figures)


def unknown_cost(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """U Fig. 1: simple regret; U Fig. 2: number of evaluations; beside them the regrets U's theory bounds."""
    shown = (
        ("fig1", "Simple regret against cost (U Fig. 1)", Quantity("simple", "simple regret", log_y=True)),
        ("fig2", "Number of evaluations against cost (U Fig. 2)", Quantity("trial", "evaluations")),
        ("quality", "Cumulated quality regret (U Theorem 1)", Quantity("quality", "quality regret")),
        ("cost", "Cumulated cost regret (U Theorem 1)", Quantity("cost_regret", "cost regret")),
        ("inference", "Regret of what would be recommended", Quantity("inference", "inference regret", log_y=True)),
    )
    return tuple(_grid(f"unknown-cost-{name}", title, runs, quantity) for name, title, quantity in shown)


def gittins(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """P Fig. 5: d = 16, uniform costs above, varying ones below; P Fig. 15, 16: a row per function, a column per d."""
    regret = Quantity("simple", "regret", log_y=True, spread="quartiles")
    names = sorted({function_and_d(run.setting.problem)[1] for run in runs})
    figures = []
    if names:
        most = [run for run in runs if function_and_d(run.setting.problem)[1] == names[-1]]
        title = f"Regret against cumulative cost, d = {names[-1]} (P Fig. 5)"
        figures.append(_matrix("gittins-fig5", title, most, regret, by_function=False))
    for costs, number in (("uniform", 15), ("varying", 16)):
        here = [run for run in runs if run.setting.costs == costs]
        if here:
            title = f"Regret against cumulative cost, {costs} costs (P Fig. {number})"
            figures.append(_matrix(f"gittins-fig{number}", title, here, regret, by_function=True))
    return tuple(figures)


def ca_mobo(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """M Fig. 3 and 4: per problem the cumulated dear input and the dominated hypervolume against t."""
    dear = Quantity("dear_input", "cumulated dear input", axis="trial")
    volume = Quantity("hypervolume", "dominated hypervolume", axis="trial")
    rows = [[_panel(runs, s, s.problem, q) for q in (dear, volume)] for s in _ordered(settings_of(runs))]
    title = "Use of the dear input, and hypervolume, against t (M Fig. 3, 4)"
    return (_figure("ca-mobo-fig3", title, rows, runs, share_y=False),)


def overview(runs: Sequence[Run]) -> tuple[Figure, ...]:
    """For any grid: the regrets, evaluations and decision-independent trials, a row per problem."""
    quantities = (
        ("simple", Quantity("simple", "simple regret", log_y=True, diamonds=True)),
        ("inference", Quantity("inference", "inference regret", log_y=True)),
        ("quality", Quantity("quality", "quality regret")),
        ("cost", Quantity("cost_regret", "cost regret")),
        ("cost-varying", Quantity("cost_varying", "cost-varying regret")),
        ("evaluations", Quantity("trial", "evaluations")),
    )
    figures = [_grid(name, f"{q.label.capitalize()} against cost", runs, q) for name, q in quantities]
    by_trial = Quantity("simple", "simple regret", axis="trial", log_y=True)
    return (*figures, _grid("simple-by-trial", "Simple regret against trials", runs, by_trial))


def _grid(name: str, title: str, runs: Sequence[Run], quantity: Quantity) -> Figure:
    """A row per problem and budget, a column per costs and variance."""
    settings = _ordered(settings_of(runs))
    places = list(dict.fromkeys((s.problem, s.budget) for s in settings))
    columns = sorted({(s.costs, s.variance) for s in settings}, key=lambda c: (_rank(c[0]), c[0], c[1]))
    rows = []
    for problem, budget in places:
        row = []
        for costs, variance in columns:
            about = [f"{costs} costs" if costs else "", f"variance {variance:g}" if variance else ""]
            heading = "\n".join(part for part in (problem, ", ".join(a for a in about if a)) if part)
            row.append(_panel(runs, Setting(problem, costs, variance, budget), heading, quantity))
        rows.append(row)
    return _figure(name, title, rows, runs, quantity.spread)


def _matrix(name: str, title: str, runs: Sequence[Run], quantity: Quantity, *, by_function: bool) -> Figure:
    """P's layouts: functions across and costs down, or d across and functions down."""
    found = {(*function_and_d(s.problem), s.costs): s for s in settings_of(runs)}
    functions, sizes = sorted({k[0] for k in found}), sorted({k[1] for k in found})
    costs = sorted({k[2] for k in found}, key=lambda c: (_rank(c), c))
    if by_function:
        keys = [[(f, d, costs[0]) for d in sizes] for f in functions]
    else:
        keys = [[(f, sizes[0], c) for f in functions] for c in costs]
    nowhere = Setting("", "", -1.0, 0.0)
    rows = [
        [_panel(runs, found.get(k, nowhere), f"{k[0].capitalize()}, d = {k[1]}\n{k[2]} costs", quantity) for k in row]
        for row in keys
    ]
    return _figure(name, title, rows, runs, quantity.spread, share_y=False)


def _ordered(settings: Sequence[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda s: (_place(s.problem), s.problem, _rank(s.costs), s.costs, s.variance, s.budget))


def _place(problem: str) -> int:
    return PROBLEM_ORDER.index(problem) if problem in PROBLEM_ORDER else len(PROBLEM_ORDER)


def _rank(costs: str) -> int:
    base = costs.removesuffix("-known").removesuffix("-exact")
    return COST_ORDER.index(base) if base in COST_ORDER else len(COST_ORDER)


def _panel(runs: Sequence[Run], setting: Setting, title: str, quantity: Quantity) -> Panel:
    here = pick(runs, setting)
    best = best_set(here) if quantity.diamonds else ""
    lines = []
    for policy in sorted(policies_of(here), key=order_of):
        mine = pick(here, policy=policy)
        curve = curve_of(mine, quantity.column, quantity.axis)
        settled = settled_cost(mine, best).mean if best else None
        line = Line.of(curve, quantity.spread, settled)
        if len(line.x):
            lines.append(line)
    across = "metered cost" if quantity.axis == "cost" else "trial t"
    return Panel(title, across, quantity.label, tuple(lines), quantity.log_y)


def _figure(
    name: str,
    title: str,
    rows: Sequence[Sequence[Panel]],
    runs: Sequence[Run],
    spread: Spread = "standard error",
    *,
    share_y: bool = True,
) -> Figure:
    seeds = sorted({len(pick(runs, s, p)) for s in settings_of(runs) for p in policies_of(pick(runs, s))})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    what = "Medians and quartiles" if spread == "quartiles" else "Means and standard errors"
    caption = f"{what} over {count} seeds; costs in units of currency, regrets in units of the outcome."
    figure = Figure(name, title, caption, tuple(tuple(row) for row in rows), spread, share_y)
    if figure.has_diamonds:
        more = " A diamond: from there on, on average, the policy plays the best control set only."
        return Figure(name, title, caption + more, figure.rows, spread, share_y)
    return figure
