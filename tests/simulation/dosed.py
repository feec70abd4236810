"""What is dosed, held against what the plant lacks, and against what it holds in the end."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rigctl.errors import CapSpent
from rigctl.rig.guard import DosePermit, Guard
from rigctl.rig.handle import Handle
from rigctl.rig.spec import DosingSpec
from rigctl.rig.values import Alarm
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import DosingPump, PumpFaults

if TYPE_CHECKING:
    from tests.simulation.truths import Truths

NOISE: Final[Mapping[str, float]] = MappingProxyType(
    {"ca": 0.05, "ph": 0.03, "speed": 1.5, "coolant": 0.2, "feed": 0.004, "depth": 0.04}
)
READ_S: Final = 5.0
"""A dose goes by what its probe read no longer ago, true seconds, on a bus and a computer without trouble."""
OF_DOSES: Final = ("dose unknown", "dose unconfirmed", "dose over", "dose short", "dose refused", "total jumped")
SPENT: Final = 0.5
"""Share of a cap of the campaign; doses whose end is unknown are booked in full, and open intents that never left."""
KEPT: Final = 64
GIVEN: Final = "coalesce(sum(coalesce(dispensed_ml, volume_ml)), 0.0)"
WITHIN: Final = f"SELECT {GIVEN} FROM doses WHERE actuator = ? AND at_s > ?"  # noqa: S608 - our own
DEAREST: Final = f"""
SELECT coalesce(max(ml), 0.0) FROM (
    SELECT {GIVEN} AS ml FROM doses WHERE actuator = ? AND trial IS NOT NULL GROUP BY trial)"""  # noqa: S608 - our own
MOST_UNANSWERED: Final = 6
"""Doses in a row of which nothing arrives; the pump is latched then."""


class Dosed:
    """Holds doses against the plant, by what the truths about it know."""

    def __init__(self, truths: Truths) -> None:
        self._truths = truths
        self._witness, self._kernel, self._rig = truths.witness, truths.kernel, truths.rig
        self._dry: Counter[str] = Counter()
        self.safe_s = -math.inf
        """When everything was last made safe, true time."""
        self._ended: dict[str, int] = {}
        """By pump: doses that have left in lives that are over."""
        self._near: defaultdict[str, deque[tuple[float, float, float]]] = defaultdict(lambda: deque(maxlen=KEPT))
        """By variable: when its probe was read, its value then, and how far off a reading may have been."""

    def off(self, trial: int) -> list[str]:
        """Return what is dosed and not where it was to be: two tolerances past it at most, by the plant."""
        found = []
        for name, value in self._truths.decided("trial = ?", trial).items():
            variable = next((v for v in self._rig.variables if v.name == name), None)
            dosing = None if variable is None else self._rig.dosing.get(variable.actuator or "")
            if dosing is None or not self._truths.is_sound(dosing.sensor):
                continue
            self._truths.met["dosed variable held against the plant"] += 1
            if abs(self._truths.channels[name].value - value) > 2 * dosing.tolerance + self._noise(name):
                found.append(f"{name} is {self._truths.channels[name].value:.3f}, {value:.3f} was decided")
        return found

    def reads(self, sensor: str) -> None:
        for name in (v.name for v in self._rig.variables if v.sensor == sensor and v.name in self._truths.channels):
            self._near[name].append((self._kernel.now_s, self._truths.channels[name].value, self._noise(name)))

    def _noise(self, name: str) -> float:
        """Return how far off what is read of a dosed variable may be: noise, and what is not mixed yet."""
        unmixed = abs(getattr(self._witness.plant.assembly.plant, "_unmixed", {}).get(name, 0.0))
        return NOISE.get(name, 0.0) + unmixed

    def _needed_ml(self, name: str, dosing: DosingSpec, setpoint: float) -> float:
        """Return the most that is missing by what the probe has read just now, mL."""
        way, since_s = math.copysign(1.0, dosing.effect_per_ml), self._kernel.now_s - READ_S
        now = self._kernel.now_s, self._truths.channels[name].value, self._noise(name)
        read = [now, *(seen for seen in self._near[name] if seen[0] >= since_s)]
        return max((setpoint - value + way * near) / dosing.effect_per_ml for _, value, near in read)

    def doses(self, pump: str, volume_ml: float) -> None:
        """A dose goes the way that is missing, and is no larger than that; a volume is what was decided."""
        setpoints = self._truths.decided("state IN ('LOOKING', 'ARMED', 'RUNNING')")
        if pump in self._rig.volumes:
            name = next(v.name for v in self._rig.variables if v.actuator == pump)
            wanted_ml = setpoints.get(name, self._rig.volumes[pump].otherwise_ml)
            self._truths.met["volume held against its decision"] += 1
            if abs(volume_ml - wanted_ml) > 0.02:
                self._witness.fail(f"{pump}: {volume_ml} mL leave, {wanted_ml:g} mL were decided")
            return
        dosing = self._rig.dosing.get(pump)
        if dosing is None:  # it goes along with another
            return
        name = next((v.name for v in self._rig.variables if pump in v.actuators), "")
        if name not in setpoints or not self._truths.is_sound(dosing.sensor):
            return
        missing, needed_ml = (
            setpoints[name] - self._truths.channels[name].value,
            self._needed_ml(name, dosing, setpoints[name]),
        )
        self._truths.met["dose held against what is missing"] += 1
        if volume_ml > max(needed_ml, 0.5) + 0.1 or needed_ml < 0:
            self._witness.fail(
                f"{pump}: doses {volume_ml} mL, and {missing:+.3f} of {name} is missing ({needed_ml:.1f} mL)"
            )

    def partners(self, pump: str, volume_ml: float, sent: Mapping[str, Sequence[tuple[float, float]]]) -> None:
        """What goes along with a pump gives its share of what that has just given."""
        for main, dosing in self._rig.dosing.items():
            share = dosing.with_.get(pump)
            if share is not None:
                self._truths.met["partner held against its share"] += 1
                last_ml = sent[main][-1][1] if sent.get(main) else 0.0
                if abs(volume_ml - share * last_ml) > 0.02:
                    self._witness.fail(f"{pump}: {volume_ml} mL leave along with {last_ml} mL of {main}")

    def arrived(self, pump: str, *, dry: bool) -> None:
        """No pump doses on and on while nothing arrives."""
        self._dry[pump] = self._dry[pump] + 1 if dry and pump in self._rig.dosing else 0
        if self._dry[pump] > MOST_UNANSWERED:
            self._witness.fail(f"{pump}: doses for the {self._dry[pump]}th time in a row, and nothing arrives")

    def admitted(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """A pump is left out for what it may give in the campaign only if half of that has left for it, at least."""

        async def admit(guard: Guard, doser: Handle[Any], volume_ml: float, *more: Any) -> DosePermit:
            try:
                permit: DosePermit = await really(guard, doser, volume_ml, *more)
            except CapSpent:
                self._is_spent(doser.name, volume_ml)
                raise
            return permit

        return admit

    def _is_spent(self, pump: str, volume_ml: float) -> None:
        self._truths.met["cap of the campaign reached"] += 1
        for cap in (cap for cap in self._rig.caps if pump in cap.pumps and cap.per_campaign_ml is not None):
            left_ml = sum(ml for other in cap.pumps for _, ml in self._witness.sent.get(other, ()))
            if left_ml + volume_ml > SPENT * (cap.per_campaign_ml or 0.0):
                return
        self._witness.fail(
            f"{pump}: refused {volume_ml:g} mL for the rest of the campaign, and it has given too little"
        )

    def begins(self, trial: int) -> None:
        """A trial begins once its caps have room for the most that its pumps have ever given in one."""
        names, ask = self._truths.decided("trial = ?", trial), self._witness._ask
        pumps = {p for v in self._rig.variables if v.name in names for p in self._rig.pumps_of(v)}
        ((now_s,),) = ask("SELECT max(at_s) FROM events WHERE trial = ?", trial)
        for cap in (cap for cap in self._rig.caps if pumps.intersection(cap.pumps)):
            likely_ml = sum(ask(DEAREST, pump)[0][0] for pump in pumps.intersection(cap.pumps))
            for span_s, most_ml, words in cap.windows:
                given_ml = sum(ask(WITHIN, pump, now_s - span_s)[0][0] for pump in cap.pumps)
                self._truths.met["room in a cap"] += 1
                if given_ml + min(likely_ml, most_ml) > most_ml + 0.01 and likely_ml > 0.0:
                    room = f"{given_ml:g} of {most_ml:g} mL {words} are given"
                    self._witness.fail(f"trial {trial} begins, it may take {likely_ml:g} mL, {cap.name}: {room}")

    def alarmed(self, alarm: Alarm) -> None:
        """Nothing is told of a pump's doses while nothing has been wrong with it since before the last but one."""
        pump = alarm.source
        sent = self._witness.sent.get(pump, [])[self._ended.get(pump, 0) :]
        if alarm.kind not in OF_DOSES or len(sent) < 2 or self.safe_s >= sent[-1][0]:  # else it was broken off
            return
        trouble, circuits = self._truths.trouble, self._witness.plant.assembly.circuits
        circuit = circuits[trouble.bus_of(pump)]
        sound = isinstance(circuit, PumpCircuit) and circuit.pump.faults in _sound(alarm, circuit.pump, sent[-1][1])
        sound = sound and trouble.unpressed
        if sound and trouble.last_s(pump) < sent[-2][0] - READ_S:
            self._witness.fail(f"{pump}: {alarm.kind} is told, and nothing has been wrong with it")

    def ends(self) -> None:
        """Note what has left by the end of a life: how its last dose ends is found out by the next."""
        self._ended = {pump: len(doses) for pump, doses in self._witness.sent.items()}


def _sound(alarm: Alarm, pump: DosingPump, asked_ml: float) -> tuple[PumpFaults, ...]:
    """Return what may be wrong with a pump that gives no reason for an alarm.

    A short dose is known for what it was, if no restart can hide behind a total that one dose reaches.
    """
    known = alarm.kind in ("dose unknown", "total jumped") and pump.total_ml > 1.1 * asked_ml + 0.5
    return (PumpFaults(), PumpFaults(short=pump.faults.short)) if known else (PumpFaults(),)
