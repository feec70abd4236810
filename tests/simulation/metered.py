"""What was used, held against what the plant itself has counted: energy, volumes, time, and what each dose gave."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from rigctl.campaign.events import CampaignEvent, TrialEnded, TrialStep
from rigctl.rig.protocols import Reading
from rigctl.rig.rig import Rig
from rigctl.rig.values import Alarm
from sim_rig.plants.lathe import LOAD_S
from sim_rig.plants.pump import Dispense
from tests.simulation.books import Violation, counted
from tests.simulation.controller import Running
from tests.simulation.trouble import Trouble

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

SPARED: Final = 0.5
"""How many seeds spare the meters, so that what they say must come out to the last digit."""
METERS: Final = ("energy_reset", "jump_kwh", "energy_unit")
ENERGY_NEAR_KWH: Final = 0.004
"""What a reading that takes a moment may miss, and a counter's last digit."""
PART: Final = 0.01
TIME_NEAR_S: Final = 4.0
SHARE: Final = 0.03
"""A pump gives so much more or less than it counts, and"""
LEAST_ML: Final = 0.12
"""two decimals, as often as it was asked; a dose counts as complete within its slack."""
SLACK: Final = 0.05
CLEAN_S: Final = 5.0
"""So long after the last trouble with a pump no more is booked than it has counted, either."""
FAR: Final = 21.0
"""No trial is charged for so many times what it has used: power says what a counter cannot have counted."""
DEAR_SHARE: Final = 0.1
"""Of what a trial may cost: so much may come between two looks at its meters."""
NEVER_S: Final = -1e9


