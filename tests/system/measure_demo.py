"""What `rigctl demo` achieves over several seeds: share of the best there is, trials, seconds, and the ledger.

    python tests/system/measure_demo.py greenhouse lathe --seeds 5
    python tests/system/measure_demo.py greenhouse lathe --seeds 5 --busy 4      # beside four busy loops

Prints one JSON line per campaign and one summary line per scenario. The true value is the simulator's own. Campaigns
with equal `played`, a digest of all that was decided, paid and measured, are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.system.stack import rows
from tests.system.test_demo import PLAYED


def campaign(scenario: str, seed: int) -> dict[str, Any]:
    """One campaign, from the command line."""
    command = [sys.executable, "-m", "rigctl", "demo", "--scenario", scenario, "--seed", str(seed), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*command, "--keep", folder], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        played = [tuple(row) for question in PLAYED for row in rows(Path(folder) / "state", question)]
    answer = json.loads(done.stdout)
    return {
        "scenario": scenario,
        "seed": seed,
        "control": "+".join(answer["recommendation"]["control_set"]),
        "share_of_best": round(answer["simulators_truth"]["share_of_best"], 4),
        "trials": answer["trials"],
        "campaign_s": round(answer["campaign_s"], 1),
        "ledger_is_spend": answer["ledger_sum"] == answer["spent"],
        "played": hashlib.sha256(repr(played).encode()).hexdigest()[:16],
        "worst_tick_delay_s": round(answer["worst_tick_delay_s"], 3),
    }


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="+", choices=["greenhouse", "lathe"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside the campaigns")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        for _ in range(arguments.busy):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        for scenario in arguments.scenarios:
            summarise(scenario, arguments.seeds)


def summarise(scenario: str, seeds: int) -> None:
    """Play one scenario's campaigns and print what came of them."""
    done = []
    for seed in range(1, seeds + 1):
        done.append(campaign(scenario, seed))
        print(json.dumps(done[-1]), flush=True)
    good = sum(r["share_of_best"] >= 0.9 for r in done)
    print(
        f"{scenario}: {good} of {len(done)} within 10 % of the best; ledger adds up in "
        f"{sum(r['ledger_is_spend'] for r in done)}; {min(r['trials'] for r in done)} trials or more; "
        f"{max(r['campaign_s'] for r in done)} s or less"
    )


if __name__ == "__main__":
    main()
