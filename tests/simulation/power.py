"""The journal alone, on a disk that may die at every operation: `python -m tests.simulation.power --minutes 1`.

A seed has a journal used at random, life after life. At each operation of the disk it is asked what a power loss would
leave there, and what a kill; each of these is opened as the next start would open it, with all its checks. It must
hold what was committed before, or that and the step under way, to the last row (by the journal's own sums over all its
rows, which opening has just compared with them); the budget spent and the volumes of the caps must be those that were
counted here, in numbers that no journal has seen. The next life goes on from one of these.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rigctl.campaign.journal import Journal
from rigctl.campaign.ledger.lines import IdleLine, LedgerLine
from rigctl.campaign.trial import Event, State
from rigctl.errors import RigctlError
from rigctl.rig.limits import DAY_S
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.fakes import make_spec
from tests.campaign.records import MEASURED, READINGS, STATES, SetClock, make_decision
from tests.simulation.disk import Disk
from tests.simulation.inode import SHARED_MEMORY

PUMP = "pump"
CHECKPOINTS = (2, 10, 1000)
"""Pages of the log after which SQLite merges it into the file; the last is its usual one."""
ENDS = {
    State.PROPOSED: (Event.ABANDON, Event.FAIL),
    State.ARMED: (Event.LOSE, Event.ABANDON, Event.FAIL),
    State.RUNNING: (Event.LOSE, Event.ABANDON, Event.FAIL),
    State.MEASURED: (Event.RECORD, Event.FAIL),
}


class Lost(AssertionError):
    """Something that was committed is not there."""


@dataclass(slots=True)
class Truth:
    """What has happened, counted apart from the journal."""

    trial: int = 0
    state: State | None = None
    spent: int = 0
    doses: dict[int, tuple[float, float, str]] = field(default_factory=dict)
    """Number -> when (seconds that no reboot sets back), volume that counts (mL), state."""

    def day_ml(self, now_s: float) -> float:
        return sum(ml for at_s, ml, _ in self.doses.values() if at_s > now_s - DAY_S)


Sums = tuple[tuple[object, ...], ...]
Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Left:
    """Files at one operation, and what may stand in them."""

    files: Files
    power: bool
    where: str


class User:
    """Uses a journal at random, and keeps count."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.truth = Truth()
        self.clock = SetClock()
        self.true_s = 1000.0
        self.boot = 1

    def reboot(self) -> None:
        self.boot += 1
        self.true_s += self.rng.choice((1.0, 3600.0, 30 * 3600.0))
        self.clock = SetClock(self.rng.uniform(5.0, 50.0))

    def open(self, directory: Path) -> Journal:
        return Journal(directory, self.clock, f"boot-{self.boot}")

    def step(self, journal: Journal) -> Journal:
        passed_s = self.rng.choice((0.5, 60.0, 7200.0))
        self.clock.at_s += passed_s
        self.true_s += passed_s
        choices: list[Callable[[Journal], object]] = [self._trial] * 4 + [self._dose] * 3 + [self._other]
        self.rng.choice(choices)(journal)
        return journal

    def _trial(self, journal: Journal) -> None:
        truth, number = self.truth, self.truth.trial
        if truth.state is None:
            journal.propose(make_decision(number + 1, note="n" * self.rng.choice((0, 5000))))
            truth.trial, truth.state = number + 1, State.PROPOSED
        elif truth.state is State.MEASURED or self.rng.random() < 0.2:
            amounts = [self.rng.randrange(1, 10**9) for _ in range(self.rng.randrange(4))]
            lines = [LedgerLine(f"{n}", "energy", 0.1, "kWh", amount) for n, amount in enumerate(amounts)]
            journal.finish(number, truth.state, self.rng.choice(ENDS[truth.state]), lines)
            truth.state, truth.spent = None, truth.spent + sum(amounts)
        elif truth.state is State.PROPOSED:
            amounts = [self.rng.randrange(1, 10**6) for _ in range(self.rng.randrange(3))]
            journal.arm(number, READINGS, [IdleLine("power", "energy", 0.1, "kWh", a, "") for a in amounts])
            truth.state, truth.spent = State.ARMED, truth.spent + sum(amounts)
        elif truth.state is State.ARMED:
            journal.run(number, STATES)
            truth.state = State.RUNNING
        else:
            journal.measure(number, MEASURED, ("y",), READINGS)
            truth.state = State.MEASURED

    def _dose(self, journal: Journal) -> None:
        doses = self.truth.doses
        under_way = [number for number, (_, _, state) in doses.items() if state in ("INTENT", "SENT")]
        if not under_way:
            volume_ml = self.rng.randrange(1, 64) / 8.0  # exact
            doses[journal.doses.intend(PUMP, volume_ml, 0.0)] = self.true_s, volume_ml, "INTENT"
            return
        number = under_way[0]
        at_s, volume_ml, state = doses[number]
        if state == "INTENT" and self.rng.random() < 0.7:
            journal.doses.sent(number)
            doses[number] = at_s, volume_ml, "SENT"
        else:
            dispensed_ml = self.rng.choice((0.0, volume_ml / 2.0, volume_ml))
            journal.doses.settle(number, "DONE", dispensed_ml, "")
            doses[number] = at_s, dispensed_ml, "DONE"

    def _other(self, journal: Journal) -> None:
        self.rng.choice(
            [
                journal.beat,
                lambda: journal.alarms.add(Alarm(Severity.MINOR, "ph", "said " * 500, kind="said")),
                lambda: journal.phase("HOLDING", "so"),
                lambda: journal.people.act("pause", "somebody"),
                lambda: journal.trips.latch("a reason"),
                lambda: journal.trips.reset("somebody"),
            ]
        )()


