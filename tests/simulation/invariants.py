"""Somebody who sees all that reaches the rig, keeps count, and holds it against what must be, throughout."""

import functools
import math
import re
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import patch

from rigctl.campaign.events import CampaignEvent, OutcomeCame, TrialEnded
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.verifying import verified
from rigctl.campaign.replay import replay
from rigctl.campaign.spec import CampaignSpec
from rigctl.rig.rig import Rig
from rigctl.rig.values import SafeReport
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.tank import Tank
from sim_rig.rigs.assembly import PLC
from tests.simulation.books import (
    Books,
    Given,
    Violation,
    barred,
    check_caps,
    check_sends,
    check_trials,
    check_windows,
    control_set_of,
    counted,
    intents_of,
    is_of,
    total_s,
)
from tests.simulation.controller import Controller, Running
from tests.simulation.disk import firm
from tests.simulation.kernel import Kernel
from tests.simulation.mischief import Mischief
from tests.simulation.plant import Plant, places
from tests.simulation.promises import Promises

DOSE = re.compile(rb"^D,([0-9.]+)", re.IGNORECASE)
MBAP = 7
CALM_S = 60.0
"""True seconds after the last trouble on a line before anything is demanded of it again."""
PENDING_S = 2.0
"""What was told so shortly before an end need not have been written yet."""


