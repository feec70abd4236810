"""What moves, held against the plant itself: setpoints, steps, interlocks, trips, and who was asked.

Nothing here goes by what the journal or the program's own counts say, but for what was decided.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.journal import Journal
from rigctl.rig.guard import Guard
from rigctl.rig.rig import Rig
from rigctl.rig.values import Alarm, SafeReport
from sim_rig.plants.parts import Channel
from tests.simulation.books import around
from tests.simulation.controller import Running
from tests.simulation.dosed import Dosed
from tests.simulation.plant import options_of, places
from tests.simulation.richer import FROZEN_S, INTERLOCKS, SLEWS
from tests.simulation.trouble import Trouble
from tests.simulation.way import WayToSafety

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

SEEN_S: Final = 10.0
"""True seconds: whoever reads back now sees what has been so for so long."""
ROUNDED: Final = 0.011
"""Share of a count, or of single precision's digits, by which a register's value differs from what was meant."""
PACE: Final = 1.02
"""A line takes a moment: steps may arrive a little closer together than they were sent."""
SLACK: Final = 0.03
"""Of the range of a variable: what is within that of an interlock's limit may be taken for either side."""
LATE_S: Final = 0.1
"""Seconds that simulated lines may take beyond what is reckoned with."""
CLEAR: Final = 0.15
"""Of the range: so far from its limit an interlock is over, whatever it stands until."""
HEEDS_S: Final = 15.0
"""True seconds from when an interlock holds until everything is let go, on buses without trouble."""
NEVER_S: Final = -1e9
FOUND_S: Final = 30.0
"""What the watch is to find it has found within this, besides the time for which it is to stand, or not long before."""
SENSORS: Final[Mapping[str, tuple[str, ...]]] = {
    "fast": ("speed",), "wet": ("coolant",), "torn": ("feed", "depth"), "hard": ("hardness",),
}  # fmt: skip
"""By interlock: the variables it goes by."""


