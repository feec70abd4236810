"""The bench's table, a row per charged trial, and what is read off it: values at a cost or trial, means over seeds.

Everything that summarises, draws or judges begins with `trials_of`, which checks the table and indexes it by run
(`RUN`: a policy on a scenario with one seed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.errors import UsageError
from rigctl.flaws import require

if TYPE_CHECKING:
    import pandas as pd

SCENARIO = ["problem", "costs", "variance", "budget"]
GROUP = [*SCENARIO, "policy"]
RUN = [*GROUP, "seed"]
COLUMNS = (
    *("trial", "control_set", "phase", "cost", "spent", "y", "value", "simple", "quality", "cost_regret"),
    *("cost_varying", "inference", "dear_input", "hypervolume", "decision_s"),
)
USED = "used_"
"""Begins the columns `used_1`, `used_2`, ... that only problems of several outcomes have."""
FROM_ZERO = ("trial", "quality", "cost_regret", "cost_varying", "dear_input")
"""Columns that are 0 before the first trial; the others are unknown then."""
SHARES = (0.25, 0.5, 1.0)
"""Of the budget, where regrets are compared."""
FLOOR_SHARE = 1e-4
FLOORS = {"inference": FLOOR_SHARE, "simple": FLOOR_SHARE, "quality": 1e-2, "cost_regret": 1e-2}
"""Regrets below these shares of `regret_unit` count as equal to them wherever ratios are taken: an exact zero, or one
policy's 1e-9 against another's 1e-7, is no reason to call the one infinitely or a hundred times better."""

Axis = Literal["cost", "trial"]


class PolicyScenario(NamedTuple):
    """What policies were run on."""

    problem: str
    costs: str
    variance: float
    """Of every uncontrolled variable, unit cube squared; 0 where nothing is uncontrolled."""
    budget: float
    """Currency."""

    @property
    def base_costs(self) -> str:
        """Return `cheap` of `cheap-known`."""
        return self.costs.partition("-")[0]

    def __str__(self) -> str:
        """Return e.g. `hartmann3, moderate costs, variance 0.04, budget 50`."""
        parts = [self.problem, f"{self.costs} costs" if self.costs else ""]
        parts += [f"variance {self.variance:g}" if self.variance else "", f"budget {self.budget:g}"]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Stat:
    """Some runs' values of one quantity."""

    mean: float
    se: float
    """Standard error of the mean: sample sd / sqrt(n); NaN for a single run."""
    n: int

    @classmethod
    def of(cls, values: pd.Series) -> Stat:
        """Return mean and error of the values that are known; NaN where there is none."""
        mean, se = (float(v) for v in values.agg(["mean", "sem"]))
        return cls(mean, se, int(values.count()))

    def __str__(self) -> str:
        """Return e.g. `0.0123 ± 0.0045`."""
        return f"{self.mean:.3g} ± {self.se:.2g}" if isfinite(self.se) else f"{self.mean:.3g}"


T = TypeVar("T")


def by_share(values: Mapping[tuple[str, float], T]) -> dict[str, dict[str, T]]:
    """Return what is known by name and share of the budget as JSON has it, one in the other."""
    found: dict[str, dict[str, T]] = {}
    for (name, share), value in values.items():
        found.setdefault(name, {})[f"{share:g}"] = value
    return found


def trials_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table indexed by `RUN`, in the order of runs and trials.

    Raises:
        UsageError: the table lacks a column, or has two rows for one trial of a run.
    """
    missing = [name for name in (*RUN, *COLUMNS) if name not in frame.columns]
    if missing:
        raise UsageError(f"bench results: no column {', '.join(missing)}; the results were not written by this bench")
    tidy = frame.assign(variance=frame["variance"].fillna(0.0).astype(float), costs=frame["costs"].fillna(""))
    twice = tidy[tidy.duplicated([*RUN, "trial"])]
    if len(twice):
        *scenario, policy, seed = twice.iloc[0][RUN]
        raise UsageError(f"bench results: {policy} on {PolicyScenario(*scenario)}, seed {seed}: a trial occurs twice")
    return tidy.sort_values([*RUN, "trial"]).set_index(RUN)


def scenarios_of(trials: pd.DataFrame | pd.Series) -> list[PolicyScenario]:
    return [PolicyScenario(*key) for key in scenario_index(trials).unique()]


def within(trials: pd.DataFrame, scenarios: Sequence[PolicyScenario]) -> pd.DataFrame:
    return trials[scenario_index(trials).isin(scenarios)] if scenarios else trials.iloc[:0]


def group_index(trials: pd.DataFrame | pd.Series) -> pd.MultiIndex:
    """Return the scenario and policy of every row."""
    index: Any = trials.index
    levels: pd.MultiIndex = index.droplevel("seed")
    return levels


def scenario_index(trials: pd.DataFrame | pd.Series) -> pd.Index:
    return group_index(trials).droplevel("policy")


def policies_of(trials: pd.DataFrame | pd.Series) -> list[str]:
    return sorted(trials.index.unique("policy"))


def steps(trials: pd.DataFrame, column: str, along: pd.Series, places: FloatArray) -> pd.DataFrame:
    """Return each run's last known value at or before each place, (runs, places); NaN or 0 before the first.

    Args:
        trials: see `trials_of`.
        column: of the values; a trial that does not know its value leaves the one before.
        along: a number per trial that rises within each run, e.g. what was spent.
        places: (g,), rising. One counts as reached up to a relative 1e-9: cumulated costs are sums of binary floats,
            and a trial that ends exactly on a quarter of the budget belongs to that quarter.
    """
    reached = np.searchsorted(places + 1e-9 * np.maximum(np.abs(places), 1e-3), along.to_numpy())
    by_place = trials[column].astype(float).to_frame().assign(place=reached).set_index("place", append=True)[column]
    known = by_place.groupby(level=[*RUN, "place"]).last().unstack("place").reindex(columns=range(len(places)))
    values = known.ffill(axis=1)
    if column in FROM_ZERO:
        tells = trials[column].groupby(level=RUN).count() > 0  # several outcomes have no regrets
        values[tells] = values[tells].fillna(0.0)
    return values


def at_share(trials: pd.DataFrame, column: str, share: float = 1.0) -> pd.Series:
    """Return each run's last known value within that share of its budget."""
    of_budget = trials["spent"] / trials.index.get_level_values("budget")
    return steps(trials, column, of_budget, np.array([share]))[0].rename(column)


