"""People who say what came of trials, in any order, at any time; what they were told is held against the journal.

Where an outcome is said by hand a trial awaits it after the rig has done its part. Whatever ends a life, what somebody
was told is recorded stays so, and nothing is given up before its time.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rigctl.campaign.acts import Outcome
from rigctl.console.assemble import perform
from tests.simulation.books import Violation
from tests.simulation.controller import Running

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

OFTEN = 0.04
"""How likely somebody says something at one glance."""
ROUNDED_S = 0.1
GIVEN = (0.0, 90.0)
"""What an outcome said here lies between, in the units of any of the rigs."""

WAITED = """
SELECT trial, who, c.at_s - a.at_s, 86400.0 * (julianday(c.utc) - julianday(a.utc)),
    w.epoch = (SELECT epoch FROM starts s WHERE s.at_s <= c.at_s ORDER BY s.id DESC LIMIT 1),
    c.who = 'sensor' OR instr(c.why, 'what its sensor reads now') > 0
FROM events a JOIN awaited w USING (trial) JOIN corrections c USING (trial)
WHERE a.event = 'AWAIT' AND c.who IN ('rigctl', 'sensor') AND c.kind = 'amend'
    AND json_extract(c.becomes, '$.outcomes') IS NOT NULL
"""
"""How long the program itself has waited for an outcome: campaign time, civil time, whether within one boot; and
whether it need wait only until it is read."""


class Late:
    """Says outcomes, and remembers which were taken."""

    def __init__(self, witness: Witness, draw: random.Random) -> None:
        self._witness = witness
        self._draw = draw
        late = witness.spec.rig.late
        self._name = late.name if late is not None and late.by == "hand" else ""
        self._after_s, self._within_s = (0.0, 0.0) if late is None else (late.after_s or 0.0, late.until_s)
        self._taken: dict[int, float | None] = {}
        """By trial: what was said first and taken; None: that nothing comes."""

    def glance(self, running: Running) -> None:
        """Let somebody who looks in say an outcome, mostly one that is awaited."""
        if not self._name or self._draw.random() > OFTEN:
            return
        trial, value = self._one()
        kind = self._draw.choices(("value", "lost", "amend", "force"), (12, 2, 2, 1))[0]
        if kind == "amend":
            becomes = {"outcomes": {self._name: value}}
            self._witness.mischief.ask(running, "amend", trial=trial, becomes=becomes)
            return
        told: float | None = None if kind == "lost" else value
        given = {"lost": told is None, "force": kind == "force", "outcomes": {self._name: told}}
        self._witness.mischief._tell("outcome", trial=trial, value=told)
        take = (lambda _: None) if kind == "force" else lambda _: self._take(trial, told)  # that may be an amendment
        self._witness.mischief.ask(running, "outcome", take, trial=trial, **given)

    def between(self) -> None:
        """Let somebody say one while no campaign runs, as `rigctl trial outcome` does, and end it in its midst."""
        if not self._name or not self._waiting() or self._draw.random() < 0.5:
            return
        witness, controller = self._witness, self._witness.controller
        trial, value = self._one()

        def say() -> object:  # after the question whether it can be, which fits a model
            said = perform(Outcome(trial=trial, outcomes={self._name: value}), controller.state)
            self._take(trial, value)
            return said

        life = controller.alone("outcome", say)
        if self._draw.random() < 0.3:
            witness.kernel.after(0.02 * self._draw.random(), lambda: witness.kernel.kill(life, "killed"))
        witness.kernel.run(lambda: life.dead, witness.kernel.now_s + 600.0)
        controller.abandoned()

    def ended(self, connection: sqlite3.Connection) -> None:
        """Hold what was taken against what is there, and what was given up against its time; raises `Violation`."""
        if not self._within_s:
            return
        self._check_time(connection)
        came = _came(connection, self._name)
        for trial, value in self._taken.items():
            if trial not in came or came[trial] != value:
                raise Violation(f"trial {trial}: {value} was taken, and {came.get(trial, 'nothing')} is there")
        states = dict(connection.execute("SELECT trial, state FROM trials"))
        for trial, value in came.items():
            if states[trial] != ("FAILED" if value is None else "RECORDED"):
                raise Violation(f"trial {trial}: {value} came, and it is {states[trial]}")

    def _check_time(self, connection: sqlite3.Connection) -> None:
        """Nothing is read or given up before its time: of campaign time in one boot, else of civil time if none set it.

        So much is known across a boot, and the time that the computer was off counts.
        """
        set_ = self._witness.mischief.done["clock set"]
        for trial, who, waited_s, passed_s, same_boot, due in connection.execute(WAITED):
            least_s = self._after_s if due else self._within_s
            if (waited_s if same_boot else passed_s) < least_s - ROUNDED_S and (same_boot or not set_):
                raise Violation(f"trial {trial}: {who} waited {waited_s:.0f} s for its outcome, not {least_s:.0f} s")

    def _waiting(self) -> list[int]:
        return [n for (n,) in self._witness._ask("SELECT trial FROM trials WHERE state = 'AWAITING' ORDER BY trial")]

    def _one(self) -> tuple[int, float]:
        waiting, draw = self._waiting(), self._draw
        trial = draw.choice(waiting) if waiting and draw.random() < 0.8 else draw.randrange(1, 12)
        return trial, draw.uniform(*GIVEN)

    def _take(self, trial: int, value: float | None) -> None:
        if value is None and trial not in self._taken:
            self._witness.recorded += 1  # it would have been, had nobody said that nothing comes
        self._taken.setdefault(trial, value)


def _came(connection: sqlite3.Connection, name: str) -> dict[int, float | None]:
    """Return what came first of trials that awaited it, by trial."""
    sql = (
        "SELECT trial, becomes FROM corrections JOIN awaited USING (trial) WHERE kind = 'amend' ORDER BY corrections.id"
    )
    found: dict[int, float | None] = {}
    for trial, becomes in connection.execute(sql):
        outcomes: Mapping[str, Any] = json.loads(becomes).get("outcomes") or {}
        if name in outcomes:
            found.setdefault(trial, outcomes[name])
    return found
