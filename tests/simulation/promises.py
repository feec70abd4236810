"""Further promises that must hold throughout: what is said in files, what the watch demands, pauses, times, prices."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from rigctl.campaign import safe_file
from rigctl.campaign.events import CampaignEvent, CampaignStarted, TrialStep
from rigctl.campaign.lock import state_lock
from rigctl.campaign.safe_file import SafeFile
from rigctl.errors import RigctlError
from rigctl.rig.values import Alarm
from tests.simulation.audit import Audit
from tests.simulation.batches import Batches
from tests.simulation.besides import Besides
from tests.simulation.books import Violation
from tests.simulation.calm import Calm
from tests.simulation.controller import Running
from tests.simulation.course import Course
from tests.simulation.exchanges import Exchanges
from tests.simulation.late import Late
from tests.simulation.metered import Metered
from tests.simulation.mistakes import Mistakes
from tests.simulation.overrun import Overrun
from tests.simulation.plant import places
from tests.simulation.shoulder import Shoulder
from tests.simulation.told import Told
from tests.simulation.trouble import Trouble
from tests.simulation.truths import Truths

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

HEED_S = 15.0
"""Wall seconds within which what the watch demands has made everything safe, on buses without trouble."""
PAUSED_S = 30.0
"""What has begun by the time of a pause may still be armed within this."""
LOST_PROBE_S = 10.0
"""A probe that has said nothing for so long: no dose can still go by its last word,"""
LATE_DOSE_S = 30.0
"""nor, with trouble at the pump itself, after so long."""
BEGUN = """
SELECT a.trial, coalesce(l.at_s, a.at_s) FROM events a
LEFT JOIN events l ON l.trial = a.trial AND l.event = 'LOOK' AND l.start = a.start
WHERE a.event = 'ARM' ORDER BY a.id"""
"""When trials began to move; one that looks goes on to its end, whoever pauses, but not in another process."""
DEMANDS = ("hold", "fail", "safe", "trip")


class Promises:
    """Holds them, beside the witness whose eyes it uses."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._kernel = witness.kernel
        self._rig = witness.spec.rig
        self._state = witness.controller.state
        self._trouble = Trouble(witness)
        self.exchanges = Exchanges(witness, self._trouble)
        self._shoulder = Shoulder(witness, self._trouble, self._said_driven)
        self.late = Late(witness, witness.mischief.draw)
        self.batches = Batches(witness, witness.controller.loaded)
        self.besides = Besides(witness, self._trouble)
        self.truths = Truths(witness, self._trouble)
        self.metered = Metered(witness, self._trouble, witness.seed)
        self.calm = Calm(witness, self.metered)
        self.audit = Audit(self._rig)
        self.told = Told(witness)
        self.course = Course(witness, self._trouble)
        self.overrun = Overrun(witness, self._trouble)
        self._mistakes = Mistakes(witness)
        self.parts = (
            self.besides,
            self.truths,
            self.metered,
            self.calm,
            self.audit,
            self.told,
            self.course,
            self.overrun,
        )
        self._demand: tuple[float, int, str] | None = None
        mischief, heard = witness.mischief, witness.controller.heard
        mischief._kinds = {**mischief._kinds, "second start": (1, self._second_start)}

        def hear(running: Running, event: CampaignEvent) -> None:
            heard(running, event)
            self.calm.heard(running, event)
            self.told.heard(running, event)
            self.course.heard(event)
            if isinstance(event, CampaignStarted):
                self.truths.way.begins()
                self.overrun.begins()
            if isinstance(event, TrialStep) and event.state == "ARMED":
                self.truths.dosed.begins(event.trial)
            if isinstance(event, Alarm):
                self._demanded(event)
                self.truths.dosed.alarmed(event)
                self.truths.alarmed(event)

        witness.controller.heard = hear

    @contextmanager
    def installed(self) -> Iterator[None]:
        parts = self._shoulder, self.exchanges, self.truths, self.metered, self._mistakes
        with ExitStack() as stack:
            for part in parts:
                stack.enter_context(part.installed())
            yield

    def glance(self, running: Running) -> None:
        self._trouble.glance()
        self._heeds(running)
        self.late.glance(running)
        self.besides.glance(running)
        self.truths.glance(running)
        self.overrun.glance(running)

    # what leaves for the rig ----------------------------------------------------------------------------------------

    def moves(self, what: str) -> None:
        """Before anything moves, safe.json says so and how all of it is stopped, and nobody has to look at a trip."""
        self.truths.moves(what)
        said = self._said()
        if said is None or not said.driven:
            self._witness.fail(f"{what}: driven, and safe.json does not say so")
        elif wrong := self._left_out(said):
            self._witness.fail(f"{what}: driven, and safe.json would not stop {', '.join(wrong)}")

    def doses(self, pump: str, volume_ml: float) -> None:
        """No dose goes by a probe that has been silent for long, or by a reading from before the last dose."""
        self.moves(pump)
        self.truths.dosed.doses(pump, volume_ml)
        self.course.doses(pump)
        spec = self._rig.dosing.get(pump)
        if spec is not None:
            self.exchanges.doses(pump, spec.sensor)
        bound_s = LOST_PROBE_S if self._trouble.quiet(pump) else LATE_DOSE_S
        if spec is not None and (silent_s := self._trouble.silent_s(spec.sensor)) > bound_s:
            self._witness.fail(f"{pump}: doses by {spec.sensor}, which has said nothing for {silent_s:.0f} s")

    def _left_out(self, word: SafeFile) -> list[str]:
        """Return what there is to stop at the plant, and would not be by this word alone."""
        circuits, said = self._witness.plant.assembly.circuits, {device.name: device for device in word.devices}
        pumps = {name for name in self._rig.limits if self._trouble.bus_of(name) in circuits}
        coils = {name: at for (table, at), name in places(self._rig).items() if table == "coil"}

        def stops(name: str) -> bool:
            device, spec = said.get(name), self._rig.devices[name]
            return (
                device is not None
                and word.speedup == self._rig.speedup
                and (device.driver, device.url, device.timeout_s) == (spec.driver, spec.url, spec.timeout_s)
                and (device.kind == "doser", device.safe_state) == (name in pumps, self._rig.limits[name].safe_state)
                and (device.options.get("enable") or {}).get("coil") == coils.get(name)
                and (device.seen is not None or name not in pumps)
            )

        return [name for name in self._rig.limits if not stops(name)]

    def _said_driven(self) -> bool:
        said = self._said()
        return said is not None and said.driven

    def _said(self) -> SafeFile | None:
        try:
            return safe_file.read(self._state)
        except RigctlError:
            return None

    # the watch ------------------------------------------------------------------------------------------------------

    def _demanded(self, alarm: Alarm) -> None:
        under_way = self._witness._ask("SELECT trial FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING')")
        if alarm.action in DEMANDS and alarm.state == "stands" and under_way and self._demand is None:
            self._demand = self._kernel.now_s, under_way[0][0], alarm.message

    def _heeds(self, running: Running) -> None:
        """What the watch demands in mid-trial breaks it off."""
        if self._demand is None:
            return
        at_s, trial, message = self._demand
        state = self._witness._ask("SELECT state FROM trials WHERE trial = ?", trial)
        if running.life.dead or state not in ([("LOOKING",)], [("ARMED",)], [("RUNNING",)]):
            self._demand = None
            return
        driven = [name for name in self._witness.driven() if self._trouble.quiet(name)]
        if driven and self._kernel.now_s - at_s > HEED_S:
            self._witness.fail(f"{', '.join(driven)}: driven {HEED_S:g} s after the watch has said: {message}")

    def _second_start(self) -> None:
        """Let somebody start it a second time."""
        witness, controller = self._witness, self._witness.controller
        running = controller.running
        if running is None or running.loop is None:
            return
        witness.mischief._tell("second start")

        def start() -> str:
            with state_lock(self._state):
                if running.loop is not None and not running.life.dead:
                    witness.fail("a second process has the same state directory")
            return "in"

        held = controller._descriptors
        controller.alone("second start", start)
        controller._descriptors = held  # what the first one has open is its own

    # after each life ------------------------------------------------------------------------------------------------

    def ended(self, running: Running, connection: sqlite3.Connection) -> None:
        self._demand = None
        self.exchanges.begins()
        self.truths.ends()
        driven = [n for n in self._witness.driven() if n not in self._rig.pumps and self._trouble.believed(n)]
        if driven and not self._said_driven():
            raise Violation(f"{', '.join(driven)} is driven, and safe.json does not say so")
        in_order = running.ending.startswith(("stopped", "abandoned")) and self._trouble.quiet_all
        if in_order and not self._witness.driven() and self._said_driven() and _counts_as_safe(connection):
            raise Violation(f"it ended ({running.ending}), all is off, and safe.json says that something is driven")
        self.late.ended(connection)
        self.batches.ended(running, connection)
        self.besides.ended(connection)
        self.besides.check_reference(self.batches.phases(connection))
        self.course.ends()
        self.told.ended(connection)
        awake = not self._witness.mischief.done["suspended"]
        self.audit.check(connection, sound=not self.metered.spoilt, awake=awake)
        _check_times(connection)
        _check_pauses(connection)
        _check_holds(connection, self._rig.watch.clear_for_s)
        _check_prices(connection, {m.name: m.price for m in self._rig.meters if m.tariff is None})
        latched = connection.execute("SELECT 1 FROM trips WHERE reset_utc IS NULL").fetchone()
        if running.ending.startswith("Tripped") and not latched:
            raise Violation(f"it ended ({running.ending}), and the trip is not latched")