def curve_of(runs: pd.DataFrame, column: str, axis: Axis = "cost", points: int = 120) -> pd.DataFrame:
    """Return mean, se, low, median and high (the quartiles) of one policy's runs on one scenario, indexed by place.

    Against cost, a run holds its last value, also after it ended early, at so many even steps of the budget. Against
    trials, the curve ends where the first run does. Places that a seed has no value for are left out: a mean over
    changing seeds would jump.

    Raises:
        ValueError: there are no runs, or of more than one policy or scenario.
    """
    import pandas as pd  # noqa: PLC0415 - heavy, and an extra

    groups = group_index(runs).unique()
    require(len(groups) == 1, len(groups), "must be one policy on one scenario", where="curve: runs")
    if axis == "cost":
        places = np.linspace(0.0, runs.index.unique("budget")[0], points + 1)
        values = steps(runs, column, runs["spent"], places)
    else:
        last = runs["trial"].groupby(level=RUN).max()
        places = np.arange(last.max() + 1.0)
        values = steps(runs, column, runs["trial"], places)
        values = values.where(places <= last.to_numpy()[:, None])
    shown = values.loc[:, values.notna().all()]
    low, median, high = (shown.quantile(q) for q in (0.25, 0.5, 0.75))
    found = {"mean": shown.mean(), "se": shown.sem(), "low": low, "median": median, "high": high}
    return pd.DataFrame(found).set_index(places[shown.columns])


def left_behind(runs: pd.DataFrame, such: pd.Series) -> float:
    """Return the mean cost, over runs of one scenario, after which no trial is such a one; NaN if a last trial is."""
    if such.groupby(level=RUN).last().any():
        return nan
    return float(runs["spent"].where(such, 0.0).groupby(level=RUN).max().mean())


def outcome_range(runs: pd.DataFrame) -> float:
    """Return the best true value minus the worst one that these runs of one scenario played, mean over seeds.

    The best true value is what a trial says that none before surpassed: its value plus its simple regret. Where points
    known beforehand surpass all trials of all runs, it is underrated by as much as the least of them lacked.
    """
    best = (runs["value"] + runs["simple"]).groupby(level="seed").max()
    return float((best - runs["value"].groupby(level="seed").min()).mean())


def regret_unit(runs: pd.DataFrame, regret: str, share: float) -> float:
    """Return the unit that a regret of one scenario is a share of; see `floors_text`."""
    if regret == "cost_regret":
        return float(runs.index.unique("budget")[0])
    return outcome_range(runs) * (float(at_share(runs, "trial", share).mean()) if regret == "quality" else 1.0)


def floors_text(floors: Mapping[str, float]) -> str:
    """Name the units of regrets where ratios are taken, and their floors."""
    told = ", ".join(f"{regret.replace('_', ' ')} {floor:.2%}" for regret, floor in floors.items())
    return (
        f"Simple and inference regret are shares of the outcome's range, quality regret of the range in every trial, "
        f"cost regret of the budget. They count as at least: {told}."
    )


def regret_floor(runs: pd.DataFrame, regret: str = "simple", share: float = 1.0) -> float:
    """Return the floor of that regret of one scenario: smaller ones count as equal to it where ratios are taken."""
    # where every outcome is the same, or unknown, any positive number keeps the ratio of equals at 1
    return max(1e-12, FLOORS[regret] * regret_unit(runs, regret, share))


def best_set(runs: pd.DataFrame) -> str:
    """Return the set that reached the highest true value in runs of one scenario, mean over seeds of each one's best.

    What the runs themselves show, so that it needs nothing but the table; a set nobody ever played cannot win.
    """
    reached = runs.set_index("control_set", append=True)["value"].groupby(level=["control_set", "seed"]).max()
    means = reached.dropna().groupby(level="control_set").mean()
    return "" if means.empty else str(means.idxmax())


def function_and_d(problem: str) -> tuple[str, int]:
    """Return the parts of a name: `ackley-16` or `ackley16` -> (`ackley`, 16)."""
    name = problem.rstrip("0123456789")
    return name.rstrip("-"), int(problem[len(name) :] or 0)
