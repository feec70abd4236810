"""Instruments that live in memory, speak the protocols, and fail when told to."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rigctl.errors import DeviceTimeout
from rigctl.rig.clocks import Clock
from rigctl.rig.dose_log import Unanswered
from rigctl.rig.guard import Booked
from rigctl.rig.limits import ActuatorLimits, caps_of
from rigctl.rig.protocols import (
    Actuator,
    ActuatorState,
    Deadline,
    Device,
    DeviceOptions,
    Doser,
    DoseStatus,
    Driver,
    Identity,
    Line,
    Meter,
    Reading,
    Sensor,
    Severity,
)
from rigctl.rig.rig import Rig
from rigctl.rig.spec import (
    DeviceSpec,
    DosingSpec,
    MeasureSpec,
    OutcomeSpec,
    PrepareStep,
    RigSpec,
    TrialTiming,
    VariableWiring,
)
from rigctl.rig.values import Alarm, News


class FakeClock(Clock):
    """Rig time that passes only when somebody sleeps."""

    speedup = 1.0

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += max(seconds, 0.0)

    async def rest(self, seconds: float) -> None:
        until_s = self.time_s + max(seconds, 0.0)
        await asyncio.sleep(0)
        self.time_s = max(self.time_s, until_s)


class FakeLine(Line):
    """A wire that remembers what was done to it."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self.url = url
        self.clock = clock
        self.log: list[str] = []
        self.open_errors: deque[Exception] = deque()

    def open(self) -> None:
        self.log.append("open")
        if self.open_errors:
            raise self.open_errors.popleft()

    def close(self) -> None:
        self.log.append("close")

    def resync(self) -> None:
        self.log.append("resync")

    def press_on(self) -> None:
        self.log.append("press on")


class Faulty(Device):
    """Raises what was queued for an operation, before or after doing it."""

    def __init__(self, name: str, line: FakeLine) -> None:
        self.name = name
        self.line = line
        self.identity = Identity("fake", "1.0", name)
        self.before: dict[str, deque[Exception]] = {}
        self.after: dict[str, deque[Exception]] = {}
        self.threads: set[str] = set()

    def fail(self, operation: str, *errors: Exception) -> None:
        """The next calls raise, and nothing happens."""
        self.before.setdefault(operation, deque()).extend(errors)

    def lose_reply(self, operation: str) -> None:
        """The next call does what it should and times out all the same."""
        self.fail_after(operation, DeviceTimeout(f"{self.name}: {operation}: reply lost"))

    def fail_after(self, operation: str, *errors: Exception) -> None:
        """The next calls do what they should and raise all the same."""
        self.after.setdefault(operation, deque()).extend(errors)

    def begin(self, operation: str) -> None:
        self.threads.add(threading.current_thread().name)
        self.line.log.append(f"{self.name} {operation}")
        if self.before.get(operation):
            raise self.before[operation].popleft()

    def end(self, operation: str) -> None:
        if self.after.get(operation):
            raise self.after[operation].popleft()

    def identify(self, deadline: Deadline) -> Identity:
        self.begin("identify")
        return self.identity


class FakeSensor(Faulty, Sensor):
    """Reads whatever its source says."""

    unit = "mM"

    def __init__(self, name: str, line: FakeLine, source: Callable[[], float], unit: str = "mM") -> None:
        super().__init__(name, line)
        self.source = source
        self.unit = unit

    def read(self, deadline: Deadline) -> Reading:
        self.begin("read")
        return Reading(self.source(), self.unit, self.line.clock.now_s())


class FakeActuator(Faulty, Actuator):
    """A setpoint register with an enable coil."""

    def __init__(self, name: str, line: FakeLine, unit: str = "mM", *, switch: bool = False) -> None:
        super().__init__(name, line)
        self.unit = unit
        self.switch = switch
        self.state = ActuatorState(controlled=True, setpoint=99.0)  # whatever was left behind
        self.deaf = False
        self.applied: list[float] = []

    def apply(self, value: float, deadline: Deadline) -> None:
        self.begin("apply")
        self.applied.append(value)
        if not self.deaf:
            self.state = ActuatorState(controlled=True, setpoint=None if self.switch else value)
        self.end("apply")

    def release(self, deadline: Deadline) -> None:
        self.begin("release")
        if not self.deaf:
            self.state = ActuatorState(controlled=False, setpoint=None)
        self.end("release")

    def safe(self, deadline: Deadline) -> None:
        self.begin("safe")
        if not self.deaf:
            self.state = ActuatorState(controlled=False, setpoint=None)
        self.end("safe")

    def read_back(self, deadline: Deadline) -> ActuatorState:
        self.begin("read_back")
        return self.state


