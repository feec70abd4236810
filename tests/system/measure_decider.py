"""What it takes to have a decision made in another process: wall seconds, beside the same decisions made here.

    python tests/system/measure_decider.py --repeats 9

The problem, trials and policies of `rigctl tools bench latency`, integrated bounds, trial after trial; prints one JSON
line per policy and number of trials known: medians here and there, and the first decision after a new process has taken
the place of one that was ended (it is told all trials anew).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from statistics import median
from typing import Any

from rigctl.campaign.deciding import keep_to_one_thread

keep_to_one_thread()  # before anything loads numpy, as in `rigctl.console.cli.main`

# ruff: noqa: E402

from rigctl.bench.latency import fitted_state, history, plant_problem, policy_to_measure
from rigctl.campaign.decide import Question, decide
from rigctl.campaign.decider import ProcessDecider
from rigctl.core.experiment.history import History

LIMIT_S = 600.0


def questions(name: str, n: int, count: int) -> list[Question]:
    """One after the other, up to n trials known; hyper-parameters as of the last fit."""
    policy, problem = policy_to_measure(name), plant_problem("integrated")
    state = fitted_state(policy, problem, n - count + 1)
    observations = history(n, 0).observations
    asked = [Question(policy, problem, 0, History.of(observations[: n - count + 1]), state)]
    for observation in observations[n - count + 1 :]:
        asked.append(Question(policy, problem, 0, asked[-1].history.append(observation), state))
    return asked


async def measure(name: str, n: int, repeats: int) -> dict[str, Any]:
    """One policy at one size; the first decision of each kind pays for imports and is not counted."""
    here, there, decider = [], [], ProcessDecider()
    asked = questions(name, n, repeats + 1)
    await decider.start(asked[0].policy, asked[0].problem)
    for question in asked:
        began = time.perf_counter()
        decision = decide(question)
        here.append(time.perf_counter() - began)
        began = time.perf_counter()
        assert await decider.decide(question, LIMIT_S) == decision
        there.append(time.perf_counter() - began)
    await decider.close()
    await decider.start(asked[0].policy, asked[0].problem)
    began = time.perf_counter()
    await decider.decide(asked[-1], LIMIT_S)
    anew = time.perf_counter() - began
    await decider.close()
    medians = {"here_s": round(median(here[1:]), 4), "there_s": round(median(there[1:]), 4)}
    return {"policy": name, "n": n, **medians, "in_a_new_process_s": round(anew, 2)}


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--policies", nargs="+", default=["explore-then-commit", "likely-maximisers"])
    parser.add_argument("--known", type=int, nargs="+", default=[100, 300, 1000])
    given = parser.parse_args()
    for name in given.policies:
        for n in given.known:
            print(json.dumps(asyncio.run(measure(name, n, given.repeats))), flush=True)


if __name__ == "__main__":
    main()