class Eyes:
    """Sees the plant as it is, and the journal as it stands."""

    kernel: Kernel
    plant: Plant
    spec: CampaignSpec
    controller: Controller
    mischief: Mischief

    @property
    def calm(self) -> bool:
        kernel = self.kernel
        return kernel.now_s > self.mischief.dirty_until_s + CALM_S and kernel.now_s > self.mischief.hand_at_s + CALM_S

    def fail(self, what: str) -> None:
        """End the simulation, whoever calls: a violation raised in the controller would be one of its failures."""
        if self.kernel.failure is None:
            self.kernel.failure = Violation(what)

    def is_safe(self, name: str) -> bool:
        plant = self.plant.assembly.plant
        if isinstance(plant, Tank):
            if name in plant.pumps:
                return not plant.pumps[name].running
            if name in ("softener", "alkaliser"):
                return not getattr(plant, name).commanded
            return not (plant.change.commanded if name == "refill" else plant.channels[name[:-6]].enabled)
        if name == "loader":
            return not plant.change.commanded
        of = {v.actuator: v.name for v in self.spec.rig.variables}
        return not plant.channels[of[name] or ""].enabled

    def driven(self) -> list[str]:
        self.plant.assembly.sync()
        return [name for name in self.spec.rig.limits if not self.is_safe(name)]

    def by_hand(self, operation: str, device: str) -> bool:
        """Tell whether a person has begun to do this, by the journal, and nothing else since."""
        rows = self._ask("SELECT argument, outcome FROM acts WHERE verb = 'manual' ORDER BY id DESC LIMIT 1")
        return bool(rows) and rows[0][0].startswith(f"{operation} {device}") and rows[0][1] == "begun"

    def _under_way(self) -> bool:
        return bool(self._ask("SELECT 1 FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING', 'MEASURED')"))

    def _ask(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        try:
            with self._open() as connection:
                return connection.execute(sql, parameters).fetchall()
        except sqlite3.OperationalError:  # not made yet
            return []

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        path = self.controller.state / "journal.sqlite"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            yield connection


class Witness(Eyes):
    """Keeps its own counts; what it finds wrong ends the simulation."""

    def __init__(
        self,
        kernel: Kernel,
        plant: Plant,
        spec: CampaignSpec,
        controller: Controller,
        mischief: Mischief,
        *,
        seed: int = 0,
        extras: frozenset[str] = frozenset(),
    ) -> None:
        self.seed, self.extras = seed, extras
        self.kernel = kernel
        self.plant = plant
        self.spec = spec
        self.controller = controller
        self.mischief = mischief
        self.books, self._disk = Books(controller.state), controller.disk
        self.recorded = 0
        self.sent: dict[str, list[tuple[float, float]]] = {}
        """By actuator: true time and volume of every dose that left."""
        self._intents: set[int] = set()
        """Doses of the journal that have left."""
        self._ours: dict[str, set[int]] = {}
        """By actuator: which of the plant's dispenses were begun by a command."""
        self._left: dict[str, int] = {}
        """By actuator: how many dispenses had begun when the last life ended."""
        self._next: dict[str, int] = {}
        """By actuator: the dose that has left last, by its number in the journal."""
        self._came: dict[str, dict[int, int]] = {}
        """By actuator: which of the plant's dispenses belongs to which dose."""
        self._trial_of: dict[int, int] = {}
        """By dose: the trial under way as it left."""
        self._driven_since_s: float | None = None
        self._pump_of = {bus: name for name, bus in plant.buses(spec.rig).items() if name in spec.rig.pumps}
        self._coils = {at: name for (table, at), name in places(spec.rig).items() if table == "coil"}
        for bus, circuit in plant.assembly.circuits.items():
            if isinstance(circuit, PumpCircuit) and bus in self._pump_of:
                self._follow(self._pump_of[bus], circuit)
        controller.heard = self._heard
        self.promises = Promises(self)

    # what leaves for the rig ----------------------------------------------------------------------------------------

    def sends(self, bus: str, data: bytes) -> None:
        if bus == PLC:
            self.promises.exchanges.writes(data[MBAP:])
            self.promises.truths.writes(data[MBAP:])
            self.promises.course.writes(data[MBAP:])
            self._switches(data)
        elif bus in self._pump_of and (dose := DOSE.match(data)) is not None:
            self._doses(self._pump_of[bus], float(dose[1]))
        elif bus in self._pump_of and data.upper().startswith(b"D,?"):
            self.promises.truths.asks(self._pump_of[bus])

    def _doses(self, pump: str, volume_ml: float) -> None:
        if self.by_hand("dose", pump) and not self._under_way():
            self.promises.moves(pump)
        else:
            self.promises.doses(pump, volume_ml)
            self.promises.truths.dosed.partners(pump, volume_ml, self.sent)
        self.sent.setdefault(pump, []).append((self.kernel.now_s, volume_ml))
        rows = self._ask("SELECT volume_ml, id FROM doses WHERE actuator = ? AND state IN ('INTENT', 'SENT')", pump)
        if len(rows) != 1 or not is_of(volume_ml, rows[0][0]):
            self.fail(f"{pump}: {volume_ml} mL leaves, and the journal has the open intents {rows}")
        if self._intents.intersection(number for _, number in rows):
            self.fail(f"{pump}: {volume_ml} mL leaves a second time for one intent: {rows}")
        self._intents.update(number for _, number in rows)
        self._next[pump] = rows[0][1] if rows else 0
        for (trial,) in self._ask("SELECT trial FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING')"):
            self._trial_of[self._next[pump]] = trial

    def _switches(self, data: bytes) -> None:
        on = [self._coils.get(coil, f"coil {coil}") for coil in _switched_on(data[MBAP:])]
        if not on:
            return
        self.promises.moves(", ".join(on))
        rows = self._ask("SELECT control_set, state FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING')")
        if not rows:
            if strange := [name for name in on if not self.by_hand("set", name)]:
                self.fail(f"{', '.join(strange)}: driven while no trial is under way")
            return
        chosen = set(control_set_of(rows[0]))
        rig = self.spec.rig
        allowed = {a for v in rig.variables if v.name in chosen for a in v.actuators}
        allowed |= {rig.dosing[pump].treatment or "" for pump in rig.dosing if pump in allowed}
        if rig.timing.look is None or rows[0][1] == "LOOKING":  # prepared once, before it is decided
            allowed |= {step.actuator for step in rig.timing.prepare}
        if strange := [name for name in on if name not in allowed]:
            self.fail(f"{', '.join(strange)}: driven, but {sorted(chosen)} was chosen")

    def _follow(self, pump: str, circuit: PumpCircuit) -> None:
        really, ours = circuit.commands["D"], self._ours.setdefault(pump, set())

        @functools.wraps(really)
        def dispense(*arguments: str) -> Any:
            answer = really(*arguments)
            if circuit.pump.running:
                ours.add(len(circuit.pump.log))
                self._came.setdefault(pump, {})[self._next.get(pump, 0)] = len(circuit.pump.log)
                life = "" if self.controller.running is None else self.controller.running.life.name
                self.promises.overrun.dispenses(pump, len(circuit.pump.log), life)
                self.promises.truths.dosed.arrived(pump, dry=circuit.pump.faults.dry)
            return answer

        circuit.commands["D"] = dispense

    # what is driven -------------------------------------------------------------------------------------------------

    def glance(self, running: Running, bound_s: float) -> None:
        """Look in passing: nothing stays driven for longer than `bound_s` while no trial is under way."""
        kernel = self.kernel
        self.promises.glance(running)
        driven = [name for name in self.driven() if name not in self.mischief.touched]
        if not driven or not self.calm or running.life.dead or self._under_way():
            self._driven_since_s = None
            return
        if self._driven_since_s is None:
            self._driven_since_s = kernel.now_s
        elif kernel.now_s - self._driven_since_s > bound_s:
            since_s = kernel.now_s - self._driven_since_s
            self.fail(f"{', '.join(driven)}: driven for {since_s:.1f} s while no trial was under way")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Look over the shoulder of whoever says that everything is safe."""
        really, witness = Rig.safe, self

        async def safe(rig: Rig) -> SafeReport:
            began_s = witness.kernel.now_s
            report = await really(rig)
            touched = witness.mischief.touched  # whoever comes after it was made safe has touched it still
            witness.mischief.touched = {n: s for n, s in touched.items() if n not in report.reached or s > began_s}
            if witness.kernel.now_s - witness.mischief.hand_at_s > CALM_S:
                lied = [name for name in report.reached if not witness.is_safe(name)]
                if lied and witness.calm:
                    witness.fail(f"{', '.join(lied)}: said to be safe, and not")
            if report.failed and witness.calm and witness.kernel.now_s - began_s < CALM_S:
                witness.fail(f"cannot be made safe, though nothing is in the way: {dict(report.failed)}")
            return report

        with patch.object(Rig, "safe", safe), self.promises.installed():
            yield

    # what it says ---------------------------------------------------------------------------------------------------

    def _heard(self, running: Running, event: CampaignEvent) -> None:
        self.promises.batches.heard(running, event)
        self.promises.besides.heard(event)
        self.promises.metered.heard(running, event)
        if isinstance(event, TrialEnded):
            self.recorded += event.row.state == "RECORDED"
            with self._open() as connection:
                ledger, operated = self.promises.batches.spent(connection)
            told = 0 if event.batches is None else event.batches.spent
            if event.spent != ledger or (event.batches is not None) != event.row.operated or told not in (0, operated):
                self.fail(
                    f"{event.spent} and {told} are said to be spent after trial {event.row.trial}, the lines sum to "
                    f"{ledger} and {operated}"
                )
        elif isinstance(event, OutcomeCame):
            self.recorded += event.row.state == "RECORDED"

    def ended(self, running: Running) -> None:
        """Hold what a life has left against what has happened; raises `Violation`."""
        if running.ending.startswith("crashed"):
            raise Violation(running.ending)
        if not self.books.there():
            return
        with self.books.copy() as connection:
            if not self.books.look(connection, firm=firm(self._disk, FILE_NAME)):
                return
            for pump, sent in self.sent.items():
                check_sends(pump, sent, intents_of(connection, pump))
            self._booked(running, connection)
            self._told(running, self.books.alarms(connection))
            self.promises.ended(running, connection)
        self._delivered(running)
        driven = [name for name in self.driven() if name not in self.mischief.touched]
        if running.ending and self.calm and driven:
            raise Violation(f"it ended ({running.ending}), and {', '.join(driven)} is driven")

    def _booked(self, running: Running, connection: sqlite3.Connection) -> None:
        for bus, circuit in self.plant.assembly.circuits.items():
            if isinstance(circuit, PumpCircuit) and (pump := self._pump_of.get(bus)) is not None:
                came = {dose: circuit.pump.log[number - 1] for dose, number in self._came.get(pump, {}).items()}
                left = self._left.get(pump, 0) if running.safe_first_s is None else 0
                self.promises.metered.booked(
                    pump, came, connection, lambda d, left=left: d.number <= left or running.life.dead
                )

    def _told(self, running: Running, kept: set[tuple[str, str]]) -> None:
        ended_s = self.kernel.now_s
        for at_s, alarm in running.alarms:
            if (alarm.source, alarm.message) in kept or (at_s > ended_s - PENDING_S and not running.ending):
                continue
            if not any(since_s <= at_s <= until_s + CALM_S for since_s, until_s in self.mischief.disk_spells):
                raise Violation(f"an alarm did not reach the journal: {alarm.source}: {alarm.message}")

    def _given(self, running: Running) -> dict[str, list[Given]]:
        """Return by pump what our doses have delivered."""
        by_pump: dict[str, list[Given]] = {}
        for bus, circuit in self.plant.assembly.circuits.items():
            if not isinstance(circuit, PumpCircuit) or bus not in self._pump_of:
                continue
            pump = self._pump_of[bus]
            entries = [e for e in circuit.pump.log if e.number in self._ours[pump]]
            start_s, left = self.kernel.now_s - circuit.pump.now_s, self._left.get(pump, 0)
            if running.safe_first_s is not None:  # else nobody has been there to stop what the life before left running
                left = 0
            trials = {number: self._trial_of.get(dose, 0) for dose, number in self._came.get(pump, {}).items()}
            by_pump[pump] = [
                Given(start_s + e.started_s, counted(e, left=e.number <= left), trials.get(e.number, 0))
                for e in entries
            ]
        return by_pump

    def _delivered(self, running: Running) -> None:
        by_pump = self._given(running)
        for pump, given in by_pump.items():
            limits = self.spec.rig.limits[pump]
            check_caps(pump, given, limits.per_dose_ml, limits.per_day_ml)
        for bus, circuit in self.plant.assembly.circuits.items():
            if isinstance(circuit, PumpCircuit) and bus in self._pump_of:
                self._left[self._pump_of[bus]] = len(circuit.pump.log)
        for cap in self.spec.rig.caps:
            together = [dose for pump in cap.pumps for dose in by_pump.get(pump, ())]
            windows = ((3600.0, cap.per_hour_ml), (86400.0, cap.per_day_ml), (math.inf, cap.per_campaign_ml))
            check_windows(cap.name, together, windows)
            check_trials(cap.name, together, cap.per_trial_ml)

    def barred_s(self, running: Running, since_s: float) -> float:
        """Return for how long since then a cap that comes free again has had no room for another dose, true seconds."""
        by_pump, limits, spells = self._given(running), self.spec.rig.limits, []
        for cap in self.spec.rig.caps:
            together = [dose for pump in cap.pumps for dose in by_pump.get(pump, ())]
            for span_s, most_ml, _ in cap.windows:
                next_ml = max(limits[pump].per_dose_ml or most_ml for pump in cap.pumps)
                spells += barred(together, span_s, most_ml, next_ml)
        return total_s(spells, since_s, self.kernel.now_s)

    def met(self) -> Counter[str]:
        with self._open() as connection:
            promises = self.promises
            found = promises.batches.met(connection)
            return sum((part.met for part in promises.parts), found)

    def replays(self) -> None:
        """Recompute every decision by the program's own replay, and have it verify its journal; raises `Violation`."""
        if not self.books.there():
            return
        if wrong := verified(self.controller.state / FILE_NAME).violations:
            raise Violation(f"its own journal does not hold: {wrong}")
        with open_reader(self.controller.state) as reader:
            for trial in replay(reader, self.spec):
                if not trial.agrees:
                    raise Violation(f"trial {trial.trial} is decided otherwise: {'; '.join(trial.differences)}")


def _switched_on(pdu: bytes) -> list[int]:
    """Return the coils that a request switches on."""
    if len(pdu) >= 5 and pdu[0] == 5:
        at, value = struct.unpack(">HH", pdu[1:5])
        return [at] if value == 0xFF00 else []
    if len(pdu) >= 7 and pdu[0] == 15:
        at, count = struct.unpack(">HH", pdu[1:5])
        bits = int.from_bytes(pdu[6:], "little")
        return [at + i for i in range(count) if bits >> i & 1]
    return []
