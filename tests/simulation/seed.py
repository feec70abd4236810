"""What happens under one seed: lives of the controller, one after the other, each ended as the seed has it."""

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from rigctl.campaign.events import CampaignEvent, TrialLooked, TrialProposed
from rigctl.console import hands
from tests.simulation.aims import doses, switches_on
from tests.simulation.books import Violation
from tests.simulation.controller import Controller, Running, specified
from tests.simulation.disk import Disk
from tests.simulation.interpreter import virtual
from tests.simulation.invariants import Witness
from tests.simulation.kernel import Kernel, Life, Stuck, Trace
from tests.simulation.mischief import Mischief
from tests.simulation.plant import Plant
from tests.simulation.production import Plan, produces
from tests.simulation.richer import MORE_PUMPS
from tests.simulation.worlds import QUICK, World, besides, drawn, world

LIVES = {**dict.fromkeys(QUICK, 24), "plain": 8, "long": 5}
"""Ends of a controller under one seed."""
LONGEST_S = {**dict.fromkeys(QUICK, 160.0), "plain": 2400.0, "long": 2.5 * 86400.0}
"""A life that the seed does not end is ended after so long, by the pace of its trials."""
GLANCES_S = {**dict.fromkeys(QUICK, 2.0), "plain": 5.0, "long": 120.0}
SAFE_S = {**dict.fromkeys(QUICK, 12.0), "plain": 20.0, "long": 300.0}
"""Nothing may be driven for longer while no trial is under way: two looks of the watch, and what going safe takes."""
REST_S = {**dict.fromkeys(QUICK, 3600.0), "plain": 4 * 3600.0, "long": 4 * 3600.0}
"""Within this, once nothing is wrong any more, a trial is recorded; what caps make it wait comes on top of it,"""
MOST_BARRED_S = 5 * 86400.0
"""but no more than this: one trial may need more than a day's cap, and the next one more than another pump's."""
SEES_S = 5.0
LOOKS_AGAIN_S = 600.0
"""Somebody sees to what a campaign waits for so long after its start, and again ever so often."""
LOOKED = 0.1
"""How many trials that have looked are ended before they move: another process goes on with them."""
PROPOSED = 0.06
"""How many are ended once they are decided, half of them paused before."""
RESUMED = 0.7
TENDED = 0.4
"""In how many of these somebody sees to the instruments as well."""
RESUMES_S = 15.0
"""In how many lives whoever has paused it lets it go on, and by when: a pause outlives those who heard it."""
AIMED = 0.6
"""How many lives in which something waits for a dose go on until there is one."""
BARRED_LONG = frozenset({"caps", "calendar"})
"""What keeps a control set from being played for long, or for good: there no policy waits for that."""
DOSES = "greenhouse"
UNTIL_DOSED = 0.6
"""The rig that doses, and how many more of its lives go on until it has: few trials come so far otherwise."""
REAL = "greenhouse"
"""The rig whose own policy decides in a tenth of its seeds: it explores first, which does not cost much."""
CRASHES = ("commit", "disk", "line", "instant", "dose", "kill")


@dataclass(kw_only=True)
class Shown:
    """Counts what was simulated, under one seed or many."""

    rig_s: float = 0.0
    starts: int = 0
    trials: int = 0
    recorded: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)


@dataclass
class Outcome(Shown):
    """Says what one seed has shown."""

    seed: int
    world: str
    digest: str = ""
    events: int = 0
    violation: str = ""


@dataclass
class Doom:
    """How one life is to end."""

    kind: str
    left: int = 0
    """So many points of its kind still pass."""
    once: str = ""
    """What must have happened before they count: something was switched on, or a dose has left."""


