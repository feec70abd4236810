"""What must hold whatever happens, by the simulator's own counts and by the journal, read with plain SQL."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rigctl.campaign.spec import CampaignSpec
from rigctl.rig.rig import Rig
from rigctl.rig.values import SafeReport
from sim_rig.plants.tank import Tank
from tests.simulation.kernel import Kernel
from tests.simulation.plant import Plant

if TYPE_CHECKING:
    from tests.simulation.controller import Controller, Running

NEXT = {
    ("", "PROPOSED"), ("PROPOSED", "ARMED"), ("ARMED", "RUNNING"), ("RUNNING", "MEASURED"), ("MEASURED", "RECORDED"),
    ("PROPOSED", "ABANDONED"), ("PROPOSED", "FAILED"),
    *((state, end) for state in ("ARMED", "RUNNING", "MEASURED") for end in ("FAILED", "ABANDONED", "LOST")),
}  # fmt: skip
"""Steps that a trial may take."""
ENDS = ("RECORDED", "FAILED", "ABANDONED", "LOST")
DOSE = re.compile(rb"^D,([0-9.]+)", re.IGNORECASE)


class Violation(AssertionError):
    """Says which invariant does not hold, and where it can be seen."""


class Witness:
    """Keeps its own counts of what reaches the rig, and compares."""

    def __init__(self, kernel: Kernel, plant: Plant, spec: CampaignSpec, controller: Controller) -> None:
        self.kernel = kernel
        self.plant = plant
        self.spec = spec
        self.controller = controller
        self.trials = 0
        self._sent: dict[str, list[tuple[float, float]]] = {}
        """By actuator: true time and volume of every dose that left."""
        self._known: dict[int, tuple[Any, ...]] = {}
        """Trials as the journal had them after the last life."""
        self._pump_on = {
            device.url.rpartition("/")[2].partition("?")[0]: name
            for name, device in spec.rig.devices.items()
            if name in spec.rig.pumps
        }
        links = {wire.bus: wire.link for wire in plant.assembly.serial}
        self._pump_of_bus = {bus: self._pump_on[link] for bus, link in links.items() if link in self._pump_on}

    # while it runs --------------------------------------------------------------------------------------------------

    def begins(self, running: Running) -> None:
        """Note that a life begins."""

    def sends(self, bus: str, data: bytes) -> None:
        """Look at what is about to leave for the rig; a dose must have been committed as an intent."""
        dose = DOSE.match(data)
        if dose is None or bus not in self._pump_of_bus or data[2:3] == b"?":
            return
        pump, volume_ml = self._pump_of_bus[bus], float(dose[1])
        self._sent.setdefault(pump, []).append((self.kernel.now_s, volume_ml))
        open_ = self._ask("SELECT volume_ml FROM doses WHERE actuator = ? AND state IN ('INTENT', 'SENT')", pump)
        if len(open_) != 1 or abs(open_[0][0] - volume_ml) > 0.0051:
            raise Violation(f"{pump}: {volume_ml} mL is sent, the journal has open intents of {open_}")

    def is_safe(self, name: str) -> bool:
        """Tell whether an actuator is off, as the plant has it."""
        plant = self.plant.assembly.plant
        if isinstance(plant, Tank):
            pumps = {"ca_doser": plant.ca_pump, "ph_doser": plant.acid_pump}
            if name in pumps:
                return not pumps[name].running
            if name in ("softener", "alkaliser"):
                return not getattr(plant, name)
            if name == "refill":
                return not plant.refill.commanded
            return not plant.channels[name.removesuffix("_valve")].enabled
        if name == "loader":
            return not plant.drives.change.commanded
        of = {v.actuator: v.name for v in self.spec.rig.variables}
        return not plant.drives.channels[of[name] or ""].enabled

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Look over the shoulder of whoever says that everything is safe."""
        really = Rig.safe
        witness = self

        async def safe(rig: Rig) -> SafeReport:
            report = await really(rig)
            lied = [name for name in report.reached if not witness.is_safe(name)]
            if lied:
                raise Violation(f"said to be safe, and is not: {', '.join(lied)}")
            return report

        with ExitStack() as stack:
            stack.enter_context(patch.object(Rig, "safe", safe))
            yield

    # after each life ------------------------------------------------------------------------------------------------

    def ended(self, running: Running) -> None:
        """Compare what is left with what has happened."""
        if running.ending.startswith("crashed"):
            raise Violation(running.ending)
        if not (self.controller.state / "journal.sqlite").exists():
            return
        self._trials()
        self._doses()

    def at_the_end(self) -> None:
        """Nothing more, so far."""

    def _ask(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        path = self.controller.state / "journal.sqlite"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, parameters).fetchall()

    def _trials(self) -> None:
        with self._copy() as connection:
            trials = {
                row[0]: row for row in connection.execute("SELECT trial, control_set, setpoints, state FROM trials")
            }
            events = connection.execute("SELECT trial, state FROM events ORDER BY id").fetchall()
        self.trials = len(trials)
        state: dict[int, str] = {}
        for trial, after in events:
            before = state.get(trial, "")
            if (before, after) not in NEXT:
                raise Violation(f"trial {trial}: {before or 'nothing'} became {after}")
            state[trial] = after
        if sorted(trials) != list(range(1, len(trials) + 1)):
            raise Violation(f"trials are not numbered one by one: {sorted(trials)}")
        if {t: row[3] for t, row in trials.items()} != state:
            raise Violation("the trials' states are not those of their last events")
        for trial, was in self._known.items():
            now = trials.get(trial)
            if now is None or now[1:3] != was[1:3] or (was[3] in ENDS and now[3] != was[3]):
                raise Violation(f"trial {trial} was {was}, and is {now}")
        self._known = trials

    def _doses(self) -> None:
        with self._copy() as connection:
            rows = connection.execute("SELECT actuator, volume_ml FROM doses ORDER BY id").fetchall()
        for pump, sent in self._sent.items():
            intents = iter([volume for actuator, volume in rows if actuator == pump])
            for at_s, volume_ml in sent:
                if not any(abs(volume_ml - intent) < 0.0051 for intent in intents):
                    raise Violation(f"{pump}: {volume_ml} mL was sent at {at_s:.3f} s without an intent of its own")

    @contextmanager
    def _copy(self) -> Iterator[sqlite3.Connection]:
        """Open a copy, so that looking leaves no trace."""
        scratch = self.controller.state.with_name("look")
        scratch.mkdir()
        try:
            for file in self.controller.state.glob("journal.sqlite*"):
                if not file.name.endswith("-shm"):
                    shutil.copy2(file, scratch / file.name)
            with closing(sqlite3.connect(scratch / "journal.sqlite")) as connection:
                yield connection
        finally:
            shutil.rmtree(scratch)
