"""What the journal must hold, whatever has happened: plain SQL over a copy, by nobody's code but this."""

import json
import math
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from sim_rig.plants.pump import Dispense

NEXT = {
    ("", "LOOKING"), ("LOOKING", "PROPOSED"),
    ("", "PROPOSED"), ("PROPOSED", "ARMED"), ("ARMED", "RUNNING"), ("RUNNING", "MEASURED"), ("MEASURED", "RECORDED"),
    ("PROPOSED", "ABANDONED"), ("PROPOSED", "FAILED"), ("MEASURED", "FAILED"),
    ("MEASURED", "AWAITING"), ("AWAITING", "RECORDED"), ("AWAITING", "FAILED"),
    *((state, end) for state in ("LOOKING", "ARMED", "RUNNING") for end in ("FAILED", "ABANDONED", "LOST")),
}  # fmt: skip
"""Steps that a trial may take."""
ENDS = ("RECORDED", "FAILED", "ABANDONED", "LOST")
CHARGED = (*ENDS, "AWAITING")
"""The rig has done its part, and another trial may begin."""
AFTER = {
    "": {"RUNNING", "ENDED", "HOLDING", "PAUSED"},
    "RUNNING": {"HOLDING", "PAUSED", "WAITING", "ENDED", "RUNNING"},
    "HOLDING": {"RUNNING", "HOLDING", "PAUSED", "WAITING", "ENDED"},
    "PAUSED": {"RUNNING", "HOLDING", "WAITING", "ENDED"},
    "WAITING": {"RUNNING", "HOLDING", "PAUSED", "WAITING", "ENDED"},
    "ENDED": set(),
}
"""Phases of one process, by the one before."""
STARTS_S = 60.0
DIGIT_ML = 0.01
"""Volumes leave as text with two decimals, rounded down."""


class Violation(AssertionError):
    """Says which invariant does not hold, and where it can be seen."""


@contextmanager
def around(*calls: tuple[object, str, Callable[[Callable[..., Any]], Callable[..., Any]]]) -> Iterator[None]:
    """Let calls go through what is made of them while the block runs; each by its owner, its name and what makes it."""
    with ExitStack() as stack:
        for owner, name, made in calls:
            stack.enter_context(patch.object(owner, name, made(getattr(owner, name))))
        yield


