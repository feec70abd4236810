"""The bench's table taken apart: one `Run` per cell, its columns as arrays, and their values at a cost or trial.

Everything that summarises, draws or judges works on runs; the table itself is read here only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

KEY = ("problem", "costs", "variance", "budget", "policy", "seed")
NUMBERS = (
    "trial",
    "cost",
    "spent",
    "y",
    "value",
    "simple",
    "quality",
    "cost_regret",
    "cost_varying",
    "inference",
    "dear_input",
    "hypervolume",
    "decision_s",
)
USED = "used_"
"""Begins the columns `used_1`, `used_2`, ... that only problems of several outcomes have."""
FROM_ZERO = ("trial", "quality", "cost_regret", "cost_varying", "dear_input")
"""Columns that are 0 before the first trial; the others are unknown then."""
SHARES = (0.25, 0.5, 1.0)
"""Of the budget, where regrets are compared."""
FLOOR_SHARE = 1e-4
"""Regrets below this share of the outcome's range count as equal to it wherever ratios are taken: an exact zero, or
one policy's 1e-9 against another's 1e-7, is no reason to call the one infinitely or a hundred times better."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """What a policy was run on."""

    problem: str
    costs: str
    variance: float
    """Of every uncontrolled variable, unit cube squared; 0 where nothing is uncontrolled."""
    budget: float
    """Currency."""

    def __str__(self) -> str:
        """E.g. `hartmann3, moderate costs, variance 0.04, budget 50`."""
        parts = [self.problem, f"{self.costs} costs" if self.costs else ""]
        parts += [f"variance {self.variance:g}" if self.variance else "", f"budget {self.budget:g}"]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run: a policy on a setting with one seed, trial by trial."""

    setting: Setting
    policy: str
    seed: int
    control_set: tuple[str, ...]
    """Label of the set played in each trial."""
    phase: tuple[str, ...]
    numbers: Mapping[str, FloatArray]
    """(n,) each, by column of the table."""

    @property
    def used(self) -> FloatArray:
        """(d,), the sum of each variable over all trials; empty where the problem does not tell it."""
        columns = sorted((name for name in self.numbers if name.startswith(USED)), key=lambda n: int(n[len(USED) :]))
        return np.array([self.numbers[name][-1] for name in columns])

    def __len__(self) -> int:
        return len(self.control_set)

    @property
    def spent(self) -> FloatArray:
        """(n,), currency, cumulated."""
        return self.numbers["spent"]

    def at_cost(self, column: str, cost: FloatArray) -> FloatArray:
        """(g,): the column's last known value at or before each metered cost (g,), currency."""
        return step(self.spent, self.numbers[column], cost, self._before(column))

    def at_trial(self, column: str, trial: FloatArray) -> FloatArray:
        """(g,): the column's last known value at or before each trial; NaN beyond the last trial."""
        found = step(self.numbers["trial"], self.numbers[column], trial, self._before(column))
        return np.where(trial <= self.numbers["trial"][-1], found, nan)

    def _before(self, column: str) -> float:
        """Before the first trial: 0 if it is cumulated, and known at all (several outcomes have no regrets)."""
        return 0.0 if column in FROM_ZERO and np.isfinite(self.numbers[column]).any() else nan

    def at_share(self, column: str, share: float) -> float:
        """The column at that share of the budget: of the last row with spent <= share * budget that knows it."""
        return float(self.at_cost(column, np.array([share * self.setting.budget]))[0])

    def settled_at(self, control_set: str) -> float:
        """Currency spent before the trial from which on only this set is played; NaN if the last trial is another's."""
        others = [i for i, played in enumerate(self.control_set) if played != control_set]
        if not others:
            return 0.0
        return nan if others[-1] == len(self) - 1 else float(self.spent[others[-1]])

    def share_played(self, sets: Iterable[str], after: float = 0.0) -> float:
        """Share of the trials begun after that much was spent that played one of these sets; NaN without any."""
        wanted = set(sets)
        begun = self.spent - self.numbers["cost"] >= after
        late = [played in wanted for played, counts in zip(self.control_set, begun, strict=True) if counts]
        return sum(late) / len(late) if late else nan


def step(at: FloatArray, value: FloatArray, grid: FloatArray, before: float = nan) -> FloatArray:
    """(g,): the last finite `value` (n,) whose `at` (n,), ascending, is at or before each `grid` (g,).

    A place counts as reached up to a relative 1e-9: cumulated costs are sums of binary floats, and a trial that ends
    exactly on a quarter of the budget belongs to that quarter.
    """
    known = np.isfinite(value)
    reached = np.searchsorted(at[known], grid + 1e-9 * np.maximum(np.abs(grid), 1e-3), side="right")
    return np.concatenate([[before], value[known]])[reached]


def runs_of(frame: pd.DataFrame) -> tuple[Run, ...]:
    """The table's runs, ordered by setting, policy and seed.

    Raises:
        UsageError: the table lacks a column, or has two rows for one trial of a run.
    """
    missing = [name for name in (*KEY, *NUMBERS, "control_set", "phase") if name not in frame.columns]
    if missing:
        raise UsageError(f"bench results: no column {', '.join(missing)}; the results were not written by this bench")
    tidy = frame.assign(variance=frame["variance"].fillna(0.0).astype(float), costs=frame["costs"].fillna(""))
    runs = [_run(part.sort_values("trial")) for _, part in tidy.groupby(list(KEY), sort=True)]
    return tuple(runs)


