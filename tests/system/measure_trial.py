"""What one trial costs the controller, by how many trials are known: it must not grow with the campaign.

    python -m tests.system.measure_trial 20 3000 6000 20000

A short campaign on the fake rig is made long by copying, then goes on for some trials in this process. Prints one JSON
line per length: CPU per trial of the whole loop and, of that, of its journal, ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.campaign.clock import boot_id
from rigctl.campaign.events import TrialEnded
from rigctl.campaign.journal import Journal, JournalThread
from rigctl.core.experiment.policy import Proposal
from tests.campaign.fakes import Stage, make_spec, unsynced
from tests.page.big_journal import lengthen

SHORT, MORE, WARM = 20, 30, 5


@dataclass(frozen=True)
class InTurn:
    """Takes the control sets in turn, whatever came of them."""

    name: str = "in-turn"

    def initial_state(self, problem: Any) -> dict[str, int]:
        return {}

    def propose(self, state: Any, problem: Any, history: Any, rng: Any) -> Any:
        chosen = len(history) % len(problem.space.control_sets)
        setting = tuple(map(float, rng.random(len(problem.space.control_sets[chosen].indices))))
        return Proposal(len(history) + 1, self.name, "explore", chosen, setting, "its turn"), {}


def measure(folder: Path, trials: int) -> dict[str, Any]:
    """Make a campaign of so many trials, go on with it, and return what that took."""
    stage, spec = Stage(folder), lambda most: make_spec(10**6, max_trials=most, policy=InTurn())
    asyncio.run(stage.run(spec(SHORT)))
    if trials > SHORT:
        lengthen(stage.state, trials)
        spec = lambda most: make_spec(10**11, max_trials=most, policy=InTurn())  # noqa: E731
    return {"trials": trials, **goes_on(stage, spec(trials + MORE))}


class Marks(list[Any]):
    """Takes the CPU time, the journal's and the whole process's, at each end of a trial; keeps no event."""

    def __init__(self) -> None:
        self.in_journal_s = 0.0
        self.at: list[tuple[float, float]] = []

    def append(self, event: Any) -> None:
        if isinstance(event, TrialEnded):
            self.at.append((time.process_time(), self.in_journal_s))


def goes_on(stage: Stage, spec: Any) -> dict[str, Any]:
    """Go on with the campaign on the stage; return CPU milliseconds per trial."""
    marks, submit = Marks(), JournalThread.submit

    def timed(self: Any, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def measured(journal: Journal, *a: Any, **k: Any) -> Any:
            before = time.thread_time()
            try:
                return work(journal, *a, **k)
            finally:
                marks.in_journal_s += time.thread_time() - before

        return submit(self, measured, *args, **kwargs)

    stage.told = marks
    JournalThread.submit = timed  # type: ignore[method-assign, assignment]
    try:
        asyncio.run(stage.run(spec, journal=lambda d, c: unsynced(Journal(d, c, boot_id()))))
    finally:
        JournalThread.submit = submit  # type: ignore[method-assign]
    (cpu, journal), (cpu_end, journal_end), count = marks.at[WARM], marks.at[-1], len(marks.at) - 1 - WARM
    return {
        "cpu_ms": round(1000 * (cpu_end - cpu) / count, 2),
        "journal_ms": round(1000 * (journal_end - journal) / count, 2),
    }


def main() -> None:
    """Measure as the arguments say."""
    for trials in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory(prefix="rigctl-trial-") as folder:
            print(json.dumps(measure(Path(folder), trials)), flush=True)


if __name__ == "__main__":
    main()
