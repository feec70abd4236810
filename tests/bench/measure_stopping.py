"""Measure what stopping early returns: money that is left, and regret that is added.

`python -m tests.bench.measure_stopping --seeds 100:112` plays the default on drawn problems to the end of their
budgets, or of `--times` as much. It finds in every decision what a unit of the outcome must be worth for a trial to be
worth its cost. As a policy decides with the rule as without it, the trial at which any worth would have ended the
campaign follows. Worths are told by the share of the outcome's range that is worth the whole budget. A line per draw
and worth; then a line per worth.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides, predefined
from rigctl.bench.problems.drawn import drawn
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.bench.running.simulate import initial, one_thread, recommended_after, simulate
from rigctl.core.acquisition.stopping import KEPT, STEADY, standing
from rigctl.core.asking import Played
from rigctl.core.experiment.history import History
from rigctl.core.experiment.natural import belief

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Ended:
    """Holds where a worth would have ended one campaign. Regrets are shares of the outcome's range."""

    share: float
    trials: int
    returned: float
    """Share of the budget."""
    regret: float
    regret_at_end: float


def break_evens(played: Played) -> list[float]:
    """Return for every decision what a unit of the outcome must be worth, currency units; 0 where nothing is said."""
    problem, state, found = replace(played.problem, stop_worth=1.0), {}, []
    known, rows = initial(played), played.history.observations
    for row in range(known, len(rows) + 1):
        history = History(rows[:row])
        stands = standing(belief(problem, history).problem, history, state)
        found.append(0.0 if stands is None else stands.breaks_even)
        state = {} if stands is None else {KEPT: {**stands.state, "held": 0}}
    return found


def stopped_at(needed: list[float], worth: float, trials: int) -> int:
    """Return after how many trials a campaign ends whose decisions would need a unit to be worth so much."""
    held = 0
    for trial, least in enumerate(needed):
        held = held + 1 if worth <= least else 0
        if held == STEADY:
            return trial
    return trials


def endings(seed: int, times: float) -> list[Ended]:
    draw = drawn(seed)
    budget = times * draw.budget
    truth, spec = draw.bench.truth, predefined()["default"]
    assert isinstance(truth, ProblemTruth)
    problem = draw.bench.problem(budget, model_overrides(spec))
    played = simulate(draw.bench, build_policy(spec, None), problem, seed)
    most = max(b.value for b in truth.best)
    span, count = most - truth.floor, len(played.decisions)
    needed, known = break_evens(played), initial(played)

    def regret(trials: int) -> float:
        control_set, setting = recommended_after(played, trials - 1)
        return float((most - truth.value(control_set, np.array([setting]))[0]) / span)

    at_end, found = regret(count), []
    for share in SHARES:
        trials = stopped_at(needed, budget / (share * span), count)
        spent = sum(o.cost for o in played.history.observations[known : known + trials])
        ends = at_end if trials == count else regret(trials)
        found.append(Ended(share, trials, 1 - spent / problem.budget, ends, at_end))
    print(f"{seed} {draw.family} {draw.costs} {count} trials", *found, sep="\n  ", flush=True)
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="100:112", help="FIRST:LAST, or a list such as 100,103")
    parser.add_argument("--times", default=1.0, type=float, help="multiple of the drawn budget")
    given = parser.parse_args(arguments)
    first, between, last = given.seeds.partition(":")
    seeds = range(int(first), int(last)) if between else [int(seed) for seed in first.split(",")]
    with one_thread():
        every = [endings(seed, given.times) for seed in seeds]
    print("share of the range worth the budget; share of the money returned; mean regret when stopped, at the end")
    for column, share in enumerate(SHARES):
        ended = [row[column] for row in every]
        returned, regret, at_end = (
            float(np.mean([getattr(e, name) for e in ended])) for name in ("returned", "regret", "regret_at_end")
        )
        print(f"{share:.3f} {returned:.2f} {regret:.4f} {at_end:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