def _run(rows: pd.DataFrame) -> Run:
    first = rows.iloc[0]
    setting = Setting(str(first["problem"]), str(first["costs"]), float(first["variance"]), float(first["budget"]))
    trials = rows["trial"].to_numpy()
    if len(np.unique(trials)) < len(trials):
        raise UsageError(f"bench results: {first['policy']} on {setting}, seed {first['seed']}: a trial occurs twice")
    return Run(
        setting=setting,
        policy=str(first["policy"]),
        seed=int(first["seed"]),
        control_set=tuple(map(str, rows["control_set"])),
        phase=tuple(map(str, rows["phase"])),
        numbers={name: rows[name].to_numpy(dtype=float) for name in (*NUMBERS, *_used(rows))},
    )


def _used(rows: pd.DataFrame) -> list[str]:
    """The run's own columns of use: a table of several problems has those of the largest one."""
    return [str(name) for name in rows.columns if str(name).startswith(USED) and rows[name].notna().any()]


@dataclass(frozen=True, slots=True)
class Stat:
    """Some runs' values of one quantity."""

    mean: float
    se: float
    """Standard error of the mean: sample sd / sqrt(n); NaN for a single run."""
    n: int
    median: float = nan
    quartiles: tuple[float, float] = (nan, nan)

    @classmethod
    def of(cls, values: Iterable[float]) -> Stat:
        """Of the finite values; NaN throughout if there is none."""
        known = np.array([v for v in values if isfinite(v)])
        n = len(known)
        if n == 0:
            return cls(nan, nan, 0)
        se = float(known.std(ddof=1)) / sqrt(n) if n > 1 else nan
        low, middle, high = (float(q) for q in np.quantile(known, [0.25, 0.5, 0.75]))
        return cls(float(known.mean()), se, n, middle, (low, high))

    def __str__(self) -> str:
        """E.g. `0.0123 ± 0.0045`."""
        return f"{self.mean:.3g} ± {self.se:.2g}" if isfinite(self.se) else f"{self.mean:.3g}"

    def to_json(self) -> dict[str, float | int | None]:
        """Mean, standard error and number of runs; null where unknown."""
        return {"mean": number(self.mean), "se": number(self.se), "n": self.n}


def number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return value if isfinite(value) else None


def settings_of(runs: Sequence[Run]) -> tuple[Setting, ...]:
    """Every setting that occurs, in order of first occurrence."""
    return tuple(dict.fromkeys(run.setting for run in runs))


def policies_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """Every policy that occurs, in order of first occurrence."""
    return tuple(dict.fromkeys(run.policy for run in runs))


def pick(runs: Sequence[Run], setting: Setting | None = None, policy: str | None = None) -> tuple[Run, ...]:
    """The runs of a policy on a setting."""
    return tuple(r for r in runs if setting in {None, r.setting} and policy in {None, r.policy})


def outcome_range(runs: Sequence[Run]) -> float:
    """Best true value minus the worst value any of these runs of one setting played, mean over seeds, outcome units.

    The best true value is what a trial says that none before surpassed: its value plus its simple regret. Where points
    known beforehand surpass all trials of all runs, it is underrated by as much as the least of them lacked.
    """
    spans = []
    for seed in sorted({r.seed for r in runs}):
        mine = [r for r in runs if r.seed == seed]
        best = max(float((r.numbers["value"] + r.numbers["simple"]).max()) for r in mine)
        spans.append(best - min(float(r.numbers["value"].min()) for r in mine))
    return Stat.of(spans).mean


def regret_floor(runs: Sequence[Run]) -> float:
    """What regrets in these runs of one setting are raised to at least before ratios are taken, outcome units."""
    # where every outcome is the same, or unknown, any positive number keeps the ratio of equals at 1
    return max(1e-12, FLOOR_SHARE * outcome_range(runs))


def best_set(runs: Sequence[Run]) -> str:
    """The set that reached the highest true value in these runs of one setting, mean over seeds of each seed's best.

    What the runs themselves show, so that it needs nothing but the table; a set nobody ever played cannot win.
    """
    reached: dict[str, dict[int, float]] = {}
    for run in runs:
        for played, value in zip(run.control_set, run.numbers["value"], strict=True):
            if isfinite(value):
                by_seed = reached.setdefault(played, {})
                by_seed[run.seed] = max(by_seed.get(run.seed, -np.inf), float(value))
    if not reached:
        return ""
    return max(sorted(reached), key=lambda played: Stat.of(reached[played].values()).mean)


def function_and_d(problem: str) -> tuple[str, int]:
    """`ackley-16` or `ackley16` -> (`ackley`, 16)."""
    name = problem.rstrip("0123456789")
    digits = problem[len(name) :]
    return name.rstrip("-"), int(digits) if digits else 0
