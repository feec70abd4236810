"""What production promises, held against the journal: the rule as kept, its readings, what learning may lose, who pays.

Who was told to produce, and how, is known here from whoever started each life, not from the journal's audit.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.events import CampaignEvent, CampaignStarted
from rigctl.campaign.journal import Reader
from rigctl.campaign.production import production
from rigctl.config.load import LoadedConfig
from rigctl.console import run
from rigctl.console.run import Wish
from rigctl.rig.protocols import Severity
from tests.simulation.books import CHARGED, Violation
from tests.simulation.controller import Running

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

ROWS: Final = """
SELECT trial, state, origin, note, control_set, setpoints, proposal, policy_state, unavailable,
    (SELECT start FROM events e WHERE e.trial = t.trial ORDER BY id LIMIT 1)
FROM trials t WHERE proposal IS NOT NULL ORDER BY trial"""
KEPT: Final = ("ways", "lines", "model", "since", "outcomes", "begun")
"""Of what is run: the same from batch to batch until it is made anew."""
GROWTH: Final = 20
"""Learning makes it anew with a twentieth more outcomes."""
NEAR: Final = 1e-6
"""Share of a range, or of a sum, by which a number may differ that came by another way."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision as the journal has it, and how the life that began its trial was told to produce."""

    trial: int
    state: str
    origin: str
    note: str
    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    proposal: Json
    memory: Json | None
    """What is run; None where nothing is, or the policy did not decide."""
    own: Json | None
    """What else the policy remembers."""
    barred: frozenset[str]
    read: Mapping[str, float]
    """Before it was decided."""
    wish: Wish | None

    @property
    def phase(self) -> str:
        return str(self.proposal["phase"])


