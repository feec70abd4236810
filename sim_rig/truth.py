"""The exact truth of a scenario: the best setting of every control set, what it yields and what it costs.

F_i(x) = E[f([x, X_-i])] over the uncontrolled variables' true distributions, by quasi-Monte-Carlo (scrambled Sobol
points through the quantile functions), noise free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_rig.errors import CommandError
from sim_rig.plants.natural import FloatArray
from sim_rig.scenarios import CURRENCY, Scenario

NODES = 4096
COARSE_NODES, FINE_NODES = 32, 128
"""Where to look needs few nodes, where exactly more; what it is worth is then told with all."""
CANDIDATES = 64
STARTS = 2
MOST_ITERATIONS = 15


def sobol(dimension: int, count: int, seed: int) -> FloatArray:
    """Draw (count, dimension) scrambled Sobol points in (0, 1); `count` a power of two."""
    from scipy.stats import qmc  # noqa: PLC0415  # serving a rig needs no scipy

    points = qmc.Sobol(dimension, seed=seed).random_base2((count - 1).bit_length())[:count]
    return np.asarray(np.clip(points, 1e-12, 1.0 - 1e-12))


@dataclass(frozen=True, slots=True)
class SettingTruth:
    """Says what a setting is truly worth."""

    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    outcome: float
    """F_i(x), outcome's unit."""
    cost: float
    """Expected cost of a trial."""


class Truth:
    """Tells the truth about one scenario."""

    def __init__(self, scenario: Scenario, seed: int = 20231215, *, blind: bool = False) -> None:
        """Tell of trials that look first, as the example's do, or that do not (`blind`)."""
        own = scenario.blind_cost if blind else None
        self._scenario = scenario if own is None else replace(scenario, cost=own)
        points = sobol(len(scenario.variables), NODES, seed)
        self._natural = np.column_stack([v.natural.quantile(points[:, i]) for i, v in enumerate(scenario.variables)])
        self._seed = seed
        self._names = [v.name for v in scenario.variables]

    def setting(self, setpoints: Mapping[str, float]) -> SettingTruth:
        """Return the true value of controlling these variables at these values (engineering units).

        Raises:
            UsageError: a variable is unknown.
        """
        names = self._names
        unknown = sorted(set(setpoints) - set(names))
        if unknown:
            raise CommandError(f"setpoints: got {', '.join(unknown)}; the variables are {', '.join(names)}")
        members = tuple(n for n in names if n in setpoints)
        columns = [names.index(n) for n in members]
        values = np.array([float(setpoints[n]) for n in members])
        x = self._situations(columns, values, NODES)
        return SettingTruth(
            members,
            {n: float(v) for n, v in zip(members, values, strict=True)},
            float(self._scenario.response(x).mean()),
            float(self._scenario.cost(members, x).mean()),
        )

    def rule(self, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what following a rule truly yields and costs, averaged over what nature brings.

        It is read without error, and stays as it was read for the trial. Each line says `when`, as conditions of
        `reading`, `low` and `high`, and what to `set`: `variable`, `at`, its `slopes`, `low`, `high` and `step`.

        Raises:
            UsageError: a variable is unknown, or no line holds for some readings.
        """
        x, followed = self._natural.copy(), np.full(NODES, -1)
        for number, line in enumerate(lines):
            mine = (followed < 0) & np.all(
                [self._holds(c) for c in line["when"]] or [np.ones(NODES, dtype=bool)], axis=0
            )
            followed[mine] = number
        if (followed < 0).any():
            raise CommandError(f"rule: no line holds for {np.mean(followed < 0):.0%} of what may be read")
        outcome, cost = np.empty(NODES), np.empty(NODES)
        for number, line in enumerate(lines):
            mine = followed == number
            for setting in line["set"]:
                x[mine, self._column(setting["variable"])] = self._followed(setting)[mine]
            members = tuple(n for n in self._names if n in {s["variable"] for s in line["set"]})
            if mine.any():
                outcome[mine], cost[mine] = self._scenario.response(x[mine]), self._scenario.cost(members, x[mine])
        shares = [float(np.mean(followed == number)) for number in range(len(lines))]
        return {"outcome": float(outcome.mean()), "cost": float(cost.mean()), "shares": shares}

    def _column(self, name: str) -> int:
        if name not in self._names:
            raise CommandError(f"rule: got {name}; the variables are {', '.join(self._names)}")
        return self._names.index(name)

    def _holds(self, condition: Mapping[str, Any]) -> NDArray[np.bool_]:
        read, low, high = self._natural[:, self._column(condition["reading"])], condition["low"], condition["high"]
        return (read >= (-np.inf if low is None else low)) & (read < (np.inf if high is None else high))

    def _followed(self, setting: Mapping[str, Any]) -> FloatArray:
        slopes = setting["slopes"]
        moved = [s["per_unit"] * (self._natural[:, self._column(s["reading"])] - s["about"]) for s in slopes]
        low, high, step = setting["low"], setting["high"], setting["step"]
        at = np.clip(setting["at"] + sum(moved, np.zeros(NODES)), low, high)
        return np.asarray(at if step is None else np.minimum(low + np.round((at - low) / step) * step, high))

    def best(self, members: Sequence[str]) -> SettingTruth:
        from scipy.optimize import minimize  # noqa: PLC0415  # serving a rig needs no scipy

        columns = [self._names.index(n) for n in members]
        low = np.array([self._scenario.variables[c].low for c in columns])
        span = np.array([self._scenario.variables[c].high for c in columns]) - low

        def loss(unit: FloatArray, nodes: int) -> float:
            return -float(self._scenario.response(self._situations(columns, low + span * unit, nodes)).mean())

        candidates = sobol(len(columns), CANDIDATES * len(columns), self._seed)
        order = np.argsort([loss(c, COARSE_NODES) for c in candidates])
        search = partial(
            minimize,
            loss,
            args=(FINE_NODES,),
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * len(columns),
            options={"maxiter": MOST_ITERATIONS},
        )
        found = [search(candidates[i]) for i in order[:STARTS]]
        unit = min(found, key=lambda r: float(r.fun)).x
        return self.setting(dict(zip(members, (low + span * unit).tolist(), strict=True)))

    def report(self) -> dict[str, Any]:
        sets = [self.best(members) for members in self._scenario.control_sets]
        best = max(sets, key=lambda s: s.outcome)
        return {
            "scenario": self._scenario.name,
            "outcome": {"name": self._scenario.outcome, "unit": self._scenario.unit, "floor": self._scenario.floor},
            "currency": CURRENCY,
            "control_sets": [asdict(s) | {"share_of_best": self.share(s.outcome, best.outcome)} for s in sets],
            "best": asdict(best),
        }

    def share(self, outcome: float, best: float) -> float:
        """Return how good an outcome is beside the best, both counted from the floor."""
        return (outcome - self._scenario.floor) / (best - self._scenario.floor)

    def _situations(self, columns: Sequence[int], values: FloatArray, count: int) -> FloatArray:
        """Return (count, d): the uncontrolled variables as nature brings them, the controlled ones as set."""
        if len(columns) == len(self._scenario.variables):
            count = 1
        x = self._natural[:count].copy()
        x[:, columns] = values
        return x