def _counts_as_safe(connection: sqlite3.Connection) -> bool:
    """Tell whether the last process left word of its own: one that ends before that leaves the word it has found."""
    return bool(connection.execute("SELECT safe FROM starts ORDER BY id DESC LIMIT 1").fetchone()[0])


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
    for trial, armed_s in connection.execute(BEGUN):
        before = [(at_s, verb) for at_s, verb in acts if at_s < armed_s]
        if before and before[-1][1] == "pause" and armed_s - before[-1][0] > PAUSED_S:
            raise Violation(f"trial {trial} is armed {armed_s - before[-1][0]:.0f} s after a pause")


def _check_holds(connection: sqlite3.Connection, clear_for_s: float) -> None:
    """What the campaign has held for has been gone for a while before it goes on, but for what a person has seen to."""
    tended = [at_s for (at_s,) in connection.execute("SELECT at_s FROM upkeep")]
    rows = connection.execute("SELECT start, phase, why, at_s FROM phases ORDER BY id").fetchall()
    held_since_s = 0.0  # a pause in between does not make what was found stand again
    for (start, phase, why, since_s), (after, following, said, at_s) in pairwise([(0, "RUNNING", "", 0.0), *rows]):
        held_since_s = at_s if phase == "RUNNING" or start != after else held_since_s
        over = said == "the alarm is over" and (start, phase) == (after, "HOLDING") and following != phase
        if over and at_s - held_since_s < 0.5 * clear_for_s and not any(since_s <= t <= at_s for t in tended):
            raise Violation(f"it goes on {at_s - held_since_s:.1f} s after it began to hold for {why}")


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
