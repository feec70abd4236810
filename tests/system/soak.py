"""A long campaign through real processes and ports: memory, descriptors, threads and delays over its length.

    python -m tests.system.soak --trials 20000 --folder FOLDER [--picture docs/pictures/soak.svg]

The simulated lathe and `rigctl run` with a policy that costs nothing, at a speed-up at which a trial's 690 rig seconds
take 29 ms: the rest of its time goes into exchanges, the decision and the journal's syncs. Every `--every` seconds one
line goes to FOLDER/samples.jsonl; the last on standard output says what holds: resident memory of the controller in
the last quarter within 5 % of that in the second, no more descriptors and threads than after the first tenth, looks of
the watch at most 50 ms late (99th percentile) and 500 ms (worst).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from rigctl.campaign import control
from rigctl.campaign.journal.integrity import log_of
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.errors import RigctlError
from tests.bench.players import install_policy
from tests.simulated import SimHandle, start_sim

CONFIG = Path(__file__).parents[2] / "config" / "lathe.yaml"
SPEED = 24_000.0
CHANGES = (
    ("clock: {speedup: 2400}", f"clock: {{speedup: {SPEED:g}}}"),
    ("policy: {name: likely-maximisers, tolerance: 0.05}", "policy: {name: in-turn}"),
    ("budget: 100 EUR", "budget: 1000000 EUR"),
)
IN_TURN = """
    sets = problem.space.control_sets
    chosen = len(history) % len(sets)
    setting = tuple(float(u) for u in rng.random(len(sets[chosen].indices)))
    return Proposal(trial, self.name, "explore", chosen, setting, "its turn"), {}
"""
MEMORY, P99_S, WORST_S = 0.05, 0.050, 0.500
SPARE = 2
"""Descriptors and threads that come and go: a look at the disk, an answer on the control socket."""


def started(folder: Path, sim: SimHandle, trials: int) -> subprocess.Popen[bytes]:
    """The real `rigctl run`, with what it says in files."""
    text = CONFIG.read_text(encoding="utf-8")
    for old, new in CHANGES:
        assert old in text, old
        text = text.replace(old, new)
    (folder / "lathe.yaml").write_text(text, encoding="utf-8")
    install_policy(folder, "in-turn", IN_TURN)
    command = [sys.executable, "-m", "rigctl", "run", str(folder / "lathe.yaml"), "--state", str(folder / "state")]
    command += ["--json", "--max-trials", str(trials), *sim.options]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with (folder / "out.json").open("wb") as out, (folder / "err.log").open("wb") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, "PYTHONPATH": path})


def of_process(pid: int) -> dict[str, float]:
    """What a process holds now; nothing once it has ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            rss_mb = process.memory_info().rss / 2**20
            return {"rss_mb": rss_mb, "descriptors": process.num_fds(), "threads": process.num_threads()}
    except psutil.Error:
        return {}


def samples(daemon: subprocess.Popen[bytes], sim: SimHandle, folder: Path, every_s: float) -> Iterator[dict[str, Any]]:
    """One sample after the other, until the campaign has ended."""
    began_s, journal = time.monotonic(), folder / "state" / FILE_NAME
    while True:
        with suppress(subprocess.TimeoutExpired):
            daemon.wait(every_s)
        if daemon.poll() is not None:
            return
        try:
            told = control.ask(folder / "state", "status")
            children = psutil.Process(daemon.pid).children()
        except (RigctlError, psutil.Error):
            continue  # it is just beginning, or ending
        sizes = [p.stat().st_size / 2**20 for p in (journal, log_of(journal)) if p.exists()]
        yield {
            "s": round(time.monotonic() - began_s, 1),
            "trials": told["trials"],
            "daemon": of_process(daemon.pid),
            "decider": of_process(children[0].pid) if children else {},
            "simulator": of_process(sim.process.pid),
            "journal_mb": round(sum(sizes), 2),
            "watch": told["watch"],
            "load": os.getloadavg()[0],
        }