class Simulation:
    """One seed, from beginning to end."""

    def __init__(
        self, seed: int, where: World, directory: Path, trace: Trace, *, cheap: bool = True, batches: bool = False
    ) -> None:
        self.draw = random.Random(f"{seed} plan")
        self.kernel = Kernel(seed, trace)
        self.outcome = Outcome(seed, f"{where.scenario} {where.pace}{'' if cheap else ', its own policy'}")
        self.world = where
        self.plant = Plant(
            self.kernel, where.scenario, seed % 2**32, self._at_line, more_pumps=bool(where.extras & MORE_PUMPS)
        )
        choosy = seed % 2 == 0 and not where.extras & BARRED_LONG
        spec = specified(where.loaded, cheap=cheap, choosy=choosy)
        self.disk = Disk(random.Random(f"{seed} disk"))
        state = directory / "state"
        self.controller = Controller(self.kernel, self.plant, where.loaded, spec, state, self.disk, self._at_point)
        trouble = random.Random(f"{seed} trouble")
        self.mischief = Mischief(self.kernel, self.plant, self.disk, self.controller, trouble)
        self.witness = Witness(
            self.kernel, self.plant, spec, self.controller, self.mischief, seed=seed, extras=where.extras
        )
        self.doom = Doom("none")
        self._until_dosed = random.Random(f"{seed} until dosed")
        self._after_look, heard = random.Random(f"{seed} after a look"), self.controller.heard

        def hear(running: Running, event: CampaignEvent) -> None:
            heard(running, event)
            draw = self._after_look
            if isinstance(event, TrialLooked) and draw.random() < LOOKED:
                self.kernel.after(draw.uniform(0.0, 0.05), lambda: self._end(running.life, "after its look"))
            elif isinstance(event, TrialProposed) and draw.random() < PROPOSED and self.doom.kind != "none":
                if draw.random() < 0.5:  # else it is carried out by the next process, if what was read counts still
                    self.mischief.ask(running, "pause")
                self.kernel.after(10.0 ** draw.uniform(-3.0, -0.5), lambda: self._end(running.life, "once decided"))

        self.controller.heard = hear
        draw = random.Random(f"{seed} production")
        self.plan = Plan(draw, spec.problem.space, LIVES[where.pace], produces=batches)
        self.outcome.world = ", ".join((self.outcome.world, *["production"] * batches, *sorted(where.extras)))
        self.kernel.computer.synchronised = seed % 2 == 0

    def run(self) -> Outcome:
        began_s = self.kernel.now_s
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        with virtual(self.kernel), self.controller.installed(), self.witness.installed(), self.plan.installed():
            try:
                for _ in range(LIVES[self.world.pace]):
                    self._one_life()
                self._last_life()
            except (Violation, Stuck) as broken:
                self.outcome.violation = f"{type(broken).__name__}: {broken}"
                self.kernel.trace(f"{self.kernel.now_s:.6f} VIOLATION {broken}")
        outcome = self.outcome
        outcome.rig_s = self.kernel.now_s - began_s
        outcome.events, outcome.digest = self.kernel.events, self.kernel.trace.digest
        outcome.starts, outcome.trials = self.controller.lives, len(self.witness.books.trials)
        outcome.recorded = self.witness.recorded
        outcome.faults, outcome.met = self.mischief.done, self.witness.met()
        return outcome

    # one life -------------------------------------------------------------------------------------------------------

    def _one_life(self) -> None:
        kernel, longest_s = self.kernel, LONGEST_S[self.world.pace]
        self.doom = self._drawn_doom()
        running = self._started()
        self.mischief.plan(running, longest_s)
        if self.mischief.aims.awaits_dose and self._until_dosed.random() < AIMED:
            self.doom.once = "dosed"
        if self._until_dosed.random() < RESUMED:
            kernel.after(RESUMES_S * self._until_dosed.random(), lambda: self._resumed(running))
        if self.doom.kind == "instant":
            lasts_s = longest_s * 10.0 ** self.draw.uniform(-4.0, 0.0)
            kernel.after(lasts_s, lambda: self._end(running.life, "at an instant"))
        if not kernel.run(lambda: running.life.dead, kernel.now_s + longest_s):
            self.doom = Doom("kill")
            self._end(running.life, "its time is over")
        self._buried(running)
        kernel.run(lambda: False, kernel.now_s + 10.0 ** self.draw.uniform(-1.0, 2.0))
        self._mended(running)
        self.doom = self._drawn_doom() if self.draw.random() < 0.3 else Doom("none")
        self.witness.promises.late.between()

    def _resumed(self, running: Running) -> None:
        asked = self.witness._ask("SELECT verb FROM acts WHERE verb IN ('pause', 'resume') ORDER BY id DESC LIMIT 1")
        if asked == [("pause",)]:
            self.mischief.ask(running, "resume")
        if self._until_dosed.random() < TENDED:
            self._tended(running)

    def _started(self) -> Running:
        self.kernel.run(lambda: False, self.kernel.computer.asleep_until_s)  # nobody starts anything on one that sleeps
        wish = self.plan.wish(self.controller.lives + 1, self.witness.recorded)
        running = self.controller.start(wish)
        every_s, bound_s = GLANCES_S[self.world.pace], SAFE_S[self.world.pace]

        def glance() -> None:
            if not running.life.dead:
                self.witness.glance(running, bound_s)
                self.kernel.after(every_s, glance)

        self.kernel.after(every_s, glance)
        return running

    def _buried(self, running: Running) -> None:
        """Look at what the life has left, and let its computer start anew if its power went with it."""
        self.outcome.ends[running.ending.partition(":")[0] or self.doom.kind] += 1
        if not running.ending and self.draw.random() < 0.3:
            self.outcome.ends["power lost"] += 1
            self.kernel.trace(f"{self.kernel.now_s:.6f} the power is lost")
            self.disk.lose_power()
            self.kernel.computer.reboot()
            if self.draw.random() < 0.3:
                self.mischief.clock_lost()
            if self.draw.random() < 0.3:
                for bus in self.plant.assembly.pumps:
                    self.plant.ask(fault="pump_reset", bus=bus)
        self.controller.abandoned()
        self.witness.ended(running)
        if running.ending.startswith("budget") and "dear" not in self.world.extras:
            raise Violation("a hundred million is spent, on what has cost a few hundred at most")

    def _mended(self, running: Running, *, final: bool = False) -> None:
        """Do what a person does before starting it again: mend the rig, reset the trip."""
        if running.ending and self.draw.random() < 0.7:
            self.mischief.end()
        if "Tripped" in running.ending and (final or self.draw.random() < 0.8):  # else somebody starts it all the same
            life = self.controller.alone("reset-trip", lambda: hands.reset(self.controller.state))
            self.kernel.run(lambda: life.dead, self.kernel.now_s + 600.0)
            self.controller.abandoned()

    def _last_life(self) -> None:
        """With nothing wrong any more, a trial is recorded before long; and all decisions come out the same again."""
        self.mischief.end()
        self.doom = Doom("none")
        rest_s, before = REST_S[self.world.pace] + 2 * self.world.loaded.rig.timing.settle_s, self.witness.recorded
        since_s = self.kernel.now_s
        while self.witness.recorded == before:
            running = self._started()
            self.kernel.after(SEES_S, lambda running=running: self._seen_to(running))  # type: ignore[misc]
            self._goes_on(running, since_s, rest_s, before)
            if not running.life.dead:
                self.mischief.ask(running, "stop")
                self.kernel.run(lambda running=running: running.life.dead, self.kernel.now_s + rest_s)  # type: ignore[misc]
            self._buried(running)
            self._mended(running, final=True)
        self.witness.replays()

    def _goes_on(self, running: Running, since_s: float, rest_s: float, before: int) -> None:
        """Let it go on until it ends or a trial is recorded; caps that come free again may make it wait besides."""
        until_s = since_s + rest_s
        while not self.kernel.run(lambda: running.life.dead or self.witness.recorded > before, until_s):
            reached_s = until_s
            until_s = since_s + rest_s + self.witness.barred_s(running, since_s)
            if until_s < reached_s + 1.0 or until_s > since_s + rest_s + MOST_BARRED_S:
                raise Violation(f"nothing is wrong, and for {(reached_s - since_s) / 3600:g} h no trial was recorded")

    def _seen_to(self, running: Running) -> None:
        """Do what a person does that it may wait for: resume, fill the bottles, take back their pumps; look again."""
        if running.life.dead:
            return
        self.kernel.after(LOOKS_AGAIN_S, lambda: self._seen_to(running))
        self.witness.promises.truths.cleared()
        self.mischief.ask(running, "resume")
        self._tended(running)

    def _tended(self, running: Running) -> None:
        rig = self.world.loaded.rig
        for device in (name for name, care in rig.care.items() if care.inventory is not None):
            self.mischief.ask(running, "refilled", device=device)
        for device in (name for name, care in rig.care.items() if care.calibration.every_s is not None):
            self.mischief.ask(running, "calibrated", device=device)
        for device in rig.devices:
            self.witness.promises.besides.back(device)  # refused where it is

    def _drawn_doom(self) -> Doom:
        kind = self.draw.choices(("commit", "disk", "line", "instant", "dose", "none"), (4, 4, 4, 5, 2, 1))[0]
        once = self.draw.choices(("", "switched on", "dosed"), (7, 2, 1))[0]
        if not once and self.world.scenario == DOSES and self._until_dosed.random() < UNTIL_DOSED:
            once = "dosed"
        return Doom(kind, int(10 ** self.draw.uniform(0.0, 2.3)) - 1, once)

    def _end(self, life: Life, why: str, *, goes_on: bool = False) -> None:
        if not life.dead:
            self.disk.kill()
            self.kernel.kill(life, f"killed {why}", goes_on=goes_on)

    def _passes(self, kind: str, where: str) -> None:
        if self.doom.kind == kind and not self.doom.once and self.kernel.life is not None:
            self.doom.left -= 1
            if self.doom.left < 0:
                # below SQLite nobody may leave: the disk is dead, and whoever asks it finds out
                self._end(self.kernel.life, where, goes_on=kind == "disk")

    def _at_point(self, where: str) -> None:
        self._passes("commit" if where.endswith("commit") else "disk", where)

    def _at_line(self, bus: str, when: str, data: bytes) -> None:
        if when == "before":
            self.witness.sends(bus, data)
            self.mischief.aims.leaves(bus, data)
        if doses(data) or (switches_on(data) and self.doom.once == "switched on"):
            self.doom.once = ""
        if doses(data) and self.doom.kind == "dose":
            self.doom.left = 0 if when == "before" and self.draw.random() < 0.2 else self.doom.left
            life, lasts_s = self.kernel.life, self.draw.choice((0.0, 0.0, 0.05, 1.0, 10.0)) * self.draw.random()
            if life is not None and when == "after":
                self.kernel.after(lasts_s, lambda: self._end(life, "in mid-dose"))
        self._passes("line", f"{when} writing {data!r} to {bus}")


def rig_of(seed: int, draw: random.Random) -> tuple[str, str, frozenset[str]]:
    """Draw the rig of a seed, the pace of its trials, and what it has besides."""
    scenario, pace = drawn(draw, looking=produces(seed))
    return scenario, pace, besides(random.Random(f"{seed} besides"), scenario, pace)


def simulate(seed: int, listener: Callable[[str], object] | None = None) -> Outcome:
    """Run one seed; leaves greenlets behind, so it is done in a process of its own."""
    draw = random.Random(f"{seed} world")
    where, batches = world(*rig_of(seed, draw)), produces(seed)
    directory = Path(tempfile.mkdtemp(prefix="simulation-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    try:
        cheap = where.scenario != REAL or draw.random() < 0.9 or "dear" in where.extras
        return Simulation(seed, where, directory, Trace(listener, str(directory)), cheap=cheap, batches=batches).run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