def sums(journal: Journal) -> Sums:
    return tuple(journal._connection.execute("SELECT name, digest, place FROM seals ORDER BY name"))


@dataclass(slots=True)
class Witness:
    """Looks at what every operation of the disk would leave behind."""

    user: User
    disk: Disk
    scratch: Path
    share: float
    """Of the operations that are looked at."""
    points: int = 0
    """Ends of the world that were looked at."""
    left: list[tuple[Left, Sums]] = field(default_factory=list)
    """What the last step could have left, and what stands there."""
    truths: dict[Sums, Truth] = field(default_factory=dict)
    """What may stand there, and what it means."""
    _noted: list[Left] = field(default_factory=list)

    def watch(self, what: str, work: Callable[[], Journal], before: Journal | None) -> Journal:
        """Do one step and look at every operation of it.

        Args:
            what: the step, for people.
            work: does it, and returns the journal.
            before: the journal before it; None: there may be none.
        """
        known = {} if before is None else {sums(before): deepcopy(self.user.truth)}
        self._noted.clear()
        self.disk.on_operation = lambda operation, name: self._note(f"{what}: before {operation} {name}")
        journal = work()
        self.disk.on_operation = lambda *_: None
        during = list(self._noted)
        self._note(f"after {what}", always=True)
        after = self._noted[len(during) :]
        state = self._held(after[-1])
        self.truths = known | {state: deepcopy(self.user.truth)}
        self.left = [(left, self._checked(left, self.truths)) for left in _different(during)]
        self.left += [(left, self._checked(left, {state: self.user.truth})) for left in after]
        self.points += len(during) + len(after)
        return journal

    def _note(self, where: str, *, always: bool = False) -> None:
        if always or self.user.rng.random() < self.share:
            written = {n: bytes(i.content) for n, i in self.disk.files.names.items() if not n.endswith(SHARED_MEMORY)}
            self._noted += [Left(self.disk.if_power_failed(), True, where), Left(written, False, where)]

    def _open(self, left: Left) -> Journal:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        for name, content in left.files.items():
            (self.scratch / name).write_bytes(content)
        try:
            return Journal(self.scratch, SetClock(10.0), "another") if left.power else self.user.open(self.scratch)
        except RigctlError as error:
            raise Lost(f"{left.where}: {error}") from error

    def _held(self, left: Left) -> Sums:
        journal = self._open(left)
        found = sums(journal)
        journal._connection.close()
        return found

    def _checked(self, left: Left, known: Mapping[Sums, Truth]) -> Sums:
        journal = self._open(left)
        found = sums(journal)
        try:
            if found not in known:
                raise Lost(f"{left.where}: what stands there is neither what did before nor what did after")
            _compare(journal, known[found], self.user.true_s, left.where)
        finally:
            journal._connection.close()
        return found


