"""How policies stand on many problems, and how often the intervals told of a recommendation held the truth.

Policies stand by geometric means of the four regrets, and each against its rivals. A regret is a mean over seeds, as a
share of its unit (`regret_unit`), and at least a floor before its logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rigctl.bench.problems.drawn import drawn, seed_of
from rigctl.bench.tables.results import (
    FLOORS,
    SCENARIO,
    SHARES,
    PolicyScenario,
    at_share,
    by_share,
    floors_text,
    regret_unit,
    scenarios_of,
    trials_of,
    within,
)
from rigctl.bench.tables.summary import REGRETS, table_text

if TYPE_CHECKING:
    import pandas as pd

LEAST = {"simple": 1e-3, "inference": 1e-3, "quality": FLOORS["quality"], "cost_regret": FLOORS["cost_regret"]}
"""Floor of each regret, as a share of its unit: true values are only known to 1e-3 of the range."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One policy, on the campaigns that all policies have played."""

    policy: str
    problems: int
    means: Mapping[tuple[str, float], float]
    """(regret, share of the budget) -> geometric mean over the problems."""
    best_single: str
    """The one rival with the least geometric mean of simple and inference regret over all shares of the budget."""
    to_best_single: float
    """Ratio of this policy's geometric mean to that rival's."""
    between: tuple[float, float]
    """Interval of two standard errors of the mean logarithm, over the problems."""
    to_best_per_problem: float
    """Geometric mean ratio to the least that any rival has, for each problem, regret and share apart."""
    trials: float
    """Mean number of trials in a campaign."""
    decisions_s: float
    """Mean CPU seconds of all decisions of a campaign."""

    def by_name(self) -> dict[str, Any]:
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "means"}
        return {**told, **by_share(self.means)}


def standings(frame: pd.DataFrame) -> Mapping[str, tuple[Standing, ...]]:
    """Return a row per policy, the best first, on all problems, and on those of each kind of costs if some differ.

    There is no entry without two policies that have two problems in common.

    Raises:
        UsageError: the table is not one of this bench.
    """
    trials = trials_of(frame)
    logs = _logs(trials)
    placed, kinds = {"All problems": _placed(trials, logs)}, sorted({s.costs for s in scenarios_of(trials)})
    for costs in kinds if len(kinds) > 1 else ():
        part = {key: table[table.index.get_level_values("costs") == costs] for key, table in logs.items()}
        placed[f"{costs} costs"] = _placed(trials[trials.index.get_level_values("costs") == costs], part)
    return {name: rows for name, rows in placed.items() if rows}


def _placed(trials: pd.DataFrame, logs: Mapping[tuple[str, float], pd.DataFrame]) -> tuple[Standing, ...]:
    judged = [table for (regret, _), table in logs.items() if regret in REGRETS]
    whole = sum(judged[1:], judged[0]) / len(judged)
    if min(whole.shape) < 2:
        return ()
    rows = []
    for policy in whole.mean().sort_values().index:
        others = [name for name in whole.columns if name != policy]
        rival = str(whole[others].mean().idxmin())
        apart = whole[policy] - whole[rival]
        middle, width = float(apart.mean()), 2 * float(apart.sem())
        least = pd.concat([table[policy] - table[others].min(axis=1) for table in judged])
        means = {key: exp(table[policy].mean()) for key, table in logs.items()}
        between, own = (exp(middle - width), exp(middle + width)), trials.xs(policy, level="policy")
        campaigns = len(own.index.unique())
        seconds = float(own["decision_s"].sum()) / campaigns
        ratios = rival, exp(middle), between, exp(least.mean())
        rows.append(Standing(policy, len(apart), means, *ratios, len(own) / campaigns, seconds))
    return tuple(rows)


def _logs(trials: pd.DataFrame) -> Mapping[tuple[str, float], pd.DataFrame]:
    """Return logs of regrets as shares of their units, by problem and policy, on seeds that all have played.

    Before its first trial a policy has achieved nothing: its regret is the whole range.
    """
    finished: Any = at_share(trials, "simple").unstack("policy").dropna().index
    problems = [PolicyScenario(*key) for key in finished.droplevel("seed")]
    runs = {problem: within(trials, [problem]) for problem in problems}
    logs = {}
    for regret, share in ((regret, share) for regret in LEAST for share in SHARES):
        units = {problem: regret_unit(runs[problem], regret, share) for problem in runs}
        shares = at_share(trials, regret, share).unstack("policy").loc[finished]
        means: Any = shares.div([units[problem] for problem in problems], axis=0).fillna(1.0).groupby(SCENARIO).mean()
        logs[regret, share] = pd.DataFrame(np.log(means.clip(lower=LEAST[regret])))
    return logs