class Truths:
    """Holds what moves against what the plant has."""

    def __init__(self, witness: Witness, trouble: Trouble) -> None:
        self.witness = witness
        self.kernel = witness.kernel
        self.trouble = trouble
        self.rig = witness.spec.rig
        self._extras = witness.extras
        self.nudged_s: dict[str, float] = {}
        """By variable: when another hand has moved its setpoint."""
        self._written: dict[str, tuple[float, float]] = {}
        """By variable that may not jump: what was written last, and when; forgotten when it is let go."""
        self._queries: Counter[str] = Counter()
        """By pump: how often it was asked in vain."""
        self._asked_s: dict[str, float] = {}
        """By pump: when it was last asked whether it runs."""
        self._holds_since_s: dict[str, float] = {}
        """By interlock: since when it has held, at the plant."""
        self._near_s: dict[str, float] = {}
        """By interlock: when it was last so, or nearly so, at the plant."""
        self._frozen_s: dict[str, float] = {}
        """By sensor that is frozen: since when."""
        self._standing: set[str] = set()
        """Kinds of what the watch has found, and what stands of it."""
        self.met: Counter[str] = Counter()
        self.way = WayToSafety(witness, trouble, self.met)
        self._tolerance = {v.name: v.read_back_tolerance for v in self.rig.variables}
        self._actuators = {v.name: v.actuator or "" for v in self.rig.variables}
        driven = {v.actuator: v.name for v in self.rig.variables if v.actuator not in self.rig.pumps}
        self._registers = {at: driven[device] for at, device in places(self.rig).items() if device in driven}
        self.dosed = Dosed(self)
        mischief = witness.mischief
        mischief._kinds = {**mischief._kinds, "nudge": (3, self._nudge)}

    def installed(self) -> AbstractContextManager[None]:
        return around(
            (Journal, "run", self._begun),
            (Journal, "measure", self._measured),
            (Rig, "safe", self._safe),
            (Guard, "admit_dose", self.dosed.admitted),
        )

    @property
    def channels(self) -> Mapping[str, Channel]:
        plant = self.witness.plant.assembly.plant
        return plant.channels  # type: ignore[union-attr]

    # setpoints ------------------------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        mischief, draw = self.witness.mischief, self.witness.mischief.draw
        switched = {v.name for v in self.rig.variables if v.actuator and v.actuator not in self.rig.pumps}
        running = [name for name in sorted(switched) if self.channels[name].enabled]
        if not running:
            return
        name = draw.choice(running)
        channel, by = self.channels[name], self._tolerance[name] * draw.uniform(1.5, 20.0)
        low, high = channel.variable.low, channel.variable.high
        channel.setpoint = channel.setpoint - by if channel.setpoint + by > high else channel.setpoint + by
        channel.setpoint = min(max(channel.setpoint, low), high)
        self.nudged_s[name] = mischief.hand_at_s = self.kernel.now_s
        self._written.pop(name, None)
        mischief._tell("nudged", variable=name, to=round(channel.setpoint, 4))
        mischief._dirty(30.0)

    def decided(self, which: str, *parameters: object) -> Mapping[str, Any]:
        """Return the setpoints that were decided for a trial; none if there is no such trial."""
        rows = self.witness._ask(f"SELECT setpoints FROM trials WHERE {which}", *parameters)  # noqa: S608 - our own
        return dict(json.loads(rows[0][0])) if rows else {}

    def _astray(self, trial: int) -> list[str]:
        """Return what the plant holds otherwise than was decided, and has for a while."""
        found = []
        for name, value in self.decided("trial = ?", trial).items():
            actuator = self._actuators.get(name, "")
            if actuator in self.rig.pumps or name not in self.channels or not isinstance(value, int | float):
                continue
            if self.kernel.now_s - self.nudged_s.get(name, -1e9) < SEEN_S or not self.trouble.quiet(actuator):
                continue
            channel = self.channels[name]
            self.met["setpoint held against the plant"] += 1
            if abs(channel.setpoint - value) > self._tolerance[name] + ROUNDED * max(1.0, abs(value)):
                found.append(f"{name} is at {channel.setpoint:g}, {value:g} was decided")
        return found

    def _begun(self, really: Callable[..., None]) -> Callable[..., None]:
        """A trial is RUNNING only with its setpoints, and with its pumps' variables at theirs."""

        def run(journal: Journal, trial: int, *more: Any) -> None:
            if astray := [*self._astray(trial), *self.dosed.off(trial)]:
                self.witness.fail(f"trial {trial} is RUNNING, and {', '.join(astray)}")
            really(journal, trial, *more)

        return run

    def _measured(self, really: Callable[..., None]) -> Callable[..., None]:
        """A read-back outside its tolerance is never accepted: a trial is MEASURED only with its setpoints."""

        def measure(journal: Journal, trial: int, *more: Any) -> None:
            if astray := self._astray(trial):
                self.witness.fail(f"trial {trial} is MEASURED, and {', '.join(astray)}")
            really(journal, trial, *more)

        return measure

    def is_sound(self, sensor: str) -> bool:
        """Tell whether a sensor has told what is so for a while."""
        tap = self.witness.plant.assembly.sensors[sensor]
        return tap.mode == "ok" and self.trouble.told_true_s(sensor) > 150.0

    # what leaves ----------------------------------------------------------------------------------------------------

    def moves(self, what: str) -> None:
        """A latched trip is looked at, by a person, before anything moves."""
        if self.witness._ask("SELECT 1 FROM trips WHERE reset_utc IS NULL"):
            self.witness.fail(f"{what}: driven, and a trip is latched")
        self.met["moved with trips looked at"] += 1

    def writes(self, pdu: bytes) -> None:
        """What may not jump goes in steps no larger and no faster than it may."""
        if len(pdu) < 5:
            return
        at = struct.unpack(">H", pdu[1:3])[0]
        if pdu[0] == 5 and pdu[3:5] == b"\0\0":
            self._written.pop(self._registers.get(("coil", at), ""), None)
            return
        name = self._registers.get(("holding", at), "")
        slew = SLEWS.get(self.rig.name, {}).get(self._actuators.get(name, "")) if "slew" in self._extras else None
        if pdu[0] not in (6, 16) or slew is None:
            return
        value, now_s = self._value(name, pdu), self.kernel.now_s
        channel, rounding = self.channels[name], 2 * ROUNDED
        before = self._written.get(name)
        self._written[name] = value, now_s
        if not channel.enabled:  # it begins where its variable is, as its probe reads it
            sensor = next(v.sensor for v in self.rig.variables if v.name == name)
            if self.witness.plant.assembly.sensors[sensor].mode != "ok":
                return  # by a probe that lies it begins anywhere
            before = channel.value, NEVER_S
            rounding += SLACK * (channel.variable.high - channel.variable.low)
        elif before is None:
            return
        step, rate_per_s = slew
        change = abs(value - before[0])
        self.met["step of a ramp"] += 1
        if step is not None and change > step * PACE + rounding:
            self.witness.fail(f"{name}: stepped by {change:g}, {step:g} is allowed")
        if rate_per_s is not None and change > PACE * rate_per_s * (now_s - before[1] + 0.1) + rounding:
            self.witness.fail(
                f"{name}: stepped by {change:g} in {now_s - before[1]:.2f} s, {rate_per_s:g}/s is allowed"
            )

    def _value(self, name: str, pdu: bytes) -> float:
        write = options_of(self.rig, self._actuators.get(name, ""))["write"]
        if pdu[0] == 6:
            return float(struct.unpack(">h", pdu[3:5])[0]) * float(write.get("scale") or 1.0)
        words = pdu[6:10]
        order = str(write.get("order") or "ABCD")
        return float(struct.unpack(">f", bytes(words[order.index(letter)] for letter in "ABCD"))[0])

    def asks(self, pump: str) -> None:
        self._asked_s[pump] = self.kernel.now_s

    # safe -----------------------------------------------------------------------------------------------------------

    def _safe(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """A pump is called safe only once it was asked whether it stands still."""

        async def safe(rig: Rig) -> SafeReport:
            began_s = self.dosed.safe_s = self.kernel.now_s
            self.witness.promises.overrun.safes_s.append(began_s)
            report: SafeReport = await really(rig)
            self._is_in_time(rig, report, self.kernel.now_s - began_s)
            self.way.ends(report, began_s)
            for pump in (name for name in report.reached if name in self.rig.pumps):
                self.met["standstill asked"] += 1
                if self._asked_s.get(pump, -1e9) < began_s:
                    self.witness.fail(f"{pump}: called safe, and nobody has asked it whether it runs")
            return report

        return safe

    def _is_in_time(self, rig: Rig, report: SafeReport, took_s: float) -> None:
        """With healthy devices everything is confirmed safe within what is said of the rig."""
        if not report.ok or not self.trouble.quiet_all:
            return
        self.met["safe in time"] += 1
        promised_s = rig.time_to_safe().confirmed_s
        if took_s > promised_s + LATE_S:
            self.witness.fail(f"everything is safe after {took_s:.2f} s, {promised_s:.2f} s were promised")

    # interlocks -----------------------------------------------------------------------------------------------------

    def alarmed(self, alarm: Alarm) -> None:
        """An interlock that is told of is so, or nearly."""
        (self._standing.discard if alarm.state == "over" else self._standing.add)(alarm.kind)
        name, sensors = alarm.kind.removeprefix("interlock "), {v.name: v.sensor for v in self.rig.variables}
        if alarm.state != "stands" or name == alarm.kind or name not in SENSORS:
            return
        if all(self.is_sound(sensors[variable]) for variable in SENSORS[name]):
            self.met["interlock told"] += 1
            if self.kernel.now_s - self._near_s.get(name, NEVER_S) > FOUND_S:
                self.witness.fail(f"{name} is told, and it is not so: {alarm.message}")

    def _sees_frozen(self, running: Running) -> None:
        """A sensor that stands still is found, where it is watched for that."""
        now_s = self.kernel.now_s
        for variable in self.rig.variables:
            if variable.name not in ("ph", "speed"):
                continue
            if self.witness.plant.assembly.sensors[variable.sensor].mode != "frozen":
                self._frozen_s.pop(variable.sensor, None)
                continue
            up_s = running.safe_first_s if running.safe_first_s is not None and not running.life.dead else now_s
            since_s = max(self._frozen_s.setdefault(variable.sensor, now_s), up_s)
            if now_s - since_s > FROZEN_S + FOUND_S and self.trouble.last_s(variable.sensor) < since_s:
                self.met["frozen for long"] += 1
                if "frozen sensor" not in self._standing:
                    self.witness.fail(f"{variable.sensor}: frozen for {now_s - since_s:.0f} s, and nothing says so")

    def glance(self, running: Running) -> None:
        """An interlock that holds at the plant lets everything go; one that does not is no reason to."""
        if "frozen" in self._extras:
            self._sees_frozen(running)
        if "interlocks" not in self._extras or self.rig.name not in INTERLOCKS:
            return
        now_s = self.kernel.now_s
        self._near_s |= {name: now_s for name, near in _held(self.rig.name, self.channels, -SLACK) if near}
        for name, holds in _held(self.rig.name, self.channels):
            if not holds or not self.trouble.quiet_all:
                self._holds_since_s.pop(name, None)
                continue
            since_s = self._holds_since_s.setdefault(name, now_s)
            driven = [n for n in self.witness.driven() if self.trouble.untouched(n)]
            self.met["interlock held"] += 1
            if driven and now_s - since_s > HEEDS_S:
                self.witness.fail(f"{', '.join(driven)}: driven, and {name} has held for {now_s - since_s:.0f} s")

    def cleared(self) -> None:
        """Do what a person does whom an interlock on something that nobody drives has called: bring other values."""
        if "interlocks" not in self._extras or self.rig.name not in INTERLOCKS or self.witness.driven():
            return
        while any(holds for _, holds in _held(self.rig.name, self.channels, -CLEAR)):
            for channel in self.channels.values():
                channel.draw()
                channel.value = channel.natural

    def ends(self) -> None:
        self._holds_since_s.clear()
        self._standing.clear()
        self.dosed.ends()


def _held(rig: str, channels: Mapping[str, Channel], doubt: float = SLACK) -> Iterator[tuple[str, bool]]:
    """Give the interlocks and whether each holds, beyond the `doubt` that noise could raise, share of a range."""

    def beyond(name: str, sign: str, limit: float) -> bool:
        variable = channels[name].variable
        slack = doubt * (variable.high - variable.low)
        value = channels[name].value
        return value > limit + slack if sign == ">" else value < limit - slack

    if rig == "lathe":
        yield "fast", beyond("speed", ">", 290.0)
        yield "wet", beyond("coolant", ">", 10.0)
        yield "torn", beyond("feed", ">", 0.36) and beyond("depth", ">", 1.8)
        yield "hard", beyond("hardness", ">", 272.0)
