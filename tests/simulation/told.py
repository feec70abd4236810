"""What the program says of a campaign while it runs, and of its instruments, held against what the journal has."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.control import Request
from rigctl.campaign.events import (
    CampaignEvent,
    CampaignStarted,
    Dosed,
    TrialEnded,
    TrialProposed,
    TrialStep,
)
from rigctl.campaign.instruments import as_last_known, said_of
from rigctl.campaign.journal import open_reader
from rigctl.campaign.status import Status
from rigctl.rig.values import Alarm
from tests.simulation.books import Violation
from tests.simulation.controller import Running

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

TOLD: Final = ("LOOKING", "PROPOSED", "ARMED", "RUNNING", "MEASURED")
"""States that people are told of as a trial enters them."""
MOST_WORDS: Final = 2
"""In the name of a device, or of a part of the campaign, that an alarm is about."""
DAY_S: Final = 86400.0
NEAR_ML: Final = 0.002
GIVEN: Final = "coalesce(dispensed_ml, volume_ml)"
SETTLED: Final = f"""
SELECT {GIVEN}, at_s FROM doses WHERE actuator = ? AND settled_s IS NOT NULL ORDER BY settled_s DESC, id DESC LIMIT 1"""  # noqa: S608 - our own
IN_A_DAY: Final = f"SELECT sum({GIVEN}) FROM doses WHERE actuator = ? AND at_s > ?"  # noqa: S608 - our own
SINCE: Final = f"SELECT coalesce(sum({GIVEN}), 0), count(*) FROM doses WHERE actuator = ? AND at_s >= ?"  # noqa: S608 - our own
CALIBRATED: Final = """
SELECT device, points FROM calibrations WHERE id IN (SELECT max(id) FROM calibrations GROUP BY device)"""
KEPT: Final = "SELECT kind, volume_ml, at_s FROM upkeep WHERE device = ? AND part IN ('', ?) ORDER BY id"


class Told:
    """Follows what is told."""

    def __init__(self, witness: Witness) -> None:
        self._witness, self._rig = witness, witness.spec.rig
        self._steps: set[tuple[int, str]] = set()
        self._over: set[int] = set()
        """Trials whose end was told."""
        self._alarms = 0
        self._last_event = 0
        """The last step of a trial that the life before had left."""
        self.met: Counter[str] = Counter()

    # while it runs --------------------------------------------------------------------------------------------------

    def heard(self, running: Running, event: CampaignEvent) -> None:
        """Hold what is told against what is on disk: it is told of once it is there."""
        if isinstance(event, Alarm):
            self._alarms += 1
            if len(event.source.split()) > MOST_WORDS:
                self._witness.fail(f"{event.kind}: an alarm of {event.source!r}, which names nothing")
        if isinstance(event, TrialStep | TrialProposed):
            state = event.state if isinstance(event, TrialStep) else "PROPOSED"
            self._steps.add((event.trial, str(state)))
            self._is_there(event.trial, str(state))
            if isinstance(event, TrialProposed):
                self._is_decided(event)
        elif isinstance(event, TrialEnded):
            self._over.add(event.row.trial)
            self._is_there(event.row.trial, str(event.row.state))
            sql = "SELECT coalesce(sum(amount_micros), 0) FROM ledger WHERE trial = ?"
            ((cost,),) = self._witness._ask(sql, event.row.trial)
            if event.row.cost != cost:
                self._witness.fail(f"trial {event.row.trial}: {event.row.cost} is told, its lines sum to {cost}")
        elif isinstance(event, Dosed):
            self._is_booked(event)
        if isinstance(event, TrialStep | TrialEnded | CampaignStarted):
            self._stands(running, event)

    def _is_there(self, trial: int, state: str) -> None:
        self.met["step held against the journal"] += 1
        rows = self._witness._ask("SELECT state FROM trials WHERE trial = ?", trial)
        if rows != [(state,)]:
            self._witness.fail(f"trial {trial}: {state} is told, and the journal has {rows}")

    def _is_decided(self, told: TrialProposed) -> None:
        rows = self._witness._ask("SELECT control_set, setpoints FROM trials WHERE trial = ?", told.trial)
        if rows and [json.loads(text) for text in rows[0]] != [list(told.control_set), dict(told.setpoints)]:
            self._witness.fail(f"trial {told.trial}: {told.control_set}, {told.setpoints} is told, and it is {rows}")

    def _is_booked(self, told: Dosed) -> None:
        rows = self._witness._ask(SETTLED, told.actuator)
        volume_ml, at_s = rows[0] if rows else (None, 0.0)
        day_ml = self._witness._ask(IN_A_DAY, told.actuator, at_s - DAY_S)[0][0]
        self.met["dose held against the journal"] += 1
        if volume_ml != told.volume_ml or not volume_ml - NEAR_ML <= told.day_ml <= (day_ml or 0.0) + NEAR_ML:
            self._witness.fail(f"{told}, and the journal has {volume_ml} mL, {day_ml} mL in a day")

    def _stands(self, running: Running, event: TrialStep | TrialEnded | CampaignStarted) -> None:
        """Who asks how it stands hears what was just told."""
        if "status" not in running.verbs:
            return
        answer: Any = running.verbs["status"](Request("status", "somebody"))
        status, trial = Status.of(answer), event.trial if isinstance(event, TrialStep) else None
        under_way = None if status.trial is None else status.trial.trial
        self.met["status"] += 1
        if under_way != trial or status.alarms != self._alarms:
            self._witness.fail(f"trial {under_way}, {status.alarms} alarms, and {event} is told, {self._alarms} alarms")
        if not isinstance(event, TrialStep) or status.trial is None:
            return
        if status.trial.state != event.state or min(status.trial.left_s.values(), default=0.0) < -1.0:
            self._witness.fail(f"{status.trial} is said, and {event} is told")

    # after each life ------------------------------------------------------------------------------------------------

    def ended(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT id, trial, state, event FROM events ORDER BY id").fetchall()
        steps = [(trial, state) for number, trial, state, _ in rows if number > self._last_event and state in TOLD]
        last = dict(steps)
        # the life may have ended before it could say so, or the trial was broken off while the step was being written
        excused = {steps[-1], *((trial, last[trial]) for trial in self._over & set(last))} if steps else set()
        quiet = [step for step in steps if step not in self._steps | excused]
        if quiet:
            raise Violation(f"nobody was told of {quiet}")
        self._last_event = max((number for number, *_ in rows), default=0)
        self._steps.clear()
        self._over.clear()
        self._alarms = 0
        self._looked_at(connection)

    def _looked_at(self, connection: sqlite3.Connection) -> None:
        """Who looks on while nobody runs the campaign sees what has become of the instruments."""
        directory = Path(connection.execute("PRAGMA database_list").fetchone()[2]).parent
        with open_reader(directory) as reader:
            known = {entry["device"]: entry for entry in as_last_known(reader, self._rig)}
        for device, care in self._rig.care.items():
            entry = known.get(device, {})
            said_of(entry)
            rows = connection.execute(KEPT, (device, "tubing")).fetchall()
            if care.inventory is not None:
                full_ml, since_s = next(
                    ((ml, at_s) for kind, ml, at_s in reversed(rows) if kind == "refilled"), (None, 0.0)
                )
                used_ml, doses = connection.execute(SINCE, (device, since_s)).fetchone()
                left_ml = (care.inventory.volume_ml if full_ml is None else full_ml) - used_ml
                self._agrees(device, "left_ml", entry.get("left_ml"), left_ml)
                if doses and used_ml > 0:
                    good_for = max(0, int(left_ml / (used_ml / doses)))
                    self._agrees(device, "doses_left", entry.get("doses_left"), good_for)
                empty = any(said["kind"] == "empty" and said["holds"] for said in entry.get("objections", ()))
                if left_ml <= 0.0 and not empty and not entry.get("out_of_service"):
                    raise Violation(f"{device}: its bottle is empty, and {entry} is said")
            if care.tubing is not None:
                since_s = next((at_s for kind, _, at_s in reversed(rows) if kind == "replaced"), 0.0)
                used_ml, _ = connection.execute(SINCE, (device, since_s)).fetchone()
                self._agrees(device, "tubing_ml", entry.get("tubing_ml"), used_ml)
            out = next((kind == "out" for kind, _, _ in reversed(rows) if kind in ("out", "in")), False)
            if out != ("out_of_service" in entry):
                raise Violation(f"{device}: out of service {out}, and {entry} is said")
            if any(kind == "calibrated" for kind, _, _ in rows) and "calibrated_days_ago" not in entry:
                raise Violation(f"{device}: was calibrated, and {entry} is said")
        for device, points in connection.execute(CALIBRATED):
            self._agrees(device, "calibration_points", known.get(device, {}).get("calibration_points"), points)

    def _agrees(self, device: str, what: str, said: float | None, right: float | None) -> None:
        self.met["instrument looked at"] += 1
        if (said is None or right is None or abs(said - right) > NEAR_ML) and said is not right:
            raise Violation(f"{device}: {what} {said} is said, {right} is right")
