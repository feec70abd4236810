"""The way to safety where answers are lost or refused: who hears is off, who refuses for a moment is asked again."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from rigctl.rig.values import SafeReport
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import PumpFaults
from sim_rig.rigs.assembly import PLC
from tests.simulation.aims import switches_off
from tests.simulation.trouble import Trouble

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

REFUSES: Final = 0.3
"""How many lives have a PLC that refuses as something is to be switched off,"""
REFUSED_S: Final = 1.0
"""and for how long at most, true seconds: who goes safe tries for longer."""


class WayToSafety:
    """Holds what is made safe against the plant, and has the PLC refuse now and then."""

    def __init__(self, witness: Witness, trouble: Trouble, met: Counter[str]) -> None:
        self._witness, self._trouble, self._met = witness, trouble, met
        self._kernel = witness.kernel
        self._draw = random.Random(f"{witness.seed} refusing")
        self._refused: tuple[float, int] | None = None
        """Until when the PLC refuses, with nothing else wrong, and how often something had gone wrong by then."""

    def begins(self) -> None:
        """Have the PLC refuse everything for a moment in some lives, as it is told to switch something off."""
        if self._draw.random() < REFUSES:
            aims, lasts_s = self._witness.mischief.aims, self._draw.uniform(0.2, REFUSED_S)
            aims.await_(PLC, switches_off, lambda: self.refuse(lasts_s))

    def refuse(self, lasts_s: float) -> None:
        """Have the PLC refuse everything from now on, for so many true seconds."""
        mischief, faults = self._witness.mischief, self._witness.plant.assembly.wire_faults[PLC]
        calm = self._trouble.quiet_all and not faults.pending
        mischief._ask(fault="exception", bus=PLC, count=-1)
        mine = faults.pending[-1]
        self._kernel.after(lasts_s, lambda: faults.pending.remove(mine) if mine in faults.pending else None)
        mischief._dirty(30.0)
        self._refused = (self._kernel.now_s + lasts_s, mischief.done.total()) if calm else None

    def ends(self, report: SafeReport, began_s: float) -> None:
        """Hold what is said of everything, which was begun then, against the plant."""
        self._is_told(report)
        self._is_patient(report, began_s)

    def _is_told(self, report: SafeReport) -> None:
        """What hears is off, though it may be unable to say so."""
        self._trouble.glance()
        for name in filter(self._trouble.hears, report.failed):
            self._met["unconfirmed, but told"] += 1
            if not self._witness.is_safe(name) and self._obeys(name):
                self._witness.fail(f"{name}: not off, and nothing but its answers is lost: {report.failed[name]}")

    def _obeys(self, name: str) -> bool:
        circuit = self._witness.plant.assembly.circuits.get(self._trouble.bus_of(name))
        return not isinstance(circuit, PumpCircuit) or circuit.pump.faults == PumpFaults()

    def _is_patient(self, report: SafeReport, began_s: float) -> None:
        """What refuses for no more than a second is safe after that, and nobody gives it up before."""
        if self._refused is None:
            return
        until_s, troubles = self._refused
        if until_s < began_s or troubles != self._witness.mischief.done.total():
            return
        self._met["refused on the way to safety"] += 1
        if left := [name for name in report.failed if self._trouble.bus_of(name) == PLC]:
            self._witness.fail(f"{', '.join(left)}: given up, and its PLC refused for {REFUSED_S:g} s at most")
