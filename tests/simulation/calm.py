"""A rig with which nothing is wrong gives no alarm of a fault, no failed trial, and no cost by estimate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rigctl.campaign.events import CampaignEvent, CampaignStarted, TrialEnded, TrialStep
from rigctl.rig.values import Alarm
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import PumpFaults
from sim_rig.plants.tank import REFILL_S, TREAT_S
from tests.simulation.controller import Running
from tests.simulation.metered import Metered

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

QUIET_S: Final = 60.0
"""True seconds after the last trouble, hand or request before nothing may go wrong any more."""
FAULTS: Final = (
    "line", "watch blind", "unasked run", "unasked volume", "not booked", "total jumped", "restarted", "read-back",
    "command unknown", "meter doubted", "unconfirmed", "dose denied", "measurement", "power not sampled",
    "left unsafe", "not looked at", "calibration unread", "not estimated", "stale sensor", "frozen sensor", "bus",
    "step", "pump", "files", "journal", "watch very late", "cost not watched", "ratio lost",
)  # fmt: skip
"""Kinds of alarms that only something broken gives."""
MAY_FAIL: Final = frozenset({"interlocks", "caps", "calendar", "heartbeat", "titres"})
"""What a rig may have by which a trial fails though nothing is broken."""


class Calm:
    """Follows what is told while nothing is wrong."""

    def __init__(self, witness: Witness, metered: Metered) -> None:
        self._witness, self._metered = witness, metered
        self._kernel = witness.kernel
        self._last_s = -QUIET_S
        """When something was last done to the rig, the computer or the campaign."""
        self._started_s = 0.0
        self._began: dict[int, float] = {}
        self._beyond_s = -QUIET_S
        """When a setpoint was last missed though nothing was wrong: a treatment of seconds may leave it beyond, where
        no dose brings it back; and what is waited for seconds only goes on in the tank against all doses."""
        self.met: Counter[str] = Counter()
        witness.mischief.listeners.append(self._noted)

    def _noted(self, _what: str, _more: Mapping[str, object]) -> None:
        self._last_s = self._kernel.now_s

    def heard(self, running: Running, event: CampaignEvent) -> None:
        if isinstance(event, CampaignStarted):
            self._started_s = self._kernel.now_s
            self._began.clear()
        elif isinstance(event, TrialStep) and event.state in ("LOOKING", "ARMED"):
            self._began.setdefault(event.trial, self._kernel.now_s)
        elif isinstance(event, TrialEnded) and event.row.trial in self._began:
            if self._calm_since(self._began[event.row.trial]):
                self._ended(event)
        elif isinstance(event, Alarm) and event.kind == "setpoint missed":
            if self._unsettled() or not self._witness.promises.course.dosed:
                self._beyond_s = self._kernel.now_s
        elif isinstance(event, Alarm) and event.kind in FAULTS and event.state != "over":
            self._alarmed(event)

    def _alarmed(self, alarm: Alarm) -> None:
        if self._calm_since(self._started_s) and self._kernel.now_s > self._started_s + QUIET_S:
            self._witness.fail(f"{alarm.source}: {alarm.kind} is told, and nothing is wrong: {alarm.message}")

    def _ended(self, event: TrialEnded) -> None:
        number, state = event.row.trial, event.row.state
        self.met["trial with nothing wrong"] += 1
        beyond = self._beyond_s >= self._began[number]
        if state == "FAILED" and not self._witness.extras & MAY_FAIL and not beyond:
            self._witness.fail(f"trial {number} is FAILED, and nothing is wrong: {event.row.because}")
        if state not in ("RECORDED", "AWAITING") or self._metered.spoilt:
            return
        guessed = self._witness._ask("SELECT meter, note FROM ledger WHERE trial = ? AND estimated", number)
        if any(meter not in self._metered.in_bursts for meter, _ in guessed):
            self._witness.fail(f"trial {number} is charged by estimate, and nothing is wrong: {guessed}")

    def _unsettled(self) -> bool:
        """Tell whether the last trial is so young that what comes in, or is treated, may move the tank by itself."""
        return self._kernel.now_s < max(self._began.values(), default=-math.inf) + REFILL_S + TREAT_S

    def _calm_since(self, began_s: float) -> bool:
        """Tell whether nothing was wrong since so long before this instant, true time."""
        mischief, rig = self._witness.mischief, self._witness.plant.assembly
        last_s = max(self._last_s, mischief.dirty_until_s, mischief.disk_until_s, mischief.hand_at_s)
        circuits = [circuit for circuit in rig.circuits.values() if isinstance(circuit, PumpCircuit)]
        return (
            last_s < began_s - QUIET_S
            and all(tap.mode == "ok" for tap in rig.sensors.values())
            and all(circuit.pump.faults == PumpFaults() for circuit in circuits)
        )