class Metered:
    """Keeps the plant's own counts beside what is read of them."""

    def __init__(self, witness: Witness, trouble: Trouble, seed: int) -> None:
        self._witness = witness
        self._kernel = witness.kernel
        self._trouble = trouble
        self._rig = witness.spec.rig
        self.spoilt = False
        """Whether a meter's count was ever changed, or what it says forged."""
        cut = self._rig.name == "lathe" and self._rig.timing.settle_s < LOAD_S
        self.in_bursts = frozenset({"tool", "coolant"}) if cut else frozenset[str]()
        """Meters that rise in some trials only: where one is shorter than loading a workpiece, most cut nothing."""
        self._true_kwh: dict[float, tuple[float, float]] = {}
        """By what was read of the counter: what had been used when it was asked, and when all meters had been."""
        self._began: dict[int, tuple[float, float, int]] = {}
        """By trial: true time, energy and boot at its first step."""
        self._measured_s: dict[int, float] = {}
        self._slept_s = NEVER_S
        self.met: Counter[str] = Counter()
        self._energy = next((m for m in self._rig.meters if m.kind == "energy"), None)
        self._time = next((m for m in self._rig.meters if m.kind == "time"), None)
        self._dearest = self._price_per_kwh()
        self._alive = ""
        self._too_dear: set[int] = set()
        """Trials that were broken off for their cost."""
        mischief = witness.mischief
        if random.Random(f"{seed} spared").random() < SPARED:
            mischief._kinds = {name: kind for name, kind in mischief._kinds.items() if name not in ("meter", "words")}
        mischief.listeners.append(self._spoils)

    def _spoils(self, what: str, more: Mapping[str, object]) -> None:
        self.spoilt = self.spoilt or what in METERS or (more.get("bus") == "mains" and what != "drop_reply")
        if what == "suspended":
            self._slept_s = self._kernel.now_s + float(str(more["seconds"]))

    def _price_per_kwh(self) -> float:
        meter = self._energy
        if meter is None:
            return 0.0
        return max(
            [float(meter.mean_price), *(float(rate.price) for rate in (meter.tariff.rates if meter.tariff else ()))]
        )

    @contextmanager
    def installed(self) -> Iterator[None]:
        really = Rig.meters

        async def meters(rig: Rig) -> Mapping[str, Reading]:
            before = self._used_kwh()
            found = await really(rig)
            name = "" if self._energy is None else self._energy.name
            if name in found and found[name].valid:
                self._true_kwh[found[name].value] = before, self._used_kwh()
            return found

        with patch.object(Rig, "meters", meters):
            yield

    def _used_kwh(self) -> float:
        self._witness.plant.assembly.sync()
        return float(self._witness.plant.assembly.plant.energy.total_kwh)

    # trials ---------------------------------------------------------------------------------------------------------

    def heard(self, running: Running, event: CampaignEvent) -> None:
        """Follow what it tells: what a trial is charged for is what it has used."""
        if isinstance(event, Alarm) and event.kind == "too dear":
            self._too_dear |= self._began.keys() and {max(self._began)}
        elif isinstance(event, TrialStep):
            if event.state in ("LOOKING", "ARMED") and event.trial not in self._began:
                self._began[event.trial] = self._kernel.now_s, self._used_kwh(), self._kernel.computer.boot
                self._alive = running.life.name
            elif event.state == "MEASURED":
                self._measured_s[event.trial] = self._kernel.now_s
        elif isinstance(event, TrialEnded) and event.row.trial in self._began and self._alive == running.life.name:
            self._charged(event.row.trial, event.row.state)

    def _charged(self, trial: int, state: str) -> None:
        began_s, began_kwh, boot = self._began[trial]
        lines = self._witness._ask(
            "SELECT meter, quantity, amount_micros, estimated FROM ledger WHERE trial = ?", trial
        )
        used_kwh = self._used_kwh() - began_kwh
        for meter, quantity, amount, estimated in lines:
            if self._energy is not None and meter == self._energy.name and self._kernel.computer.boot == boot:
                self.met["energy of a trial"] += 1
                if amount / 1e6 > self._dearest * (FAR * used_kwh + 0.2):
                    self._witness.fail(f"trial {trial}: {amount / 1e6} charged, and it has used {used_kwh:.4f} kWh")
            disturbed_s = max(self._slept_s, self._witness.mischief.disk_until_s)  # a step is told once it is on disk
            if self._time is not None and meter == self._time.name and disturbed_s < began_s and not estimated:
                until_s = self._measured_s.get(trial, self._kernel.now_s)
                took_s, said_s = until_s - began_s, 3600.0 * (quantity or 0.0)
                near = TIME_NEAR_S + PART * took_s
                self.met["time of a trial"] += 1
                if said_s > took_s + near or (state in ("RECORDED", "AWAITING") and said_s < took_s - near):
                    self._witness.fail(f"trial {trial}: {said_s:.1f} s are charged, and it took {took_s:.1f} s")
        self._is_affordable(trial, state, sum(amount for _, _, amount, _ in lines) / 1e6)
        if not self.spoilt and self._energy is not None:
            with self._witness._open() as connection:
                if (wrong := self._against_plant(connection)) != "":
                    self._witness.fail(f"after trial {trial}: {wrong}")

    def _is_affordable(self, trial: int, state: str, cost: float) -> None:
        """What costs more than a trial may is broken off, and nothing else is for its cost."""
        most = self._witness.spec.problem.cost_ceiling
        if most is None or self.spoilt or not self._trouble.quiet_all:
            return
        self.met["trial that may not cost much"] += 1
        if state in ("RECORDED", "AWAITING") and cost > most + DEAR_SHARE * most:
            self._witness.fail(f"trial {trial}: {cost:.4f} is charged, {most:g} is the most, and it went to its end")
        if trial in self._too_dear:
            self.met["trial that was too dear"] += 1
            if cost < most - DEAR_SHARE * most:
                self._witness.fail(
                    f"trial {trial}: broken off for its cost, {cost:.4f} is charged and {most:g} allowed"
                )

    def _against_plant(self, connection: sqlite3.Connection) -> str:
        """Say so if ledger and idle lines are not what the plant has used between the first reading and the last."""
        meter = "" if self._energy is None else self._energy.name
        rows = connection.execute(
            "SELECT value FROM meter_readings WHERE meter = ? AND value IS NOT NULL ORDER BY at_s, phase DESC", (meter,)
        ).fetchall()
        booked = [
            *connection.execute("SELECT quantity, estimated FROM ledger WHERE meter = ?", (meter,)),
            *connection.execute("SELECT quantity, quantity IS NULL FROM idle WHERE meter = ?", (meter,)),
        ]
        if len(rows) < 2 or any(quantity is None or estimated for quantity, estimated in booked):
            return ""
        (first,), (last,) = rows[0], rows[-1]
        if first not in self._true_kwh or last not in self._true_kwh:
            return ""
        (soonest, latest), (first_soonest, first_latest) = self._true_kwh[last], self._true_kwh[first]
        least, most = soonest - first_latest, latest - first_soonest  # other meters may be silent meanwhile
        said = sum(quantity for quantity, _ in booked)
        self.met["energy of the plant"] += 1
        near = ENERGY_NEAR_KWH + 0.0005 * len(booked) + PART * most
        if least - near <= said <= most + near:
            return ""
        return f"{said:.4f} kWh are booked, {least:.4f} to {most:.4f} kWh were used"

    # doses ----------------------------------------------------------------------------------------------------------

    def booked(
        self,
        pump: str,
        dispenses: Mapping[int, Dispense],
        connection: sqlite3.Connection,
        left_running: Callable[[Dispense], bool],
    ) -> None:
        """Hold what each dose has given against what is booked of it: that, or more; no more if nothing was wrong.

        Args:
            pump: its name.
            dispenses: by the dose's number in the journal: what came of it, by the pump's own witness.
            connection: to the journal.
            left_running: tells whether a life that died has left one running, which nobody could stop.
        """
        rows = connection.execute(
            "SELECT id, volume_ml, dispensed_ml, state = 'DONE' FROM doses WHERE actuator = ?", (pump,)
        ).fetchall()
        clean_s = max(self._trouble.last_s(pump), self._witness.mischief.hand_at_s) + CLEAN_S
        left = sum(at_s > clean_s for at_s, _ in self._witness.sent.get(pump, ()))
        clean = set(sorted(dispenses)[-left:] if left else ())
        for number, volume_ml, dispensed_ml, known in rows:
            if (dispense := dispenses.get(number)) is None:
                continue
            told_ml = volume_ml if dispensed_ml is None else dispensed_ml
            given_ml = dispense.delivered_ml if known else counted(dispense, left=left_running(dispense))
            self.met["dose held against the pump"] += 1
            if known and number in clean and told_ml > dispense.dispensed_ml * (1.0 + SLACK) + LEAST_ML:
                raise Violation(f"{pump}: dose {number}: {told_ml:g} mL booked, by its count {dispense.dispensed_ml:g}")
            if told_ml < given_ml * (1.0 - SHARE - SLACK) - LEAST_ML:
                raise Violation(
                    f"{pump}: dose {number} of {volume_ml:g} mL has given {given_ml:.2f} mL, {told_ml:g} mL are booked"
                )
