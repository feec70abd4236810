"""How late the watch comes while a policy keeps the interpreter lock, with many trials known.

    python tests/system/measure_tick.py --known 1000 --holds 10 --trials 5
    python tests/system/measure_tick.py --in-thread

A campaign on the simulated greenhouse whose policy keeps the lock for so many seconds and then decides as the example's
does. Beside the campaign a probe sleeps 50 ms at a time in the same event loop; prints one JSON line: by how much it
woke late (median, 99th percentile, maximum), the watch's own worst delay, and how long the decisions took.
`--in-thread` has the policy decide in a thread of the controller instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rigctl.campaign.deciding import keep_to_one_thread

keep_to_one_thread()  # before anything loads numpy, as in `rigctl.console.cli.main`

# ruff: noqa: E402

import numpy as np

from rigctl.campaign.clock import RealClock, boot_id
from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.decider import Decider, ProcessDecider
from rigctl.campaign.events import TrialProposed
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.spec import CampaignSpec
from rigctl.config.load import Overrides, load
from rigctl.console.assemble import rig_factory
from rigctl.page.campaign import campaign_spec
from tests.campaign.bad_policies import Holding
from tests.campaign.fakes import ThreadDecider, unsynced
from tests.campaign.records import make_decision
from tests.simulated import start_sim

CONFIG = Path(__file__).parents[2] / "config" / "greenhouse.yaml"
PROBE_S = 0.05


def know(spec: CampaignSpec, state: Path, clock: RealClock, count: int) -> None:
    """Write so many trials into a new journal, as if they had been done by hand."""
    space, nature = spec.problem.space, np.random.default_rng(1)
    x = space.to_engineering(nature.random((count, space.dimension)))
    manual = []
    for trial, row in enumerate(x, start=1):
        names = space.control_sets[trial % len(space.control_sets)].names
        decision = make_decision(trial, names, origin="manual", proposal=None, policy_state=None)
        values = dict(zip(space.names, map(float, row), strict=True))
        manual.append(ManualTrial(decision, values, float(10 + nature.standard_normal()), 100_000))
    state.mkdir()
    journal = unsynced(Journal(state, clock, boot_id()))
    journal.begin(spec, "measured")
    journal.ingest_all(manual, spec.rig.outcome_names)
    journal.beat(ended="measured", safe=True)
    journal.close()


async def probe(late: list[float]) -> None:
    """By how much each sleep was too long."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + PROBE_S
        await asyncio.sleep(PROBE_S)
        late.append(loop.time() - due)


async def measure(known: int, trials: int, holds: float, decider: Decider, folder: Path) -> dict[str, Any]:
    """Run one such campaign."""
    sim = start_sim("greenhouse", folder)
    try:
        loaded = load(CONFIG, Overrides(buses=sim.buses))
        policy = Holding(inner=loaded.policy, seconds=int(holds))
        problem = replace(loaded.problem, budget=10**15)
        spec = replace(campaign_spec(loaded), policy=policy, problem=problem, max_trials=known + trials)
        clock, late, took = RealClock(loaded.rig.speedup), [], []
        know(spec, folder / "state", clock, known)
        probing = asyncio.create_task(probe(late))
        result = await run_campaign(
            spec,
            folder / "state",
            rig_factory(loaded, clock),
            clock,
            lambda event: took.append(event.decision_s) if isinstance(event, TrialProposed) else None,
            decider=decider,
        )
        probing.cancel()
    finally:
        sim.stop()
    return {
        "known": known,
        "trials": result.trials - known,
        "holds_s": holds,
        **{f"late_{name}_s": round(float(np.quantile(late, q)), 4) for name, q in quantiles()},
        "worst_tick_delay_s": round(result.worst_tick_delay_s, 4),
        "decisions_s": [round(s, 3) for s in took],
    }


def quantiles() -> Sequence[tuple[str, float]]:
    """What is told of the delays."""
    return (("median", 0.5), ("p99", 0.99), ("max", 1.0))


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--known", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--holds", type=float, default=10.0)
    parser.add_argument("--in-thread", action="store_true")
    given = parser.parse_args()
    decider = ThreadDecider() if given.in_thread else ProcessDecider()
    with tempfile.TemporaryDirectory(prefix="rigctl-tick-") as folder:
        figures = asyncio.run(measure(given.known, given.trials, given.holds, decider, Path(folder)))
    print(json.dumps({"decides": "thread" if given.in_thread else "process", **figures}))


if __name__ == "__main__":
    main()