def _compare(journal: Journal, truth: Truth, true_s: float, where: str) -> None:
    """Raise `Lost` unless the journal says what has happened."""
    rows = journal.read.trials()
    state = rows[-1].state if rows and not rows[-1].state.final else None
    if (len(rows), state) != (truth.trial, truth.state):
        raise Lost(f"{where}: {len(rows)} trials, the last {state}; there were {truth.trial}, the last {truth.state}")
    spent = journal.read.campaign().spent if rows else 0
    if spent != truth.spent:
        raise Lost(f"{where}: {spent} spent, it was {truth.spent}")
    booked_ml = journal.doses.given_ml([PUMP], journal.time.clock.now_s() - DAY_S)
    if booked_ml < truth.day_ml(true_s):
        raise Lost(f"{where}: {booked_ml} mL count against the cap of 24 h, {truth.day_ml(true_s)} mL were given")


def _different(lefts: list[Left]) -> list[Left]:
    return list({(left.power, tuple(sorted(left.files.items()))): left for left in lefts}.values())


def run(seed: int, directory: Path, *, share: float = 1.0, tamper: Callable[[Journal], object] = lambda _: None) -> int:
    """Use a journal for three lives; return how many ends of the world were looked at.

    Args:
        seed: decides everything.
        directory: an empty one.
        share: of the operations that are looked at.
        tamper: is given every journal that is opened; for tests of the witness.
    """
    user, disk = User(Random(f"user {seed}")), Disk(Random(f"disk {seed}"))
    witness = Witness(user, disk, directory / "left", share)
    with disk.installed(directory / "state"):
        for _ in range(3):
            journal = witness.watch("open", lambda: user.open(disk.place), None)
            tamper(journal)
            journal._connection.execute(f"PRAGMA wal_autocheckpoint = {user.rng.choice(CHECKPOINTS)}")
            journal = witness.watch("begin", lambda j=journal: begun(j), journal)  # type: ignore[misc]
            for _ in range(user.rng.randrange(2, 14)):
                journal = witness.watch("step", lambda j=journal: user.step(j), journal)  # type: ignore[misc]
            if user.rng.random() < 0.3:
                witness.watch("close", lambda j=journal: closed(j), journal)  # type: ignore[misc]
            end, state = user.rng.choice(witness.left)
            user.truth = deepcopy(witness.truths[state])
            disk.lose_power(end.files)
            disk.revive()
            journal._connection.close()
            if end.power:
                user.reboot()
    return witness.points


def begun(journal: Journal) -> Journal:
    journal.begin(make_spec(), "0.0")
    return journal


def closed(journal: Journal) -> Journal:
    journal.close()
    return journal


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.power", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    chosen = parser.parse_args()
    seed, points, began_s = chosen.seed, 0, time.monotonic()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - what is opened is synced, for nothing
    while time.monotonic() - began_s < 60.0 * chosen.minutes:
        with tempfile.TemporaryDirectory(dir=memory) as directory:
            try:
                points += run(seed, Path(directory))
            except Lost as lost:
                raise SystemExit(f"seed {seed}: {lost}") from lost
        seed += 1
    print(f"{seed - chosen.seed} seeds, {points} ends, {time.monotonic() - began_s:.0f} s: nothing was lost")


if __name__ == "__main__":
    main()
