"""What `rigctl demo` achieves over several seeds: share of the best there is, trials, seconds, and the ledger.

    python tests/system/measure_demo.py greenhouse lathe --seeds 5

Prints one JSON line per campaign and one summary line per scenario. The true value is the simulator's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any


def campaign(scenario: str, seed: int) -> dict[str, Any]:
    """One campaign, from the command line."""
    command = [sys.executable, "-m", "rigctl", "demo", "--scenario", scenario, "--seed", str(seed), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    answer = json.loads(done.stdout)
    return {
        "scenario": scenario,
        "seed": seed,
        "control": "+".join(answer["recommendation"]["control_set"]),
        "share_of_best": round(answer["simulators_truth"]["share_of_best"], 4),
        "trials": answer["trials"],
        "campaign_s": round(answer["campaign_s"], 1),
        "ledger_is_spend": answer["ledger_sum"] == answer["spent"],
        "worst_tick_delay_s": round(answer["worst_tick_delay_s"], 3),
    }


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="+", choices=["greenhouse", "lathe"])
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    for scenario in arguments.scenarios:
        rows = []
        for seed in range(1, arguments.seeds + 1):
            rows.append(campaign(scenario, seed))
            print(json.dumps(rows[-1]), flush=True)
        good = sum(r["share_of_best"] >= 0.9 for r in rows)
        print(
            f"{scenario}: {good} of {len(rows)} within 10 % of the best; ledger adds up in "
            f"{sum(r['ledger_is_spend'] for r in rows)}; {min(r['trials'] for r in rows)} trials or more; "
            f"{max(r['campaign_s'] for r in rows)} s or less"
        )


if __name__ == "__main__":
    main()
