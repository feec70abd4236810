"""A pump that does not stop: it is stopped at its deadline, the rig trips, and all that it gave is booked."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import Dispense
from tests.simulation.aims import doses
from tests.simulation.controller import Running
from tests.simulation.trouble import Trouble

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

STICKS: Final = 0.12
"""How many lives have a pump that sticks, and"""
SILENT: Final = 0.4
"""how many of these have it lose its answers meanwhile."""
FACTOR: Final = 1.25
MARGIN_S: Final = 5.0
"""A dose has this much time, by its volume and the pump's rate, and this besides."""
STOPS_S: Final = 20.0
"""What is told to stop, twice if need be, has stopped within this; then the rig has tripped within as much."""


class Overrun:
    """Has pumps stick, and looks at what becomes of it."""

    def __init__(self, witness: Witness, trouble: Trouble) -> None:
        self._witness, self._trouble = witness, trouble
        self._draw = random.Random(f"{witness.seed} sticking")
        self._began: dict[str, tuple[int, str]] = {}
        """By pump: the dispense of the dose that has left last, and the life that has sent it."""
        self._troubles: dict[str, int] = {}
        """By pump that sticks, with nothing else wrong: how often something had gone wrong by then."""
        self.safes_s: list[float] = []
        """When everything was begun to be made safe, true time."""
        self.met: Counter[str] = Counter()

    def begins(self) -> None:
        """Have a pump stick in some lives, as it is told to dose."""
        pumps = sorted(self._witness.spec.rig.dosing)
        if pumps and self._draw.random() < STICKS:
            pump, silent = self._draw.choice(pumps), self._draw.random() < SILENT
            strike = lambda: self._stick(pump, silent=silent)  # noqa: E731
            self._witness.mischief.aims.await_(self._trouble.bus_of(pump), doses, strike)

    def _stick(self, pump: str, *, silent: bool) -> None:
        mischief, kernel, bus = self._witness.mischief, self._witness.kernel, self._trouble.bus_of(pump)
        calm, lasts_s = self._trouble.hears(pump), self._draw.uniform(40.0, 120.0)
        mischief._ask(fault="pump", bus=bus, stuck=True)
        mischief._lasts(lambda: mischief.plant.ask(fault="pump", bus=bus, stuck=False), lasts_s)
        if silent:  # what it is told it does, but does not say so
            mischief._ask(fault="drop_reply", bus=bus, count=-1)
            kernel.after(self._draw.uniform(3.0, 40.0), self._witness.plant.assembly.wire_faults[bus].clear)
        if calm:
            self._troubles[pump] = mischief.done.total()

    def dispenses(self, pump: str, number: int, life: str) -> None:
        """Note which dispense a dose has begun, and who has sent it."""
        self._began[pump] = number, life

    def glance(self, running: Running) -> None:
        """Look in passing: no pump is left running, and nothing goes on after one that was."""
        for pump, troubles in self._troubles.items():
            number, life = self._began.get(pump, (0, ""))
            circuit = self._witness.plant.assembly.circuits[self._trouble.bus_of(pump)]
            same = life == running.life.name and troubles == self._witness.mischief.done.total()
            if isinstance(circuit, PumpCircuit) and number and same:
                self._looked_at(pump, circuit, circuit.pump.log[number - 1])

    def _looked_at(self, pump: str, circuit: PumpCircuit, entry: Dispense) -> None:
        now_s, ended_s = circuit.pump.now_s, entry.ended_s
        due_s = entry.started_s + FACTOR * 60.0 * entry.target_ml / circuit.pump.max_rate_ml_per_min + MARGIN_S
        if ended_s is None and now_s > due_s + STOPS_S:
            self._witness.fail(f"{pump}: runs {now_s - due_s:.0f} s after its deadline: {entry}")
        if ended_s is None or ended_s < due_s or entry.how != "stopped" or now_s < ended_s + STOPS_S:
            return
        start_s = self._witness.kernel.now_s - now_s
        if any(entry.started_s < at_s - start_s < ended_s for at_s in self.safes_s):
            return  # it was broken off
        self.met["ran past its deadline"] += 1
        if not self._witness._ask("SELECT 1 FROM trips"):
            self._witness.fail(f"{pump}: ran past its deadline, and nothing has tripped: {entry}")
