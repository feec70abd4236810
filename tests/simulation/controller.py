"""One life of the controller: what `rigctl run` does, from making safe what was left driven to its last words."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rigctl.campaign import awaiting, daemon, lock, production, watchman
from rigctl.campaign.control import Request, Verbs
from rigctl.campaign.events import CampaignEvent
from rigctl.campaign.journal import Journal, past, writer
from rigctl.campaign.journal import database as journal_database
from rigctl.campaign.spec import CampaignSpec
from rigctl.config.load import LoadedConfig
from rigctl.console import assemble
from rigctl.console.assemble import rig_factory
from rigctl.console.run import Wish
from rigctl.console.safe import safe_first
from rigctl.errors import RigctlError
from rigctl.page.campaign import campaign_spec
from rigctl.rig import clocks
from rigctl.rig.clocks import Clock, RealClock
from rigctl.rig.values import Alarm
from rigctl.signals import Signals
from rigctl_drivers import byte_line, modbus_line
from tests.simulation.disk import Disk, SimulatedCrash
from tests.simulation.kernel import Kernel, Life
from tests.simulation.plant import Plant
from tests.simulation.policies import HereDecider, Wander
from tests.simulation.production import producing

Point = Callable[[str], None]
"""Told of every instant at which an end would make a difference; does not return if it is the end."""


def specified(loaded: LoadedConfig, *, cheap: bool, choosy: bool = False) -> CampaignSpec:
    """Return the campaign, with a policy that costs nothing if asked."""
    spec = campaign_spec(loaded)
    return replace(spec, policy=Wander(choosy), policy_name="wander", policy_options={}) if cheap else spec


class SimulatedSignals(Signals):
    """Signals as the kernel of the system would deliver them, without a handler of the real process."""

    @contextmanager
    def caught(self) -> Iterator[None]:
        yield

    def send(self, name: str) -> None:
        self.heard.append(name)
        if self._wake is not None:
            self._wake()


@dataclass(eq=False)
class Running:
    """One life, while it lasts and after."""

    life: Life
    directory: Path
    signals: SimulatedSignals = field(default_factory=SimulatedSignals)
    verbs: Verbs = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop | None = None
    """While it can be asked for something."""
    asked: list[asyncio.Future[None]] = field(default_factory=list)
    ending: str = ""
    """How it ended by itself; empty while it has not."""
    alarms: list[tuple[float, Alarm]] = field(default_factory=list)
    """What it has told of, and when, true time."""
    safe_first_s: float | None = None
    """True time at which what was left driven had been made safe."""
    wish: Wish | None = None
    """What whoever started it has asked of production; None: it runs the campaign."""


class Controller:
    """Starts lives on one state directory."""

    def __init__(
        self,
        kernel: Kernel,
        plant: Plant,
        loaded: LoadedConfig,
        spec: CampaignSpec,
        state: Path,
        disk: Disk,
        point: Point,
    ) -> None:
        self.kernel = kernel
        self.plant = plant
        self.loaded = loaded
        self.spec = spec
        self.state = state
        self.disk = disk
        self.disk.on_operation = self._operation
        self.point = point
        self.commit_s: Callable[[], float] = lambda: 0.0
        """Draws how long the disk takes for the next commit."""
        self.lives = 0
        self.silent: Callable[[], bool] = lambda: False
        """Draws whether a decision does not come."""
        self.heard: Callable[[Running, CampaignEvent], None] = lambda _running, _event: None
        self.running: Running | None = None
        self._pids: dict[int, Life] = {}
        self._descriptors: set[int] = set()

    def start(self, wish: Wish | None = None) -> Running:
        self.lives += 1
        life = Life(f"#{self.lives}", pid=1000 + self.lives)
        self._pids[life.pid] = life
        self.running = running = Running(life, self.state, wish=wish)
        self._descriptors = _descriptors()
        asyncio._set_running_loop(None)
        self.kernel.trace(f"{self.kernel.now_s:.6f} {life.name} starts{f', {wish}' if wish else ''}")
        self.kernel.spawn(life, "main", lambda: self._main(running))
        return running

    def alone(self, name: str, work: Callable[[], object]) -> Life:
        """Begin a short process beside the controller's: another command."""
        life = Life(name, pid=5000 + len(self._pids))
        self._pids[life.pid] = life
        self._descriptors = _descriptors()

        def run() -> None:
            try:
                self.kernel.trace(f"{self.kernel.now_s:.6f} {name}: {work()}")
            except RigctlError as error:
                self.kernel.trace(f"{self.kernel.now_s:.6f} {name}: {error}")
            life.dead = True

        self.kernel.spawn(life, name, run)
        return life

    def abandoned(self) -> None:
        self.disk.kill()
        for number in _descriptors() - self._descriptors:
            with suppress(OSError):
                os.close(number)
        asyncio._set_running_loop(None)
        self.disk.revive()

    def _operation(self, operation: str, name: str) -> None:
        life = self.kernel.life
        if life is None:
            return
        self.point(f"{operation} of {name}")
        if life.dead:
            raise SimulatedCrash

    def _main(self, running: Running) -> None:
        kernel, life = self.kernel, running.life
        try:
            safe_first(self.loaded.path, self.state)
            running.safe_first_s = kernel.now_s
            clock_ = RealClock(self.loaded.rig.speedup)
            wish, spec = running.wish, self.spec
            spec = spec if wish is None else producing(spec, self.loaded, self.state, wish)
            result = asyncio.run(
                daemon.run_campaign(
                    spec,
                    self.state,
                    rig_factory(self.loaded, clock_),
                    clock_,
                    lambda event: self._heard(running, event),
                    open_journal=self._journal,
                    signals=running.signals,
                    decider=HereDecider(self._is_silent),
                )
            )
        except RigctlError as error:
            running.ending = f"{type(error).__name__}: {error}"
        except Exception as error:
            if not life.dead:
                running.ending = f"crashed: {type(error).__name__}: {error}"
                raise
        else:
            running.ending = f"{result.ending}: {result.reason}"
        life.dead = True
        kernel.trace(f"{kernel.now_s:.6f} {life.name} has ended: {running.ending}")

    def _is_silent(self) -> bool:
        return self.silent()  # which trouble may begin and end in the middle of a life

    def _heard(self, running: Running, event: CampaignEvent) -> None:
        self.heard(running, event)
        if isinstance(event, Alarm):
            running.alarms.append((self.kernel.now_s, event))
            told = f"{event.severity.name} {event.source}: {event.message}"
            self.kernel.trace(f"{self.kernel.now_s:.6f} {running.life.name} alarm {told}")
        elif type(event).__name__ not in ("RigSeen",):
            self.kernel.trace(f"{self.kernel.now_s:.6f} {running.life.name} {_short(event)}")

    def _journal(self, directory: Path, clock_: Clock) -> Journal:
        kernel = self.kernel
        return Journal(
            directory, clock_, clocks.epoch(clock_), wall=lambda: datetime.fromtimestamp(kernel.computer.civil(), UTC)
        )

    # what of the operating system is simulated ----------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put this rig's lines, this computer's boots and processes in the place of the real ones."""
        kernel, point = self.kernel, self.point

        def slow() -> float:
            return self.commit_s() if kernel.strand is not None else 0.0

        class Connection(journal_database.SealingConnection):
            def execute(self, sql: str, *parameters: Any) -> Any:
                if sql.startswith("COMMIT"):
                    kernel.sleep(slow())
                    point("before commit")
                    done = super().execute(sql, *parameters)
                    point("after commit")
                    return done
                return super().execute(sql, *parameters)

        def started(pid: int) -> str:
            life = self._pids.get(pid)
            return "" if life is None or life.dead else f"{pid}"

        @asynccontextmanager
        async def serving(_directory: Path, verbs: Verbs) -> AsyncIterator[None]:
            running = self.running
            if running is None:
                raise AssertionError("nobody is served")
            running.verbs, running.loop = verbs, asyncio.get_running_loop()
            try:
                yield
            finally:
                running.loop = None

        physical, number = lock.physical, os.getpid()

        def physical_here(url: str) -> frozenset[str]:
            return frozenset(f"{place} of simulation {number}" for place in physical(url))

        replaced: Mapping[tuple[Any, str], Any] = {
            (byte_line, "serial_opener"): self.plant.opener,
            (byte_line, "socket_opener"): self.plant.opener,
            (modbus_line, "serial_opener"): self.plant.opener,
            (modbus_line, "socket_opener"): self.plant.opener,
            (lock, "_started"): started,
            **{(where, "boot_id"): lambda: f"boot {kernel.computer.boot}" for where in (lock, clocks, assemble)},
            (lock, "physical"): physical_here,  # others simulate beside us
            (daemon, "serving"): serving,
            (production, "version"): cache(production.version),  # what is installed does not change
            (writer, "deciding_code"): cache(writer.deciding_code),
            **{(where, "synchronised"): lambda: kernel.computer.synchronised for where in (awaiting, past)},
            (watchman, "Wall"): partial(watchman.Wall, right=lambda: kernel.computer.synchronised),
            (journal_database, "SealingConnection"): Connection,
        }
        with ExitStack() as stack:
            for (where, name), what in replaced.items():
                stack.enter_context(patch.object(where, name, what))
            stack.enter_context(self.disk.installed(self.state))
            yield

    async def ask(self, running: Running, verb: str, why: str = "", **arguments: Any) -> Mapping[str, Any]:
        """Ask for something as the control socket does; in the life's event loop."""
        if verb not in running.verbs:
            return {}
        answer = running.verbs[verb](Request(verb, "operator", why, arguments))
        return answer if isinstance(answer, Mapping) else await answer


def _descriptors() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}


def _short(event: CampaignEvent) -> str:
    text = repr(event)
    return text if len(text) < 200 else f"{text[:197]}..."
