"""What only some rigs have, and what is promised of it: hours and tariffs, bottles, a watchdog, looks, a reference."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rigctl.campaign.events import CampaignEvent, CampaignStarted, TrialStep
from tests.simulation.books import Violation, control_set_of
from tests.simulation.controller import Running
from tests.simulation.trouble import Trouble
from tests.simulation.worlds import EVERY, OPEN_MIN, TIMED, VALVE_MIN

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

HEED_S: Final = 15.0
"""Wall seconds within which what is driven outside its hours is off, on buses without trouble."""
AWAY_S: Final = 5.0
"""What was out of service for so long when a trial began is not needed by it."""
BACK_S: Final = 20.0
"""Whoever puts an instrument back in service tries again after so long."""
BEGINS_S: Final = 30.0
"""A trial that may begin now has begun within this."""
DECIDES_S: Final = 120.0
"""From what was read to the first command, besides what it counts for."""
UP_S: Final = 15.0
"""A process that has been at work for so long feeds the watchdog."""
SETTLED_S: Final = 10.0
"""What was booked by so long before a decision was known to it."""

LOOKED: Final = """
SELECT a.trial, a.at_s - (SELECT max(at_s) FROM looks WHERE looks.trial = a.trial),
    (SELECT epoch FROM starts WHERE id = l.start) = (SELECT epoch FROM starts WHERE id = a.start)