def judged(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What holds, and the figures it is judged by."""
    last = found[-1]["trials"]
    quarters = [[s for s in found if part * last / 4 < s["trials"] <= (part + 1) * last / 4] for part in range(4)]
    figures: dict[str, Any] = {"trials": last, "hours": round(found[-1]["s"] / 3600, 2), "samples": len(found)}
    holds = {}
    for name in ("daemon", "decider", "simulator"):
        means = [statistics.fmean(s[name]["rss_mb"] for s in part if s[name]) for part in quarters]
        early = next(s for s in found if s["trials"] >= last / 10)[name]
        growth = means[3] / means[1] - 1
        figures[name] = {
            "quarters_mb": [round(mean, 1) for mean in means],
            "growth": round(growth, 4),
            **{
                kind: [early[kind], max(s[name].get(kind, 0) for s in found[-10:])]
                for kind in ("descriptors", "threads")
            },
        }
        holds[f"{name} leaks nothing"] = all(
            b <= a + SPARE for a, b in (figures[name][k] for k in ("descriptors", "threads"))
        )
    holds["memory of the controller"] = abs(figures["daemon"]["growth"]) <= MEMORY
    watch = found[-1]["watch"]
    holds["looks, 99th percentile"] = watch["late_p99_s"] <= P99_S
    holds["looks, worst"] = watch["late_max_s"] <= WORST_S
    rates = [(b["trials"] - a["trials"]) / (b["s"] - a["s"]) for a, b in pairwise(found)]
    figures["trials_per_s"] = [
        round(statistics.fmean(part), 2) for part in (rates[: len(rates) // 4 + 1], rates[-len(rates) // 4 :])
    ]
    return {**figures, "watch": watch, "journal_mb": found[-1]["journal_mb"], "holds": holds, "ok": all(holds.values())}


def drawn(found: Sequence[Mapping[str, Any]], picture: Path) -> None:
    """Memory, descriptors and the watch's delays over trials, as a picture."""
    import matplotlib as mpl

    mpl.use("svg" if picture.suffix == ".svg" else "agg")
    from matplotlib import pyplot as plt

    trials = [s["trials"] for s in found]
    figure, (memory, held, late) = plt.subplots(3, 1, sharex=True, figsize=(7.5, 7.0), layout="constrained")
    for name, words in (("daemon", "controller"), ("decider", "decider"), ("simulator", "simulator")):
        memory.plot(trials, [s[name].get("rss_mb") for s in found], label=words)
        held.plot(trials, [s[name].get("descriptors") for s in found], label=words)
    memory.set(ylabel="resident memory, MB", ylim=(0, None))
    held.set(ylabel="descriptors", ylim=(0, None))
    for quantile, words in (("late_p50_s", "median"), ("late_p99_s", "99th percentile"), ("late_max_s", "worst")):
        late.plot(trials, [1000 * s["watch"][quantile] for s in found], label=words)
    late.set(ylabel="watch late, ms (so far)", xlabel="trials", yscale="log")
    for axes in (memory, held, late):
        axes.legend(loc="best", fontsize="small")
        axes.grid(visible=True, alpha=0.3)
    figure.savefig(picture, metadata={"Date": None} if picture.suffix == ".svg" else None)


def soak(folder: Path, trials: int, every_s: float) -> list[dict[str, Any]]:
    """Run one campaign of so many trials; return its samples.

    Raises:
        SystemExit: it did not end well; says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sim = start_sim("lathe", folder, speed=SPEED)
    found = []
    try:
        daemon = started(folder, sim, trials)
        with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:
            for sample in samples(daemon, sim, folder, every_s):
                found.append(sample)
                file.write(json.dumps(sample) + "\n")
                file.flush()
    finally:
        sim.stop()
    if daemon.returncode:
        raise SystemExit((folder / "err.log").read_text(encoding="utf-8")[-3000:])
    return found


def main() -> None:
    """Soak, or draw again what was sampled, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, required=True, help="for the state, the samples and what is said")
    parser.add_argument("--every", type=float, default=30.0, help="wall seconds between samples")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--again", action="store_true", help="judge and draw the samples that are there")
    given = parser.parse_args()
    kept = given.folder / "samples.jsonl"
    if given.again:
        found = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    else:
        found = soak(given.folder, given.trials, given.every)
    if given.picture is not None:
        drawn(found, given.picture)
    verdict = judged(found)
    print(json.dumps(verdict))
    raise SystemExit(0 if verdict["ok"] else 1)


if __name__ == "__main__":
    main()
