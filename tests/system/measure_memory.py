"""Peak memory of the daemon, and of the process that decides, over a long campaign against the simulated rig.

    python tests/system/measure_memory.py --trials 1000

Runs the real `rigctl run` with a budget nobody can spend, and prints one JSON line: trials, peak resident memory of
each process (VmHWM, the kernel's own high-water mark), the most they held together (proportional set size, where a page
that both have counts once), wall seconds and the worst delay of the watch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from tests.simulated import start_sim

CONFIG = Path(__file__).parents[2] / "config" / "greenhouse.yaml"
POLL_S = 0.5


def high_water_mb(pid: int) -> float:
    """VmHWM of a live process, MB; 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return 0.0
    marks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(marks[0]) / 1024 if marks else 0.0


def together_mb(process: psutil.Process) -> float:
    """Proportional set size of a process and all it has started, MB; 0 once it has ended."""
    try:
        return sum(p.memory_full_info().pss for p in (process, *process.children())) / 2**20
    except psutil.Error:
        return 0.0


def measure(trials: int, speed: float, folder: Path) -> dict[str, Any]:
    """Run one campaign of so many trials and watch its daemon."""
    sim = start_sim("greenhouse", folder, speed=speed)
    config = folder / "greenhouse.yaml"
    text = CONFIG.read_text(encoding="utf-8")
    config.write_text(text.replace("speedup: 2400", f"speedup: {speed:g}"), encoding="utf-8")
    command = [sys.executable, "-m", "rigctl", "run", str(config), "--state", str(folder / "state"), "--json"]
    command += ["--budget", "1000000 EUR", "--max-trials", str(trials), *sim.options]
    started_s, daemon_mb, decider_mb, both_mb = time.monotonic(), 0.0, 0.0, 0.0
    output = folder / "out.json"
    with output.open("w", encoding="utf-8") as out, (folder / "err.log").open("w", encoding="utf-8") as err:
        daemon = subprocess.Popen(command, stdout=out, stderr=err)
        while daemon.poll() is None:
            process = psutil.Process(daemon.pid)
            daemon_mb = max(daemon_mb, high_water_mb(daemon.pid))
            decider_mb = max(decider_mb, *(high_water_mb(child.pid) for child in process.children()), 0.0)
            both_mb = max(both_mb, together_mb(process))
            time.sleep(POLL_S)
    sim.stop()
    if daemon.returncode:
        raise SystemExit((folder / "err.log").read_text(encoding="utf-8"))
    result = json.loads(output.read_text(encoding="utf-8"))
    return {
        "trials": result.get("trials"),
        "daemon_peak_mb": round(daemon_mb, 1),
        "decider_peak_mb": round(decider_mb, 1),
        "together_peak_mb": round(both_mb, 1),
        "wall_s": round(time.monotonic() - started_s, 1),
        "worst_tick_delay_s": result.get("worst_tick_delay_s"),
    }


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--speed", type=float, default=6000.0, help="rig seconds per wall second")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rigctl-memory-") as folder:
        print(json.dumps(measure(arguments.trials, arguments.speed, Path(folder))))


if __name__ == "__main__":
    main()