class FakePump(Faulty, Doser, Meter):
    """Dispenses at its rate in rig time; also its own volume meter."""

    min_dose_ml = 0.5
    max_rate_ml_per_min = 60.0
    meter_unit = "mL"

    def __init__(self, name: str, line: FakeLine) -> None:
        super().__init__(name, line)
        self.total_ml = 100.0
        self.started: list[float] = []
        self.short = 1.0
        """Share of each dose that really comes out."""
        self.endless = False
        self.reset_after_start = False
        self.fault_after_start = ""
        self.unstoppable = False
        self._status = DoseStatus(running=False, dispensed_ml=0.0)
        self._dose_ml = 0.0
        self._since_s = 0.0

    def ready(self, deadline: Deadline) -> None:
        self.begin("ready")

    def start_dose(self, volume_ml: float, deadline: Deadline) -> None:
        self.begin("start_dose")
        self.started.append(volume_ml)
        if self.fault_after_start:
            self._status = DoseStatus(running=False, dispensed_ml=0.0, fault=self.fault_after_start)
        elif self.reset_after_start:
            self.total_ml = 0.0
            self._status = DoseStatus(running=False, dispensed_ml=0.0, reset=True)
        else:
            self._status = DoseStatus(running=True, dispensed_ml=0.0)
            self._dose_ml, self._since_s = volume_ml * self.short, self.line.clock.now_s()
        self.end("start_dose")

    def _advance(self) -> None:
        if not self._status.running:
            return
        poured_ml = (self.line.clock.now_s() - self._since_s) * self.max_rate_ml_per_min / 60.0
        ended = poured_ml >= self._dose_ml and not self.endless
        poured_ml = self._dose_ml if ended else poured_ml
        self.total_ml += poured_ml - self._status.dispensed_ml
        self._status = DoseStatus(running=not ended, dispensed_ml=poured_ml)

    def dose_status(self, deadline: Deadline) -> DoseStatus:
        self.begin("dose_status")
        self._advance()
        told = self._status
        self._status = DoseStatus(told.running, told.dispensed_ml)
        return told

    def total_volume_ml(self, deadline: Deadline) -> Reading:
        self.begin("total_volume_ml")
        self._advance()
        return Reading(self.total_ml, "mL", self.line.clock.now_s())

    def total(self, deadline: Deadline) -> Reading:
        return self.total_volume_ml(deadline)

    def stop(self, deadline: Deadline) -> None:
        self.begin("stop")
        self._advance()
        if not self.unstoppable:
            self._status = DoseStatus(running=False, dispensed_ml=self._status.dispensed_ml)
        self.end("stop")

    def restart(self) -> None:
        """Power fails and comes back while nobody looks."""
        self.total_ml = 0.0
        self._status = DoseStatus(running=False, dispensed_ml=0.0)

    def run_alone(self) -> None:
        """Somebody pressed its button."""
        self.endless = True
        self._status = DoseStatus(running=True, dispensed_ml=0.0)
        self._since_s = self.line.clock.now_s()


class FakeMeter(Faulty, Meter):
    """A counter."""

    meter_unit = "kWh"

    def __init__(self, name: str, line: FakeLine) -> None:
        super().__init__(name, line)
        self.value = 12.5

    def total(self, deadline: Deadline) -> Reading:
        self.begin("total")
        return Reading(self.value, "kWh", self.line.clock.now_s(), Severity.NONE)


def in_a_day(ml: float, limits: ActuatorLimits) -> tuple[Booked, ...]:
    """Return what a guard knows of a pump that has given so much in the last 24 hours."""
    return tuple(Booked(cap, dict.fromkeys(cap.most_ml, ml)) for cap in caps_of({"pump": limits}, {}))


class Heard(News):
    """Keeps all that is told in a list."""

    def __init__(self, alarms: list[Alarm]) -> None:
        self._alarms = alarms

    def alarm(self, alarm: Alarm) -> None:
        self._alarms.append(alarm)


@dataclass
class FakeDoseLog:
    """The dose protocol's memory, as a list of what was recorded, and of what became of each dose."""

    records: list[tuple[object, ...]] = field(default_factory=list)
    rows: list[tuple[str, str, float]] = field(default_factory=list)
    """Pump, state and mL of each dose."""
    booked_ml: float = 0.0
    """What every pump has given before."""
    answers: list[tuple[str, str, float, bool]] = field(default_factory=list)
    """Pump, probe, how far it was to move, and whether it did."""
    unmoved: Counter[str] = field(default_factory=Counter)
    """Doses in a row without response, by pump."""

    async def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        self.records.append(("intend", actuator, volume_ml, total_before_ml))
        self.rows.append((actuator, "INTENT", volume_ml))
        return len(self.rows)

    def _becomes(self, dose: int, state: str, volume_ml: float | None = None) -> None:
        if dose <= len(self.rows):  # else it was left by a process before
            pump, _, asked_ml = self.rows[dose - 1]
            self.rows[dose - 1] = (pump, state, asked_ml if volume_ml is None else volume_ml)

    async def sent(self, dose: int) -> None:
        self.records.append(("sent", dose))
        self._becomes(dose, "SENT")

    async def done(self, dose: int, volume_ml: float, note: str) -> None:
        self.records.append(("done", dose, round(volume_ml, 6)))
        self._becomes(dose, "DONE", round(volume_ml, 6))

    async def unknown(self, dose: int, volume_ml: float, note: str) -> None:
        self.records.append(("unknown", dose, volume_ml))
        self._becomes(dose, "UNKNOWN", volume_ml)

    async def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        self.records.append(("found", actuator, volume_ml, total_before_ml))
        self.rows.append((actuator, "FOUND", volume_ml))

    async def given_ml(self, pumps, since_s) -> float:
        return self.booked_ml * len(pumps) + sum(ml for pump, _, ml in self.rows if pump in pumps)

    async def answered(self, actuator: str, probe: str, *, moved: float, expected: float, answered: bool) -> None:
        self.answers.append((actuator, probe, expected, answered))
        self.unmoved[actuator] = 0 if answered else self.unmoved[actuator] + 1

    async def unanswered(self, actuator: str, probe: str) -> Unanswered:
        return Unanswered(self.unmoved[actuator], 1)

    @property
    def steps(self) -> list[object]:
        return [r[0] for r in self.records]


