"""What the program does, seen from the plant: what it says to be so is so there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.doses import DoseBook
from rigctl.rig.rig import Rig
from rigctl.rig.values import Measurement, SafeReport
from sim_rig.faces.ezo_pump import PumpCircuit
from tests.simulation import controller
from tests.simulation.books import around
from tests.simulation.trouble import Trouble

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

DAY_S = 86400.0


class Shoulder:
    """Looks over the shoulder of rig, journal and whoever begins."""

    def __init__(self, witness: Witness, trouble: Trouble, said_driven: Callable[[], bool]) -> None:
        self._witness = witness
        self._trouble = trouble
        self._said_driven = said_driven
        self._rig = witness.spec.rig
        self._seen: set[str] = set()
        """What was driven when the window of the last trial was over."""

    def installed(self) -> AbstractContextManager[None]:
        return around(
            (DoseBook, "given_ml", self._counted),
            (Journal, "run", self._begun),
            (Journal, "measure", self._measured),
            (Rig, "measure", self._window),
            (Rig, "safe", self._all_told),
            (controller, "safe_first", self._safe_first),
        )

    def _counted(self, really: Callable[..., float]) -> Callable[..., float]:
        """The caps count at least what really came of our doses within 24 hours."""

        def counted(book: DoseBook, pumps: Sequence[str], since_s: float | None) -> float:
            told_ml, given_ml = really(book, pumps, since_s), sum(map(self._given_ml, pumps))
            whole_day = since_s is not None and since_s <= book._time.clock.now_s() - DAY_S + 1.0
            if whole_day and told_ml < 0.97 * given_ml - 0.2 * len(pumps):
                names = " and ".join(pumps)
                self._witness.fail(f"{names}: {told_ml:.2f} mL count in 24 h, and {given_ml:.2f} mL were given")
            return told_ml

        return counted

    def _given_ml(self, pump: str) -> float:
        for bus, circuit in self._witness.plant.assembly.circuits.items():
            if isinstance(circuit, PumpCircuit) and self._witness._pump_of.get(bus) == pump:
                start_s = self._witness.kernel.now_s - circuit.pump.now_s
                ours = (e for e in circuit.pump.log if e.number in self._witness._ours[pump])
                return sum(
                    e.delivered_ml for e in ours if start_s + e.started_s > self._witness.kernel.now_s - DAY_S + 60.0
                )
        return 0.0

    def _wrong(self, chosen: tuple[str, ...]) -> set[str]:
        """Return what is not as a trial of this control set has it, pumps left out."""
        rig = self._rig
        mine = {a for v in rig.variables if v.name in chosen for a in v.actuators}
        mine |= {rig.dosing[pump].treatment or "" for pump in rig.dosing if pump in mine}
        return {n for n in rig.limits if n not in rig.pumps and self._witness.is_safe(n) == (n in mine)}

    def driven_untouched(self) -> list[str]:
        """Return what is driven where nothing has been in the way for a while."""
        return [name for name in self._witness.driven() if self._trouble.untouched(name)]

    def _begun(self, really: Callable[..., None]) -> Callable[..., None]:
        """A trial is RUNNING only if what was chosen is on, and nothing else."""

        def run(journal: Journal, trial: int, *more: Any) -> None:
            wrong = sorted(n for n in self._wrong(journal.read.trial(trial).control_set) if self._trouble.untouched(n))
            if wrong:
                self._witness.fail(f"trial {trial} is RUNNING, and {', '.join(wrong)} is not as it was chosen")
            really(journal, trial, *more)

        return run

    def _window(self, really: Callable[..., Any]) -> Callable[..., Any]:
        async def measure(rig: Rig, *, late: bool = False, **more: Any) -> Mapping[str, Measurement]:
            found: Mapping[str, Measurement] = await really(rig, late=late, **more)
            if not late:  # else it is no trial's window: reading moves nothing
                self._seen = {n for n in self._rig.limits if not self._witness.is_safe(n)}
            return found

        return measure

    def _measured(self, really: Callable[..., None]) -> Callable[..., None]:
        """A trial is MEASURED only if what was chosen, and nothing else, was on when its window was over."""

        def measure(journal: Journal, trial: int, *more: Any) -> None:
            now = {n for n in self._rig.limits if not self._witness.is_safe(n)}
            lasting = {n for n in self._wrong(journal.read.trial(trial).control_set) if (n in now) == (n in self._seen)}
            lasting = {n for n in lasting if self._trouble.quiet(n)}
            if lasting:
                self._witness.fail(f"trial {trial} is MEASURED, and {', '.join(sorted(lasting))} was not as chosen")
            really(journal, trial, *more)

        return measure

    def _all_told(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """Whatever is wrong elsewhere, what can be reached is safe."""

        async def safe(rig: Rig) -> SafeReport:
            report: SafeReport = await really(rig)
            left = [name for name in self.driven_untouched() if name in report.failed]
            if left:
                self._witness.fail(f"not made safe, though nothing was wrong there: {', '.join(left)}")
            return report

        return safe

    def _safe_first(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """What a process that died has left driven is safe before anything else is done."""

        def safe_first(config: Path, state: Path) -> object:
            was_driven = self._said_driven()
            report = really(config, state)
            if was_driven and (left := self.driven_untouched()):
                self._witness.fail(f"a new start has not made safe first: {', '.join(left)}")
            return report

        return safe_first