class Batches:
    """Keeps in mind which lives were to produce."""

    def __init__(self, witness: Witness, loaded: LoadedConfig) -> None:
        self._witness = witness
        self._loaded = loaded
        self._wishes: dict[int, Wish | None] = {}
        """By start; what a power loss has taken is another's number then."""
        self._space = witness.spec.problem.space

    def heard(self, running: Running, event: CampaignEvent) -> None:
        if isinstance(event, CampaignStarted):
            self._wishes[self._witness._ask("SELECT max(id) FROM starts")[0][0]] = running.wish

    def spent(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Sum up every line of cost, in micro-units: of the campaign, and of production."""
        first = "SELECT trial, start FROM events WHERE event IN ('LOOK', 'PROPOSE') ORDER BY id DESC"
        began = dict(connection.execute(first).fetchall())
        sums = [0, 0]
        for trial, amount in connection.execute("SELECT trial, amount_micros FROM ledger"):
            sums[self._wishes.get(began.get(trial, 0)) is not None] += amount
        for trial, amount, note in connection.execute("SELECT before_trial, amount_micros, note FROM idle"):
            # what was used between a batch and a trial is production's; not what was in one while nobody was in charge
            around = (trial - 1, trial) if note.startswith("between trials") else (trial,)
            sums[any(self._wishes.get(began.get(n, 0)) is not None for n in around)] += amount
        return sums[0], sums[1]

    def ended(self, running: Running, connection: sqlite3.Connection) -> None:
        if not any(wish is not None for wish in self._wishes.values()):
            return
        decided = self._decided(connection)
        batches = [row for row in decided if row.wish is not None]
        _check_asked(decided)
        _check_campaign(decided)
        last: Decided | None = None
        for row in decided:
            before = last.memory if last is not None else None
            if row.wish is not None:
                self._check_played(row, row.memory or self._told(row.wish) or before)
            if row.wish is not None and row.memory is not None and last is not None and before is not None:
                _check_kept(last, row)
                _check_account(last, row, decided)
            if row.wish is not None:
                _check_learning(row)
            last = row if row.own is not None else last
        self._check_number(running, connection)
        self._check_told(connection, batches)

    def phases(self, connection: sqlite3.Connection) -> Iterator[tuple[int, str, bool, str, frozenset[str]]]:
        """Yield of every decision: its trial, phase, whether it is the campaign's policy's, what is played, barred."""
        for row in self._decided(connection):
            own = row.wish is None and row.origin == "policy"
            yield row.trial, row.phase, own, "+".join(row.control_set), row.barred

    def met(self, connection: sqlite3.Connection) -> Counter[str]:
        found: Counter[str] = Counter()
        kept: Json = {"lines": (), "since": -1}
        decided = self._decided(connection)
        found["decided with something barred"] = sum(bool(row.barred) for row in decided)
        for row in (row for row in decided if row.wish is not None):
            found["batches"] += 1
            found[f"batch: {row.phase}"] += 1
            found["batch recorded"] += row.state == "RECORDED"
            pending = None if row.memory is None else row.memory["pending"]
            found["batch that may lose"] += pending is not None and pending["loss"] > 0.0
            found["batch as told"] += bool(row.wish is not None and row.wish.at)
            found["made, or anew"] += row.memory is not None and row.memory["since"] != kept["since"]
            kept = row.memory or kept
            if row.phase == "operate" and kept["lines"]:
                found["batch by a rule"] += 1
                found["batch by a line"] += bool(row.read) and "rule" in row.proposal["reason"].partition("reading")[0]
                found["batch without a reading"] += "missing" in row.proposal["reason"]
            found["batch instead of what is barred"] += "cannot be played now" in row.proposal["reason"]
            found["drift standing"] += row.memory is not None and bool(row.memory["drifts"])
        return +found

    def _check_played(self, row: Decided, memory: Json | None) -> None:
        """A batch is what the kept rule says at what was read, unless it says that it is to learn."""
        if row.phase == "learn":
            return
        if memory is None:
            raise Violation(f"batch {row.trial}: {row.phase}, and nothing is kept that could be run")
        name, wanted = said(memory, row.read, row.barred)
        if tuple(row.control_set) != name:
            raise Violation(f"batch {row.trial}: {'+'.join(row.control_set)} is run, the rule says {'+'.join(name)}")
        for v in (v for v in self._space.variables if v.name in name):
            right = min(max(wanted[v.name], v.low), v.high)
            if abs(row.setpoints[v.name] - right) > NEAR * (v.high - v.low):
                raise Violation(f"batch {row.trial}: {v.name} {row.setpoints[v.name]}, the rule says {right}")

    def _told(self, wish: Wish) -> Json | None:
        """Return what is run where somebody has said what."""
        fixed = run.setpoints(self._loaded, wish.at)
        return (
            {"lines": (), "ways": ({"control_set": [name for name, _ in fixed], "at": dict(fixed)},)} if fixed else None
        )

    def _check_number(self, running: Running, connection: sqlite3.Connection) -> None:
        """A process that was to run so many batches begins no more; one that another left may be among them."""
        most = running.wish.batches if running.wish is not None else None
        if most is None or not self._wishes:
            return
        last = max(self._wishes)
        sql = "SELECT DISTINCT trial, t.state FROM events JOIN trials t USING (trial) WHERE start = ? "
        sql += "AND event IN ('LOOK', 'PROPOSE')"
        if self._wishes[last] is not running.wish:
            return
        begun = connection.execute(sql, (last,)).fetchall()
        done = sum(state in CHARGED for _, state in begun)
        if len(begun) > most or (running.ending.startswith("trials") and done < most - 1):
            raise Violation(f"{most} batches were asked for, {len(begun)} begun and {done} done: {running.ending}")

    def _check_told(self, connection: sqlite3.Connection, batches: Sequence[Decided]) -> None:
        """What is said to have come of production is what is there, and the campaign was not charged for it."""
        reader = Reader(connection)
        spent, operated = self.spent(connection)
        campaign = reader.campaign()
        if (campaign.spent, campaign.operated) != (spent, operated):
            raise Violation(
                f"{campaign.spent} is said to be spent and {campaign.operated} by production; the lines sum to {spent} "
                f"and {operated}"
            )
        told = production(reader)
        over = [row for row in batches if row.state in CHARGED]  # the first one of another production may be under way
        memory = next((row.memory for row in reversed(over) if row.memory is not None), None)
        since = 0 if memory is None else memory["begun"]
        over = [row for row in over if row.trial >= since]
        learned = sum(row.phase == "learn" for row in over)
        if told is not None and (told.explored, told.spent) != (learned, operated):
            raise Violation(
                f"production: {told.explored} to learn and {told.spent} spent, not {learned} and {operated}"
            )
        if told is None and over:
            raise Violation(f"{len(over)} batches, and nothing is said of them")
        if told is not None and told.drifts and memory is None:
            raise Violation("a change is told of what is not run")

    def _decided(self, connection: sqlite3.Connection) -> list[Decided]:
        read: dict[int, dict[str, float]] = {}
        good = "SELECT trial, name, value FROM looks WHERE value IS NOT NULL AND severity < ?"
        for trial, name, value in connection.execute(good, (int(Severity.INVALID),)):
            read.setdefault(trial, {})[name] = value
        found = []
        for trial, state, origin, note, names, setpoints, proposal, policy, barred, start in connection.execute(ROWS):
            held = None if policy is None else json.loads(policy)
            found.append(
                Decided(
                    trial, state, origin, note, tuple(json.loads(names)), json.loads(setpoints),
                    json.loads(proposal), None if held is None else held.get("operate"),
                    None if held is None else {k: v for k, v in held.items() if k != "operate"},
                    frozenset(json.loads(barred)), read.get(trial, {}), self._wishes.get(start),
                )
            )  # fmt: skip
        return found


def said(
    memory: Json, read: Mapping[str, float], barred: frozenset[str]
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return what is to be run at these readings by what is kept: control set and setpoints, engineering units."""
    for line in memory["lines"]:
        needed = {c["reading"] for c in line["when"]} | {
            s["reading"] for own in line["settings"] for s in own["slopes"]
        }
        if needed <= read.keys() and all(_holds(c, read[c["reading"]]) for c in line["when"]):
            if "+".join(line["control_set"]) in barred:
                break
            at = {own["variable"]: _setpoint(own, read) for own in line["settings"]}
            return tuple(line["control_set"]), at
    for way in memory["ways"]:
        if "+".join(way["control_set"]) not in barred:
            return tuple(way["control_set"]), way["at"]
    raise Violation(f"a batch is run, and nothing of what may be run can be played: {sorted(barred)}")


def _holds(condition: Json, value: float) -> bool:
    low, high = condition["low"], condition["high"]
    return (low is None or low <= value) and (high is None or value < high)


def _setpoint(own: Json, read: Mapping[str, float]) -> float:
    value = own["at"] + sum(s["per_unit"] * (read[s["reading"]] - s["about"]) for s in own["slopes"])
    return float(min(max(value, own["low"]), own["high"]))


def _check_asked(decided: Sequence[Decided]) -> None:
    """A policy that was asked has decided: what it cannot do is told as an alarm, and would pass for trouble here."""
    for row in decided:
        if row.origin == "rejected" and not row.note.startswith("the last "):  # of trials gave nothing
            raise Violation(f"trial {row.trial}: not decided: {row.note}")


def _check_campaign(decided: Sequence[Decided]) -> None:
    """The campaign's policy finds what it remembered, and keeps nothing of production."""
    known = [row for row in decided if row.own is not None]
    for row in known:
        if row.wish is None and row.memory is not None:
            raise Violation(f"trial {row.trial}: of the campaign, and it keeps what production runs")
    for before, row in pairwise(known):
        if row.wish is not None and row.own != before.own:
            raise Violation(f"batch {row.trial}: the campaign's policy remembered {before.own}, and now {row.own}")


def _check_kept(last: Decided, row: Decided) -> None:
    """What is run stays as it is until somebody asks for something else, or learning has enough that is new."""
    was, now, wish = last.memory or {}, row.memory or {}, row.wish
    changed = [name for name in KEPT if was.get(name) != now.get(name)]
    if wish is None or was["asked"] != now["asked"] or not changed:
        return
    grown = now["outcomes"] - was["outcomes"] >= max(1, was["outcomes"] // GROWTH)
    learned = bool(wish.learn) and not wish.at and grown
    if was["begun"] != now["begun"] or not (learned or (wish.anew and now["since"] > was["since"])):
        raise Violation(f"batch {row.trial}: {', '.join(changed)} of what is run changed by itself, {wish}")


def _check_account(last: Decided, row: Decided, decided: Sequence[Decided]) -> None:
    """What a batch was expected to lose counts whatever became of it, its gain only once its outcome has come."""
    was, now = last.memory or {}, row.memory or {}
    pending = was["pending"] or {"trial": 0, "gain": 0.0, "loss": 0.0}
    state = {other.trial: other.state for other in decided}
    # an outcome that was given up may have been said all the same
    came = [p for p in (*was["owed"], pending) if state.get(p["trial"]) in ("RECORDED", "FAILED")]
    lost, most = was["lost"] + pending["loss"], was["gained"] + sum(p["gain"] for p in came)
    near = NEAR * (1.0 + abs(lost) + abs(most))
    if abs(now["lost"] - lost) > near or not was["gained"] - near <= now["gained"] <= most + near:
        raise Violation(
            f"batch {row.trial}: {now['lost']} lost of {now['gained']} gained, after {was['lost']} of {was['gained']} "
            f"and batch {pending['trial']}, {state.get(pending['trial'])}: {pending}"
        )


def _check_learning(row: Decided) -> None:
    """Nothing is tried unless somebody has said how much that may lose, and never more than that."""
    if row.wish is None or row.phase not in ("learn", "operate", "unchanged"):
        raise Violation(f"batch {row.trial}: {row.phase}, by {row.proposal['policy']}, is no batch for production")
    pending = None if row.memory is None else row.memory["pending"]
    if (row.phase == "learn" or pending is not None) and (not row.wish.learn or row.memory is None):
        raise Violation(f"batch {row.trial}: {row.phase}, {pending}, and nobody has said that it is to learn")
    if row.memory is None or pending is None:
        return
    share, loss = run.share(row.wish.learn) or 0.0, pending["loss"]
    most = share * row.memory["gained"]
    if loss < 0.0 or pending["gain"] < 0.0 or (row.phase != "learn" and loss):
        raise Violation(f"batch {row.trial}: {row.phase}, {pending}")
    if loss and row.memory["lost"] + loss > most + NEAR * (1.0 + most):
        raise Violation(f"batch {row.trial}: {row.memory['lost'] + loss} is lost by learning, {most} may be")