class FakeRegistry:
    """Hands out devices made beforehand."""

    def __init__(self, lines: Mapping[str, FakeLine], devices: Mapping[str, Faulty]) -> None:
        self._devices = devices
        self._lines = lines

    def driver(self, name: str) -> type[Driver]:
        """Each device has a driver of its own, called as it is."""
        device = self._devices[name]

        class FakeDriver(Driver):
            summary = "made beforehand"
            schemes = ("fake",)
            options = DeviceOptions

            @staticmethod
            def connect(options, line):
                return device

        FakeDriver.name = name
        return FakeDriver

    def open_line(self, url: str, clock: object) -> FakeLine:
        if url not in self._lines:
            raise ValueError(f"got {url!r}, no such line")
        return self._lines[url]


class Bench:
    """A small rig: `ca` is dosed, `b` has a valve, `t` is only measured, `growth` is the outcome."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.lines = {url: FakeLine(url, self.clock) for url in ("fake://plc", "fake://pump", "fake://mains")}
        plc, pump, mains = self.lines.values()
        self.plc, self.pump_line, self.mains_line = plc, pump, mains
        self.alarms: list[Alarm] = []
        self.rigs: list[Rig] = []
        self.doses = FakeDoseLog()
        self.tank_ca = 2.6
        self.effect = 0.05
        """What a mL really does."""
        self.pump = FakePump("ca_doser", pump)
        self.valve = FakeActuator("b_valve", plc, "uM")
        self.softener = FakeActuator("softener", plc, switch=True)
        self.refill = FakeActuator("refill", plc, switch=True)
        self.meter = FakeMeter("mains_meter", mains)
        self.ca_probe = FakeSensor("ca_probe", plc, self._ca)
        self.b_probe = FakeSensor("b_probe", plc, lambda: 28.0, "uM")
        self.t_probe = FakeSensor("t_probe", plc, lambda: 21.0, "degC")
        self.camera = FakeSensor("camera", mains, lambda: 7.0, "cm2/day")
        self._base_ml = self.pump.total_ml
        on_line: list[Faulty] = [self.pump, self.valve, self.softener, self.refill, self.meter]
        on_line += [self.ca_probe, self.b_probe, self.t_probe, self.camera]
        self.devices = {d.name: d for d in on_line}
        self.registry = FakeRegistry(self.lines, self.devices)

    def _ca(self) -> float:
        start = 0.2 if self.softener.state.controlled else self.tank_ca
        return start + self.effect * (self.pump.total_ml - self._base_ml)

    def spec(self) -> RigSpec:
        off = ActuatorLimits(low=0.0, high=1.0, safe_state="off")
        return RigSpec(
            name="bench",
            devices={n: DeviceSpec(n, n, d.line.url, DeviceOptions(), timeout_s=1.0) for n, d in self.devices.items()},
            variables=(
                VariableWiring("ca", "ca_probe", "ca_doser", 0.05),
                VariableWiring("b", "b_probe", "b_valve", 0.01),
                VariableWiring("t", "t_probe", None, 0.01),
            ),
            outcomes=(OutcomeSpec(name="growth", unit="1", sensor="camera"),),
            timing=TrialTiming(480.0, MeasureSpec(120.0, 15.0, "median", 3), (PrepareStep("refill", 1.0, 120.0),)),
            meters=(),
            limits={
                "ca_doser": ActuatorLimits(low=0.5, high=6.0, safe_state="off", per_dose_ml=50.0, per_day_ml=400.0),
                "b_valve": ActuatorLimits(low=5.0, high=60.0, safe_state="off"),
                "softener": off,
                "refill": off,
            },
            dosing={"ca_doser": DosingSpec("ca_probe", 0.05, 0.08, 45.0, 6, "softener")},
            plausible={"b_probe": (0.0, 200.0)},
        )

    def messages(self, severity: Severity | None = None) -> list[str]:
        return [a.message for a in self.alarms if severity in {None, a.severity}]