def standings_text(rows: Sequence[Standing]) -> str:
    """Return a line per policy; regrets in percent, at the three shares of the budget."""
    regrets = {regret: [key for key in rows[0].means if key[0] == regret] for regret in LEAST}
    shares = "/".join(f"{100 * share:.0f}" for share in SHARES)
    head = ["policy", *(f"{regret.replace('_', ' ')} {shares}" for regret in regrets)]
    lines = []
    for row in rows:
        means = [" ".join(f"{100 * row.means[key]:.3g}" for key in keys) for keys in regrets.values()]
        low, high = row.between
        single = f"{row.to_best_single:.2f} ({low:.2f} to {high:.2f}, {row.best_single})"
        rest = [single, f"{row.to_best_per_problem:.2f}", f"{row.trials:.0f}", f"{row.decisions_s:.2g}"]
        lines.append([row.policy, *means, *rest])
    table = table_text([[*head, "to the best other", "to the best per problem", "trials", "CPU s"], *lines])
    return (
        f"{table}\n{rows[0].problems} problems. Regrets are geometric means in percent. Ratios are of simple and "
        f"inference regret; in brackets two standard errors.\n{floors_text(LEAST)}"
    )


# intervals ------------------------------------------------------------------------------------------------------------


HELD = {"value": "held", "cost": "cost_held"}
"""What an interval is told of, and the column that says whether it held."""
EVERY = "all"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Hold it for one policy, on problems of one family."""

    policy: str
    family: str
    """Of drawn problems; the name of any other; `EVERY`: of all."""
    held: Mapping[tuple[str, float], tuple[int, int]]
    """(`value` or `cost`, share of the budget) -> how many intervals held the truth, and of how many."""

    def by_name(self) -> dict[str, Any]:
        return {"policy": self.policy, "family": self.family, **by_share(self.held)}


def coverage(frame: pd.DataFrame) -> Sequence[Coverage]:
    """Return a row per policy and family, that of all families first; none of results that do not say what held.

    Raises:
        UsageError: the table is not one of this bench.
    """
    if not set(HELD.values()) <= set(frame.columns):
        return []
    trials = trials_of(frame)
    told = trials[trials["held"].notna()]
    families = {name: family_of(str(name)) for name in told.index.unique("problem")}
    found = []
    for policy in sorted(told.index.unique("policy")):
        mine = told.xs(policy, level="policy")
        family = mine.index.get_level_values("problem").map(families)
        each = [(EVERY, mine), *((name, mine[family == name]) for name in sorted(set(family)))]
        found += [Coverage(str(policy), name, _held(part)) for name, part in each]
    return found


def family_of(problem: str) -> str:
    """Return the family of a drawn problem, the name of any other."""
    seed = seed_of(problem)
    return problem if seed is None else drawn(seed, solved=False).family


def _held(told: pd.DataFrame) -> Mapping[tuple[str, float], tuple[int, int]]:
    """Count what was told last within each share of the budget of every campaign."""
    found = {}
    budget: Any = told.index.get_level_values("budget")
    for share in SHARES:
        last: Any = told[told["spent"] <= share * budget + 1e-9].groupby(level=told.index.names).last()
        for what, column in HELD.items():
            found[what, share] = int(last[column].sum()), int(last[column].count())
    return found


def coverage_text(rows: Sequence[Coverage]) -> str:
    """Return a line per policy and family: in percent at the three shares of the budget, and of all three."""
    shares = "/".join(f"{100 * share:.0f}" for share in SHARES)
    lines = [["policy", "problems", f"value {shares}", "all", f"cost {shares}", "all", "intervals"]]
    for row in rows:
        told = []
        for what in HELD:
            counts = [row.held[what, share] for share in SHARES]
            total = sum(held for held, _ in counts), sum(of for _, of in counts)
            told += [" ".join(map(_percent, counts)), _percent(total)]
        lines.append([row.policy, row.family, *told, str(sum(row.held["value", share][1] for share in SHARES))])
    return f"{table_text(lines)}\nHow often the 95 % intervals told of a recommendation held the truth, in percent."


def _percent(counts: tuple[int, int]) -> str:
    held, of = counts
    return f"{100 * held / of:.0f}" if of else "-"