FROM events a JOIN events l USING (trial) WHERE a.event = 'ARM' AND l.event = 'LOOK'"""
"""Armed trials: how old what was read was, and whether the computer ran all the time."""
USED: Final = """
SELECT coalesce(sum(coalesce(dispensed_ml, volume_ml)), 0) FROM doses WHERE actuator = ? AND at_s > ? AND at_s < ?"""
FILLED: Final = """
SELECT at_s, volume_ml FROM upkeep WHERE device = ? AND kind = 'refilled' AND at_s < ? ORDER BY id DESC"""
LINES: Final = "SELECT trial, quantity, amount_micros FROM ledger WHERE meter = ? AND NOT estimated AND quantity >= 0"
CHOSEN: Final = """
SELECT t.control_set, t.trial, (SELECT at_s FROM events e WHERE e.trial = t.trial AND event = 'PROPOSE')
FROM trials t WHERE EXISTS (SELECT 1 FROM events e WHERE e.trial = t.trial AND event = 'ARM')"""


class Besides:
    """Holds it, as far as this rig has it."""

    def __init__(self, witness: Witness, trouble: Trouble) -> None:
        self._witness = witness
        self._trouble = trouble
        self._rig = witness.spec.rig
        self._clocks = -1
        """How often the clock had been set when this life began its trials; -1 before."""
        self._since_s = 0.0
        self._drops, self._ran = 0, False
        self._bottles = {n: c.inventory.volume_ml for n, c in self._rig.care.items() if c.inventory is not None}
        self.met: Counter[str] = Counter()
        mischief = witness.mischief
        self._begun_s: dict[int, float] = {}
        """By trial: true time of its first step."""
        self.out_s: dict[str, float] = {}
        """By device that a person has taken out of service: when that was done, true time."""
        mischief._kinds = {**mischief._kinds, "tending": (4 if self._bottles else 1, self._tend)}

    def heard(self, event: CampaignEvent) -> None:
        if isinstance(event, CampaignStarted):
            self._clocks, self._since_s = self._witness.mischief.done["clock set"], self._witness.kernel.now_s
        elif isinstance(event, TrialStep) and event.state in ("LOOKING", "ARMED"):
            self._in_service(event)
        if isinstance(event, TrialStep) and event.state in ("LOOKING", "ARMED") and self._rig.allowed is not None:
            begun_s = (0.0, BEGINS_S) if self._trouble.quiet_all else (0.0, BEGINS_S, 2 * BEGINS_S, 4 * BEGINS_S)
            self.met["trial within hours"] += 1
            if self._knows_time and not any(_open(OPEN_MIN, self._civil_s - ago_s) for ago_s in begun_s):
                self._witness.fail(f"trial {event.trial}: {event.state} in minute {_minute(self._civil_s):.1f}")

    def _in_service(self, event: TrialStep) -> None:
        """No trial begins that needs what a person has taken out of service before."""
        begun_s = self._begun_s.setdefault(event.trial, self._witness.kernel.now_s)
        out = {device for device, at_s in self.out_s.items() if at_s < begun_s - AWAY_S}
        if event.state != "ARMED" or not out:
            return
        chosen = self._witness.promises.truths.decided("trial = ?", event.trial)
        needed = {a for v in self._rig.variables if v.name in chosen for a in (*v.actuators, *self._rig.pumps_of(v))}
        needed |= {step.actuator for step in self._rig.timing.prepare} | {o.sensor for o in self._rig.outcomes}
        self.met["trial beside what is out of service"] += 1
        if away := sorted(name for name in needed & out if name):
            self._witness.fail(f"trial {event.trial}: needs {', '.join(away)}, which is out of service")

    def glance(self, running: Running) -> None:
        if running.life.dead:
            self._clocks, self._ran = -1, False
            return
        self._within_hours()
        self._fed(running)

    def _within_hours(self) -> None:
        """Nothing is driven outside its hours for longer than the watch and the way to safety take.

        But for what another hand has switched on since it was made safe: between trials nobody asks after that.
        """
        if self._rig.allowed is None or not self._knows_time:
            return
        shut = not any(_open(OPEN_MIN, self._civil_s - ago_s) for ago_s in (0.0, HEED_S))
        name, apart = TIMED[self._rig.name], {*self._rig.pumps, *self._witness.mischief.touched}
        valve_shut = not any(_open(VALVE_MIN, self._civil_s - ago_s) for ago_s in (0.0, HEED_S))
        self.met["closed hours"] += shut
        for driven in self._witness.driven() if shut or valve_shut else ():
            if (shut or driven == name) and self._trouble.untouched(driven) and driven not in apart:
                self._witness.fail(f"{driven}: driven in minute {_minute(self._civil_s):.1f}, outside its hours")

    def _fed(self, running: Running) -> None:
        """While a trial runs and nothing is wrong the PLC's watchdog has no reason to let everything go."""
        drops = self._witness.plant.assembly.drops
        runs = bool(self._witness._ask("SELECT 1 FROM trials WHERE state = 'RUNNING'"))
        fresh, self._drops = len(drops) - self._drops, len(drops)
        self.met["watchdog dropped"] += fresh
        up = running.safe_first_s is not None and self._witness.kernel.now_s - running.safe_first_s > UP_S
        if fresh and runs and self._ran and up and self._trouble.quiet_all:
            self._witness.fail("the PLC has let everything go in mid-trial: nobody has fed its watchdog")
        self._ran = runs

    def ended(self, connection: sqlite3.Connection) -> None:
        self._clocks = -1
        self._check_looks(connection)
        self._check_bottles(connection)
        for meter in (m for m in self._rig.meters if m.tariff is not None):
            rates = [float(rate.price) for rate in meter.tariff.rates] if meter.tariff is not None else []
            for trial, quantity, amount in (lines := connection.execute(LINES, (meter.name,)).fetchall()):
                self.met["line by tariff"] = len(lines)
                if not min(rates) * quantity - 2e-6 <= amount / 1e6 <= max(rates) * quantity + 2e-6:
                    raise Violation(f"trial {trial}, {meter.name}: {amount} for {quantity}, at {rates}")

    def _check_looks(self, connection: sqlite3.Connection) -> None:
        """What was read counts for so long, and not at all once the computer was started anew."""
        look = self._rig.timing.look
        for trial, age_s, same_boot in (looked := connection.execute(LOOKED).fetchall()):
            self.met["armed after a look"] = len(looked)
            if look is not None and age_s is not None and (not same_boot or age_s > look.counts_for_s + DECIDES_S):
                raise Violation(f"trial {trial}: armed by what was read {age_s:.0f} s before, one boot {same_boot}")

    def _check_bottles(self, connection: sqlite3.Connection) -> None:
        """No trial is decided that needs a pump whose bottle is empty."""
        pumps = {v.name: a for v in self._rig.variables for a in v.actuators if a in self._bottles}
        for names, trial, at_s in connection.execute(CHOSEN).fetchall() if pumps else ():
            for pump in (pumps[name] for name in control_set_of((names,)) if name in pumps):
                filled_s, volume_ml = connection.execute(FILLED, (pump, at_s)).fetchone() or (0.0, None)
                full_ml = self._bottles[pump] if volume_ml is None else volume_ml
                (used_ml,) = connection.execute(USED, (pump, filled_s, at_s - SETTLED_S)).fetchone()
                if used_ml >= full_ml:
                    raise Violation(f"trial {trial}: needs {pump}, of whose {full_ml:g} mL {used_ml:g} mL are used")

    def check_reference(self, decided: Iterable[tuple[int, str, bool, str, frozenset[str]]]) -> None:
        """Every so many trials of a campaign play the reference, where that can be played: number, phase, ..."""
        given = self._witness.spec.problem.reference
        if given is None or given.control_set is None:
            return
        label, count = self._witness.spec.problem.space.control_sets[given.control_set].label, 0
        for trial, phase, own, played, barred in decided:
            due = trial % EVERY == 0 and own and label not in barred
            count += due
            if due != (phase == "reference") or (due and played != label):
                raise Violation(f"trial {trial}: {phase} of {played}, and every {EVERY}th is the reference of {label}")
        self.met["reference"] = count

    def _tend(self) -> None:
        """Somebody sees to the instruments, and says so."""
        mischief, draw = self._witness.mischief, self._witness.mischief.draw
        weights = (6, 2, 2, 1, 1) if self._bottles else (0, 4, 1, 1, 1)
        kind = draw.choices(("refilled", "out-of-service", "in-service", "replaced", "calibrated"), weights)[0]
        device = draw.choice(sorted(self._bottles if kind == "refilled" else self._rig.devices))
        given = {"refilled": {"volume_ml": draw.choice((None, 60.0))}, "replaced": {"part": "tubing"}}.get(kind, {})
        mischief._tell(kind, device=device)
        kernel = self._witness.kernel
        if kind == "in-service":
            self.back(device)
        elif kind == "out-of-service":
            mischief.ask(mischief.running, kind, lambda _: self.out_s.setdefault(device, kernel.now_s), device=device)
            kernel.after(10.0 ** draw.uniform(0.7, 2.3), lambda: self.back(device))
        else:
            mischief.ask(mischief.running, kind, device=device, **given)

    def back(self, device: str, again_s: float = BACK_S) -> None:
        """Put a device back in service, unless it is; where nobody was there to hear it, once somebody is."""
        mischief, heard = self._witness.mischief, self._witness.mischief.running.loop is not None
        if self.out_s.pop(device, None) is not None or not heard:
            self._witness.kernel.after(again_s, lambda: self.back(device, 2 * again_s))
        mischief.ask(mischief.running, "in-service", device=device)

    @property
    def _civil_s(self) -> float:
        computer = self._witness.kernel.computer
        return self._witness.kernel.now_s + computer.civil_at_zero_s

    @property
    def _knows_time(self) -> bool:
        """Tell whether nobody has set the clock since this life began its trials."""
        return self._clocks == self._witness.mischief.done["clock set"]


def _minute(civil_s: float) -> float:
    return civil_s / 60.0 % 60.0


def _open(minutes: Iterable[tuple[int, int]], civil_s: float) -> bool:
    """Tell whether one of these stretches of every hour holds; zones differ by whole hours."""
    now = _minute(civil_s)
    return any(begins <= at < ends for begins, ends in minutes for at in (now, now + 60.0))
