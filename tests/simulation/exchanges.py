"""What goes to and fro, held against the instruments: an answer belongs to its question, a command leaves once."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign import safe_file
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle
from rigctl.rig.measuring import Probe
from rigctl.rig.protocols import Reading
from sim_rig.faults import SensorTap
from tests.simulation.books import around
from tests.simulation.plant import options_of, places
from tests.simulation.ports import MemoryPort
from tests.simulation.trouble import Trouble

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

SHARED_S = 0.15
"""What several devices share may have been read so long before one of them is asked."""
SETTLED_S = 1.0
"""An answer that comes within this after it was given up is nobody's: the line falls silent, then asks who is there."""
LATEST_S = 10.0
"""One that comes later than the line is silent for cannot be told from an answer to the next question, by then."""
ROUNDED = 0.0006
"""By so much what a text or a register holds may differ from what the sensor gave: three decimals,"""
ROUNDED_PART = 1e-5
"""or single precision."""
KEPT = 64
NUMBER = re.compile(rb"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


class Exchanges:
    """Looks at every answer and every command, whoever waits for them."""

    def __init__(self, witness: Witness, trouble: Trouble) -> None:
        self._witness = witness
        self._trouble = trouble
        self._taps = {id(tap): name for name, tap in witness.plant.assembly.sensors.items()}
        self._gave: defaultdict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=KEPT))
        """By sensor: when, true time, it gave what."""
        self._given_up_s: dict[str, float] = {}
        self._valid: set[str] = set()
        """Probes of which there was a valid reading, in this life and since their pump dosed."""
        self._heard: defaultdict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=KEPT))
        """By line of text: when, true time, a number has arrived from it."""
        self._sending: dict[str, Counter[bytes]] = {}
        """By actuator that is told something now: what has left for it."""
        self._place_of = places(witness.spec.rig)
        rig = witness.plant.assembly
        self._texts = set(witness.plant.serial) - set(rig.stations)
        """Lines whose answers do not say what they answer."""
        self._near = {name: max(ROUNDED, 0.51 * _step(witness, name)) for name in self._taps.values()}

    def installed(self) -> AbstractContextManager[None]:
        return around(
            (SensorTap, "__call__", self._given),
            (MemoryPort, "_arrived", self._arrives),
            (Probe, "attempt", self._answered),
            (Guard, "apply", self._told),
            (safe_file, "write", self._said_safe),
        )

    # answers --------------------------------------------------------------------------------------------------------

    def _given(self, really: Callable[..., float]) -> Callable[..., float]:
        witness, taps, gave = self._witness, self._taps, self._gave

        def give(tap: SensorTap) -> float:
            value = really(tap)
            gave[taps[id(tap)]].append((witness.kernel.now_s, value))
            witness.promises.truths.dosed.reads(taps[id(tap)])
            return value

        return give

    def _answered(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """A reading is what its sensor gave when it was asked for it."""
        kernel = self._witness.kernel

        async def attempt(probe: Probe) -> tuple[Reading, bool]:
            asked_s, name = kernel.now_s, probe.handle.name
            began_s = asked_s - SHARED_S
            reading, answered = await really(probe)
            late_s = kernel.now_s - self._given_up_s.get(name, began_s - LATEST_S)
            if not reading.valid:
                self._given_up_s[name] = kernel.now_s
                return reading, answered
            self._valid.add(name)
            if not self._trouble.honest(name):
                return reading, answered
            self._check_arrival(name, reading.value, asked_s)
            if not SETTLED_S <= late_s < LATEST_S:
                self._check(name, reading.value, began_s)
            return reading, answered

        return attempt

    def _arrives(self, really: Callable[..., None]) -> Callable[..., None]:
        def arrived(port: MemoryPort, data: bytes) -> None:
            if port.cable.bus in self._texts:
                at_s = self._witness.kernel.now_s
                self._heard[port.cable.bus].extend((at_s, float(number)) for number in NUMBER.findall(data))
            really(port, data)

        return arrived

    def _check_arrival(self, name: str, value: float, asked_s: float) -> None:
        """What is read has arrived since it was asked for: what came before that answers an earlier question."""
        bus = self._trouble.bus_of(name)
        if bus not in self._texts:
            return
        near = ROUNDED_PART * abs(value)
        if not any(abs(number - value) <= near for at_s, number in self._heard[bus] if at_s >= asked_s):
            self._witness.fail(f"{name}: {value:.6g} was read, and nothing of the kind has arrived since it was asked")

    def _check(self, name: str, value: float, began_s: float) -> None:
        near = self._near[name] + ROUNDED_PART * abs(value)
        gave = [(at_s, v) for at_s, v in self._gave[name] if at_s >= began_s]
        nothing = near > ROUNDED + ROUNDED_PART * abs(value) and any(math.isnan(v) for _, v in gave)
        if not nothing and not any(abs(v - value) <= near for _, v in gave):  # a whole number cannot say "nothing"
            told = ", ".join(f"{v:.6g}" for _, v in gave) or "nothing"
            self._witness.fail(f"{name}: {value:.6g} was read, and since it was asked it has given {told}")

    # commands -------------------------------------------------------------------------------------------------------

    def _told(self, really: Callable[..., Any]) -> Callable[..., Any]:
        async def apply(guard: Guard, actuator: Handle[Any], value: float) -> None:
            self._sending[actuator.name] = Counter()
            try:
                await really(guard, actuator, value)
            finally:
                self._sending.pop(actuator.name, None)

        return apply

    def writes(self, pdu: bytes) -> None:
        """One command leaves once, for one decision to send it, whatever becomes of its answer."""
        if len(pdu) < 5 or pdu[0] not in (5, 6, 16) or (pdu[0] == 5 and pdu[3:5] == b"\0\0"):
            return
        kind = "coil" if pdu[0] == 5 else "holding"
        name = self._place_of.get((kind, struct.unpack(">H", pdu[1:3])[0]), "")
        if name not in self._sending:
            return
        self._sending[name][pdu] += 1
        if self._sending[name][pdu] > 1:
            self._witness.fail(f"{name}: {pdu.hex(' ')} leaves a second time for one decision")

    def doses(self, pump: str, probe: str) -> None:
        """Before each dose its probe is read anew, after the dose before it."""
        if probe in self._valid:
            self._valid.remove(probe)
        else:
            self._witness.fail(f"{pump}: doses, and there was no valid reading of {probe} since it dosed before")

    def begins(self) -> None:
        self._sending.clear()
        self._given_up_s.clear()
        self._valid.clear()

    # what is left in writing ----------------------------------------------------------------------------------------

    def _said_safe(self, really: Callable[..., None]) -> Callable[..., None]:
        """`safe.json` says that nothing is driven only if nothing is."""

        def write(directory: Path, content: safe_file.SafeFile) -> None:
            driven = [n for n in self._witness.driven() if self._trouble.believed(n) and self._trouble.unpressed]
            if not content.driven and driven:
                self._witness.fail(f"safe.json is to say that nothing is driven, and {', '.join(driven)} is")
            really(directory, content)

        return write


def _step(witness: Witness, name: str) -> float:
    """Return what one count of a sensor's register stands for; 0 where it holds a float, or there is none."""
    read = options_of(witness.spec.rig, name).get("read") or {}
    return 0.0 if str(read.get("type", "float32")).startswith("float") else float(read["scale"])
