"""Lives of the real daemon against the real simulator, each ended by SIGKILL at some moment."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.journal import Journal
from rigctl.campaign.production import for_production
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import rig_factory
from rigctl.core.operating.policy import Operating
from rigctl.page.campaign import campaign_spec
from rigctl.rig.clocks import RealClock, boot_id
from tests.campaign.fakes import ThreadDecider
from tests.campaign.reaper import Reaper

MAX_INSTANT = 45
"""Instants of a couple of trials: transactions begun and committed."""
MEAN_LIFE_S = 0.4
COMMAND_START_S = 0.8
LONGEST_LIFE_S = 120.0


@dataclass(frozen=True)
class Ending:
    """How a life ends."""

    how: str
    """`instant`: at the n-th begin or commit; `moment`: at a random time; `command`: likewise, of `rigctl run`."""
    at: float
    """Which instant, or after how many wall seconds."""


def next_ending(chance: random.Random) -> Ending:
    """Half of the lives end at an instant, most others at a moment, some are those of the command line's process."""
    kind = chance.random()
    if kind < 0.5:
        return Ending("instant", chance.randint(1, MAX_INSTANT))
    if kind < 0.92:
        return Ending("moment", chance.expovariate(1 / MEAN_LIFE_S))
    return Ending("command", COMMAND_START_S + chance.expovariate(1 / MEAN_LIFE_S))


def next_of_production(chance: random.Random) -> Ending:
    """Half end at an instant, the others at a moment; the command line's process would run a campaign."""
    if chance.random() < 0.5:
        return Ending("instant", chance.randint(1, MAX_INSTANT))
    return Ending("moment", chance.expovariate(1 / MEAN_LIFE_S))


@dataclass
class Lives:
    """One campaign, as many processes."""

    loaded: LoadedConfig
    state: Path
    command: list[str]
    """`rigctl run ...` for the same campaign."""
    log: Path
    production: Operating | None = None
    """Who decides batches; None: it is a campaign."""
    batches: int = 6
    """After which production ends."""

    def live(self, ending: Ending) -> bool:
        """One life; True if it was killed, False if the campaign ended before.

        Raises:
            AssertionError: the process ended in any other way; carries the end of its log.
        """
        if ending.how == "command":
            status = self._command(ending.at)
        else:
            pid = self._fork(int(ending.at) if ending.how == "instant" else None)
            status = _killed_after(pid, ending.at if ending.how == "moment" else LONGEST_LIFE_S)
        assert status in (0, -signal.SIGKILL), f"{ending}: exit {status}: {self.log.read_text()[-3000:]}"
        return status != 0

    def _command(self, seconds: float) -> int:
        with self.log.open("a") as log, subprocess.Popen(self.command, stdout=log, stderr=log) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.returncode

    def _fork(self, kill_at: int | None) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            asyncio.run(self._campaign(Reaper(kill_at)))
            status = 0
        except BaseException:  # noqa: BLE001 - the child must not return into its parent's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    async def _campaign(self, reaper: Reaper) -> None:
        clock = RealClock(self.loaded.rig.speedup)
        spec = campaign_spec(self.loaded)
        await run_campaign(
            spec if self.production is None else for_production(spec, self.production, self.batches),
            self.state,
            rig_factory(self.loaded, clock),
            clock,
            lambda _: None,
            open_journal=lambda directory, clock: reaper.watch(Journal(directory, clock, boot_id())),
            decider=ThreadDecider(),  # so that a life is spent on trials, not on another process's imports
        )


def _killed_after(pid: int, seconds: float) -> int:
    """Exit code of a child that is killed unless it ends within that time."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(0.005, max(0.0, end_s - time.monotonic())))
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
