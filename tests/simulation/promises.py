"""Further promises that must hold throughout; each was written because a planted bug was not found without it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rigctl.campaign import safe_file
from rigctl.campaign.events import AlarmRaised, CampaignEvent
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.doses import DoseBook
from rigctl.campaign.lock import state_lock
from rigctl.errors import RigctlError
from rigctl.rig.rig import Rig
from rigctl.rig.values import Measurement, SafeReport
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.rigs.assembly import PLC
from tests.simulation import controller as controlling
from tests.simulation.books import Violation
from tests.simulation.controller import Running

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

DAY_S = 86400.0
QUIET_S = 60.0
"""True seconds after the last trouble on a bus before anything is demanded of it."""
HEED_S = 15.0
"""Wall seconds within which what the watch demands has made everything safe, on buses without trouble."""
PAUSED_S = 30.0
"""What has begun by the time of a pause may still be armed within this."""
LOST_PROBE_S = 90.0
"""A probe that has said nothing for so long: no dose can still go by its last word."""
DEMANDS = ("(hold)", "(fail)", "(safe)", "(trip)")


class Promises:
    """Holds them, beside the witness whose eyes it uses."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._kernel = witness.kernel
        self._plant = witness.plant
        self._rig = witness.spec.rig
        self._state = witness.controller.state
        self._troubled_s: dict[str, float] = {}
        """By bus: when something was last wrong with it, true time."""
        self._upset_s = -1e9
        """When the computer itself was last upset: asleep, or its disk in trouble."""
        self._silent_since_s: dict[str, float] = {}
        self._demand: tuple[float, int, str] | None = None
        self._seen: set[str] = set()
        """What was driven when the window of the last trial was over."""
        links = {wire.link: wire.bus for wire in self._plant.assembly.serial}
        self._bus_of = {
            name: links.get(device.url.rpartition("/")[2].partition("?")[0], PLC)
            for name, device in self._rig.devices.items()
        }
        self._overhear(witness)

    def _overhear(self, witness: Witness) -> None:
        told, heard = witness.mischief._tell, witness.controller.heard

        def tell(what: str, **more: object) -> None:
            if what in ("suspended", "disk full", "disk slow", "disk error"):
                self._upset_s = self._kernel.now_s + (
                    float(str(more.get("seconds", 0.0))) if what == "suspended" else 0.0
                )
            elif what in ("network down", "half_open", "word_swap", "reset"):
                self._troubled_s[PLC] = self._kernel.now_s
            elif "bus" in more:
                self._troubled_s[str(more["bus"])] = self._kernel.now_s
            told(what, **more)

        def hear(running: Running, event: CampaignEvent) -> None:
            heard(running, event)
            if isinstance(event, AlarmRaised):
                self._demanded(event.alarm.message)

        witness.mischief._tell = tell  # type: ignore[method-assign]
        witness.mischief._kinds = {**witness.mischief._kinds, "second start": (1, self._second_start)}
        witness.controller.heard = hear

    # what is known of trouble ---------------------------------------------------------------------------------------

    def glance(self, running: Running) -> None:
        """Look in passing, every second or so."""
        now_s = self._kernel.now_s
        for bus, cable in self._plant.cables.items():
            faults = self._plant.assembly.wire_faults.get(bus)
            if not cable.plugged or getattr(cable, "deaf", False) or (faults is not None and faults.pending):
                self._troubled_s[bus] = now_s
        if self._witness.mischief.disk_until_s > now_s:
            self._upset_s = now_s
        for name, tap in self._plant.assembly.sensors.items():
            if tap.mode == "nan" or not self._plant.cables[self._bus_of[name]].plugged:
                self._silent_since_s.setdefault(name, now_s)
            else:
                self._silent_since_s.pop(name, None)
        self._heeds(running)

    def _quiet(self, actuator: str) -> bool:
        since_s = self._troubled_s.get(self._bus_of[actuator], -1e9)
        return self._kernel.now_s - max(since_s, self._upset_s, self._witness.mischief.hand_at_s) > QUIET_S

    def _driven_in_quiet(self) -> list[str]:
        return [name for name in self._witness.driven() if self._quiet(name)]

    # what leaves for the rig ----------------------------------------------------------------------------------------

    def moves(self, what: str) -> None:
        """Before anything moves, safe.json says so."""
        if not self._said_driven():
            self._witness.fail(f"{what}: driven, and safe.json does not say so")

    def doses(self, pump: str) -> None:
        """No dose goes by a probe that has been silent for long."""
        self.moves(pump)
        spec = self._rig.dosing.get(pump)
        since_s = None if spec is None else self._silent_since_s.get(spec.sensor)
        if spec is not None and since_s is not None and self._kernel.now_s - since_s > LOST_PROBE_S:
            self._witness.fail(f"{pump}: doses by {spec.sensor}, which has said nothing since {since_s:.1f} s")

    def _said_driven(self) -> bool:
        try:
            said = safe_file.read(self._state)
        except RigctlError:
            return False
        return said is not None and said.driven

    # the watch ------------------------------------------------------------------------------------------------------

    def _demanded(self, message: str) -> None:
        under_way = self._witness._ask("SELECT trial FROM trials WHERE state IN ('ARMED', 'RUNNING')")
        if message.endswith(DEMANDS) and under_way and self._demand is None:
            self._demand = self._kernel.now_s, under_way[0][0], message

    def _heeds(self, running: Running) -> None:
        """What the watch demands in mid-trial breaks it off."""
        if self._demand is None:
            return
        at_s, trial, message = self._demand
        state = self._witness._ask("SELECT state FROM trials WHERE trial = ?", trial)
        if running.life.dead or state not in ([("ARMED",)], [("RUNNING",)]):
            self._demand = None
            return
        driven = [n for n in self._witness.driven() if self._bus_quiet(n)]
        if driven and self._kernel.now_s - max(at_s, self._upset_s) > HEED_S:
            self._witness.fail(f"{', '.join(driven)}: driven {HEED_S:g} s after the watch has said: {message}")

    def _bus_quiet(self, actuator: str) -> bool:
        return self._kernel.now_s - self._troubled_s.get(self._bus_of[actuator], -1e9) > QUIET_S

    # what the program does, seen from the plant ---------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Look over the shoulder of rig, journal and whoever begins."""
        with ExitStack() as stack:
            for where, name, around in (
                (DoseBook, "volume_since_ml", self._counted),
                (Journal, "run", self._begun),
                (Journal, "measure", self._measured),
                (Rig, "measure", self._window),
                (Rig, "safe", self._all_told),
                (controlling, "safe_first", self._safe_first),
            ):
                stack.enter_context(patch.object(where, name, around(getattr(where, name))))
            yield

    def _counted(self, really: Callable[..., float]) -> Callable[..., float]:
        """The caps count at least what really came of our doses within 24 hours."""

        def volume_since_ml(book: DoseBook, actuator: str, since_s: float) -> float:
            told_ml = really(book, actuator, since_s)
            given_ml = self._given_ml(actuator)
            if since_s <= book._time.clock.now_s() - DAY_S + 1.0 and told_ml < 0.97 * given_ml - 0.2:
                self._witness.fail(f"{actuator}: {told_ml:.2f} mL count in 24 h, and it has given {given_ml:.2f} mL")
            return told_ml

        return volume_since_ml

    def _given_ml(self, pump: str) -> float:
        for bus, circuit in self._plant.assembly.circuits.items():
            if isinstance(circuit, PumpCircuit) and self._witness._pump_of[bus] == pump:
                start_s = self._kernel.now_s - circuit.pump.now_s
                ours = (e for e in circuit.pump.log if e.number in self._witness._ours[pump])
                return sum(e.delivered_ml for e in ours if start_s + e.started_s > self._kernel.now_s - DAY_S + 60.0)
        return 0.0

    def _wrong(self, chosen: tuple[str, ...]) -> set[str]:
        """Return what is not as a trial of this control set has it, pumps left out."""
        rig = self._rig
        mine = {a for v in rig.variables if v.name in chosen for a in v.actuators}
        mine |= {rig.dosing[pump].treatment or "" for pump in rig.dosing if pump in mine}
        return {n for n in rig.limits if n not in rig.pumps and self._witness.is_safe(n) == (n in mine)}

    def _begun(self, really: Callable[..., None]) -> Callable[..., None]:
        """A trial is RUNNING only if what was chosen is on, and nothing else."""

        def run(journal: Journal, trial: int, *more: Any) -> None:
            wrong = sorted(n for n in self._wrong(journal.read.trial(trial).control_set) if self._quiet(n))
            if wrong:
                self._witness.fail(f"trial {trial} is RUNNING, and {', '.join(wrong)} is not as it was chosen")
            really(journal, trial, *more)

        return run

    def _window(self, really: Callable[..., Any]) -> Callable[..., Any]:
        async def measure(rig: Rig) -> Mapping[str, Measurement]:
            found: Mapping[str, Measurement] = await really(rig)
            self._seen = {n for n in self._rig.limits if not self._witness.is_safe(n)}
            return found

        return measure

    def _measured(self, really: Callable[..., None]) -> Callable[..., None]:
        """A trial is MEASURED only if what was chosen, and nothing else, was on when its window was over."""

        def measure(journal: Journal, trial: int, *more: Any) -> None:
            now = {n for n in self._rig.limits if not self._witness.is_safe(n)}
            lasting = {n for n in self._wrong(journal.read.trial(trial).control_set) if (n in now) == (n in self._seen)}
            lasting = {n for n in lasting if self._bus_quiet(n)}
            if lasting:
                self._witness.fail(f"trial {trial} is MEASURED, and {', '.join(sorted(lasting))} was not as chosen")
            really(journal, trial, *more)

        return measure

    def _all_told(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """Whatever is wrong elsewhere, what can be reached is safe."""

        async def safe(rig: Rig) -> SafeReport:
            report: SafeReport = await really(rig)
            left = [name for name in self._driven_in_quiet() if name in report.failed]
            if left:
                self._witness.fail(f"not made safe, though nothing was wrong there: {', '.join(left)}")
            return report

        return safe

    def _safe_first(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """What a process that died has left driven is safe before anything else is done."""

        def safe_first(config: Path, state: Path) -> object:
            was_driven = self._said_driven()
            report = really(config, state)
            if was_driven and (left := self._driven_in_quiet()):
                self._witness.fail(f"a new start has not made safe first: {', '.join(left)}")
            return report

        return safe_first

    def _second_start(self) -> None:
        """Let somebody start it a second time."""
        witness = self._witness
        witness.mischief._tell("second start")

        def start() -> str:
            with state_lock(self._state):
                witness.fail("a second process has the same state directory")
            return "in"

        witness.controller.alone("second start", start)

    # after each life ------------------------------------------------------------------------------------------------

    def ended(self, running: Running, connection: sqlite3.Connection) -> None:
        """Hold what a life has left against what was promised; raises `Violation`."""
        self._demand = None
        driven = self._driven_in_quiet()
        if driven and not self._said_driven():
            raise Violation(f"{', '.join(driven)} is driven, and safe.json does not say so")
        _check_times(connection)
        _check_pauses(connection)
        _check_holds(connection, self._rig.watch.clear_for_s)
        _check_prices(connection, {m.name: m.price for m in self._rig.meters})
        latched = connection.execute("SELECT 1 FROM trips WHERE reset_utc IS NULL").fetchone()
        if running.ending.startswith("Tripped") and not latched:
            raise Violation(f"it ended ({running.ending}), and the trip is not latched")


def _check_times(connection: sqlite3.Connection) -> None:
    """Campaign time never goes back, whatever boots lie between."""
    for table in ("starts", "events", "doses"):
        times = connection.execute(f"SELECT id, at_s FROM {table} ORDER BY id").fetchall()  # noqa: S608 - our own names
        for (_, before_s), (number, at_s) in pairwise(times):
            if at_s < before_s - 1e-3:
                raise Violation(f"{table} {number}: at {at_s:.3f} s, after one at {before_s:.3f} s")


def _check_pauses(connection: sqlite3.Connection) -> None:
    """No trial begins while the campaign is paused, whoever has started it since."""
    acts = connection.execute("SELECT at_s, verb FROM acts WHERE verb IN ('pause', 'resume') ORDER BY id").fetchall()
    for trial, armed_s in connection.execute("SELECT trial, at_s FROM events WHERE event = 'ARM' ORDER BY id"):
        before = [(at_s, verb) for at_s, verb in acts if at_s < armed_s]
        if before and before[-1][1] == "pause" and armed_s - before[-1][0] > PAUSED_S:
            raise Violation(f"trial {trial} is armed {armed_s - before[-1][0]:.0f} s after a pause")


def _check_holds(connection: sqlite3.Connection, clear_for_s: float) -> None:
    """What the campaign has held for has been gone for a while before it goes on."""
    rows = connection.execute("SELECT start, phase, why, at_s FROM phases ORDER BY id").fetchall()
    for (start, phase, why, since_s), (after, _, said, at_s) in pairwise(rows):
        over = said == "what it held for is over" and (start, phase) == (after, "HOLDING")
        if over and at_s - since_s < 0.5 * clear_for_s:
            raise Violation(f"it goes on {at_s - since_s:.1f} s after it began to hold for {why}")


def _check_prices(connection: sqlite3.Connection, prices: Mapping[str, Decimal]) -> None:
    """An amount is its quantity times the price, to the last micro-unit."""
    sql = "SELECT trial, meter, quantity, amount_micros FROM ledger WHERE quantity IS NOT NULL AND NOT estimated"
    for trial, meter, quantity, amount in connection.execute(sql):
        exact = Decimal(repr(quantity))
        if meter not in prices or len(exact.as_tuple().digits) > 15:  # rounded when it was written
            continue
        right = (exact * prices[meter] * 1_000_000).to_integral_value(rounding=ROUND_HALF_EVEN)
        if amount != right:
            raise Violation(f"trial {trial}, {meter}: {amount} charged for {quantity}, {right} would be right")