@dataclass
class Books:
    """Reads the journal after every life, and remembers what it held."""

    state: Path
    trials: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """As they were after the last life."""
    ledger: dict[tuple[int, str], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Rows of the tables of which nothing may go."""

    def there(self) -> bool:
        path = self.state / "journal.sqlite"
        return path.exists() and path.stat().st_size > 0

    @contextmanager
    def copy(self) -> Iterator[sqlite3.Connection]:
        """Open a copy, so that looking leaves no trace."""
        scratch = self.state.with_name("look")
        scratch.mkdir()
        try:
            for file in self.state.glob("journal.sqlite*"):
                if not file.name.endswith("-shm"):
                    shutil.copyfile(file, scratch / file.name)
            with closing(sqlite3.connect(scratch / "journal.sqlite")) as connection:
                yield connection
        finally:
            shutil.rmtree(scratch)

    def look(self, connection: sqlite3.Connection, *, firm: bool = True) -> bool:
        """Hold everything that does not need the plant against what must be; tell whether there is anything yet.

        Not `firm`: a commit that nobody was told of may be lost yet, if the power goes before the next life syncs it.
        """
        try:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
        if found != "ok":
            raise Violation(f"the journal is damaged: {found}")
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchone():
            if self.trials:
                raise Violation("the journal has lost all its tables")
            return False
        self._steps(connection)
        known = self.trials, self.ledger, dict(self.counts)
        self._kept(connection)
        self._charged(connection)
        if not firm:
            self.trials, self.ledger, self.counts = known
        self._phases(connection)
        return True

    def _steps(self, connection: sqlite3.Connection) -> None:
        state: dict[int, str] = {}
        for trial, after in connection.execute("SELECT trial, state FROM events ORDER BY id"):
            before = state.get(trial, "")
            if (before, after) not in NEXT:
                raise Violation(f"trial {trial}: {before or 'nothing'} became {after}")
            state[trial] = after
        rows = dict(connection.execute("SELECT trial, state FROM trials"))
        if rows != state:
            raise Violation(f"states of trials are {rows}, by their last events {state}")
        if sorted(rows) != list(range(1, len(rows) + 1)):
            raise Violation(f"trials are not numbered one by one: {sorted(rows)}")
        under_way = [trial for trial, now in rows.items() if now not in CHARGED]
        if under_way not in ([], [len(rows)]):
            raise Violation(f"trials {under_way} of {len(rows)} are under way")

    def _kept(self, connection: sqlite3.Connection) -> None:
        """Nothing that was committed before this life has gone or become something else."""
        now = {row[0]: row for row in connection.execute("SELECT trial, control_set, setpoints, state FROM trials")}
        for trial, was in self.trials.items():
            is_ = now.get(trial)
            if is_ is None or is_[1:3] != was[1:3] or (was[3] in ENDS and is_[3] != was[3]):
                raise Violation(f"trial {trial} was {was}, and is {is_}")
        self.trials = now
        for table in ("events", "alarms", "acts", "phases", "doses", "starts", "trips"):
            (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own names
            if count < self.counts.get(table, 0):
                raise Violation(f"{table}: {self.counts[table]} rows have become {count}")
            self.counts[table] = count

    def _charged(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT trial, meter, amount_micros FROM ledger").fetchall()
        charged = {(trial, meter): amount for trial, meter, amount in rows}
        if len(charged) != len(rows):
            raise Violation("a meter is charged twice to one trial")
        for line, amount in self.ledger.items():
            if charged.get(line) != amount:
                raise Violation(f"trial {line[0]}, {line[1]}: {amount} was charged, and is {charged.get(line)}")
        self.ledger = charged
        meters = {meter for _, meter in charged}
        for trial, row in self.trials.items():
            lines = {meter for charged_to, meter in charged if charged_to == trial}
            begun = "SELECT 1 FROM events WHERE trial = ? AND state IN ('LOOKING', 'ARMED')"
            moved = connection.execute(begun, (trial,)).fetchone()
            if row[3] in CHARGED and moved and lines != meters:
                raise Violation(f"trial {trial}: {row[3]}, charged for {sorted(lines)}, not for {sorted(meters)}")
            if row[3] not in CHARGED and lines:
                raise Violation(f"trial {trial}: {row[3]}, and charged already")

    def _phases(self, connection: sqlite3.Connection) -> None:
        last: dict[int, str] = {}
        for start, phase in connection.execute("SELECT start, phase FROM phases ORDER BY id"):
            if phase not in AFTER[last.get(start, "")]:
                raise Violation(f"start {start}: the phase {last.get(start) or 'nothing'} became {phase}")
            last[start] = phase

    def alarms(self, connection: sqlite3.Connection) -> set[tuple[str, str]]:
        return set(connection.execute("SELECT source, message FROM alarms"))


def intents_of(connection: sqlite3.Connection, pump: str) -> list[float]:
    rows = connection.execute("SELECT volume_ml FROM doses WHERE actuator = ? ORDER BY id", (pump,))
    return [float(volume) for (volume,) in rows]


def is_of(sent_ml: float, intent_ml: float) -> bool:
    """Tell whether a dose that leaves may be an intent's: no more, and less only by what two decimals cannot say."""
    return -1e-6 < intent_ml - sent_ml < DIGIT_ML


def check_sends(pump: str, sent: list[tuple[float, float]], intents: list[float]) -> None:
    """Hold every dose that was sent against the intents: each has one of its own, in their order."""
    left = iter(intents)
    for at_s, volume_ml in sent:
        if not any(is_of(volume_ml, intent) for intent in left):
            raise Violation(f"{pump}: {volume_ml} mL was sent at {at_s:.3f} s without an intent of its own: {intents}")


def counted(dispense: Dispense, *, left: bool) -> float:
    """Return what counts of a dispense, mL: of a pump that ran on beyond its target, what it was told.

    That is one that had to be stopped, or was `left` running by a life that died, and nobody has been there since.
    """
    ran_on = dispense.how == "stopped" or (left and dispense.how == "running")
    return min(dispense.delivered_ml, abs(dispense.target_ml)) if ran_on else dispense.delivered_ml


class Given(NamedTuple):
    """What one dose has delivered."""

    at_s: float
    """True time of its start."""
    ml: float
    trial: int = 0
    """0: none was under way."""


def check_trials(name: str, given: Iterable[Given], most_ml: float | None) -> None:
    """Hold what the pumps of a cap have delivered in each trial against it; 3 % inaccuracy."""
    by_trial: defaultdict[int, float] = defaultdict(float)
    for dose in (dose for dose in given if dose.trial):
        by_trial[dose.trial] += dose.ml
    for trial, ml in by_trial.items() if most_ml is not None else ():
        if ml > 1.03 * most_ml:
            raise Violation(f"{name}: delivered {ml:.2f} mL in trial {trial}, cap {most_ml:g}")


def check_caps(pump: str, given: Sequence[Given], per_dose_ml: float | None, per_day_ml: float | None) -> None:
    """Hold what a pump has delivered of our doses, (true time of the start, mL), against its caps; 3 % inaccuracy."""
    for at_s, volume_ml, _ in given:
        if per_dose_ml is not None and volume_ml > 1.03 * per_dose_ml:
            raise Violation(f"{pump}: delivered {volume_ml:.2f} mL in one dose at {at_s:.1f} s, cap {per_dose_ml:g}")
        if per_day_ml is None:
            continue
        day_ml = sum(v for s, v, _ in given if at_s - 86400.0 < s <= at_s)
        if day_ml > 1.03 * per_day_ml:
            raise Violation(f"{pump}: delivered {day_ml:.2f} mL in 24 h before {at_s:.1f} s, cap {per_day_ml:g}")


def check_windows(name: str, given: Iterable[Given], most: Iterable[tuple[float, float | None]]) -> None:
    """Hold what the pumps of a cap have delivered together against its windows (seconds, mL), wherever they begin.

    A dose counts from its intent on, which is some seconds before it starts.
    """
    doses = sorted(given)
    for span_s, most_ml in most:
        for at_s, *_ in doses if most_ml is not None else ():
            ml = sum(v for s, v, _ in doses if at_s - span_s + STARTS_S < s <= at_s)
            if ml > 1.03 * most_ml:
                raise Violation(f"{name}: delivered {ml:.2f} mL in {span_s:g} s before {at_s:.1f} s, cap {most_ml:g}")


def barred(given: Iterable[Given], span_s: float, most_ml: float, next_ml: float) -> Iterator[tuple[float, float]]:
    """Give the times, true seconds, in which a window has no room for a dose of so many mL."""
    changes = sorted(change for at_s, ml, _ in given for change in ((at_s, ml), (at_s + span_s, -ml)))
    inside_ml = 0.0
    for (at_s, ml), (until_s, _) in pairwise([*changes, (math.inf, 0.0)]):
        inside_ml += ml
        if inside_ml + next_ml > most_ml:
            yield at_s, until_s


def total_s(spells: Iterable[tuple[float, float]], since_s: float, now_s: float) -> float:
    """Return for how long it was any of these times between two instants."""
    found_s, reached_s = 0.0, since_s
    for begins_s, ends_s in sorted(spells):
        found_s += max(0.0, min(ends_s, now_s) - max(begins_s, reached_s))
        reached_s = max(reached_s, ends_s)
    return found_s


def control_set_of(row: tuple[Any, ...]) -> list[str]:
    return list(json.loads(row[0]))
