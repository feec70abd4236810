"""The rig as the campaign sees it: control, measure, meter, safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rigctl.errors import DeviceError
from rigctl.rig.bus import Bus
from rigctl.rig.dosing import Dispenser
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle
from rigctl.rig.imposing import Imposer, told
from rigctl.rig.lookout import Lookout
from rigctl.rig.measuring import Probe, Rest, invalid, judged, reduced, resting, sample_window
from rigctl.rig.protocols import (
    Actuator,
    ActuatorState,
    Clock,
    Deadline,
    Device,
    DoseLog,
    Doser,
    Identity,
    Meter,
    Reading,
    Sensor,
    Severity,
)
from rigctl.rig.safing import drive_safe
from rigctl.rig.spec import RigSpec
from rigctl.rig.together import combined, together
from rigctl.rig.values import Alarm, Glance, Measurement, OpenDose, SafeReport
from rigctl.rig.wire import BusTiming
from rigctl.rig.wiring import Instruments, wired


class Rig:
    """All instruments of one rig.

    Args:
        spec: what it is made of.
        registry: where drivers and lines are found.
        clock: rig time.
        doses: the dose protocol's memory.
        on_alarm: told, in the event loop, of everything a person should know.
        rest: sleeps rig time; by the clock unless told otherwise.
        bus_timing: how patient the buses are.

    Raises:
        ConfigError: the wiring does not hold (see `rigctl.rig.wiring.wired`); nothing was opened.
    """

    def __init__(
        self,
        spec: RigSpec,
        registry: Instruments,
        clock: Clock,
        doses: DoseLog,
        on_alarm: Callable[[Alarm], None],
        *,
        rest: Rest | None = None,
        bus_timing: BusTiming | None = None,
    ) -> None:
        self.spec = spec
        self.guard = Guard(spec.limits, doses, clock)
        self._clock = clock
        self._doses = doses
        self._on_alarm = on_alarm
        self._rest = rest or resting(clock)
        self._unsafe: frozenset[str] = frozenset()
        self._wiring = wired(spec, registry, clock, on_alarm, bus_timing)
        self._dispenser = Dispenser(self.guard, doses, clock, self._rest, on_alarm, trip=self.trip)
        self._imposer = Imposer(spec, self._wiring, self.guard, self._dispenser, self._rest, on_alarm)
        self._lookout = Lookout(
            wiring=self._wiring,
            spec=spec.watch,
            guard=self.guard,
            doses=doses,
            clock=clock,
            driven=lambda: self.driven,
            denial=self._imposer.denial,
            dosing=lambda: self._dispenser.turns,
            on_alarm=on_alarm,
        )

    @property
    def tripped(self) -> str | None:
        """Why the trip is latched, or None."""
        return self.guard.tripped

    async def open(self) -> Mapping[str, Identity]:
        """Open every bus and identify every device; nothing is written before all have answered as they should.

        Returns:
            Who answered, by device name.

        Raises:
            DeviceError: of the worst kind found, with the messages of all: `PortUnavailable` names the port (and its
                holder), `IdentityMismatch` the wrong instrument, `DeviceFault` the register, `DeviceTimeout` the
                silent device. What could be opened stays open, so that it can still go `safe`; `close` closes it.
        """
        wiring = self._wiring
        found: dict[str, Identity] = {}
        errors: list[DeviceError] = []
        await together(*(self._open_bus(bus, found, errors) for bus in wiring.buses.values()))
        if errors:
            raise combined(errors)
        return {name: found[name] for name in wiring.handles}

    async def _open_bus(self, bus: Bus, found: dict[str, Identity], errors: list[DeviceError]) -> None:
        try:
            await bus.open()
        except DeviceError as error:
            errors.append(error)
            return
        for name, handle in self._wiring.handles.items():
            if handle.bus is bus:
                try:
                    found[name] = await handle.identify()
                except DeviceError as error:
                    errors.append(error)

    async def probe(self) -> Mapping[str, str]:
        """Read-only: who answers and one reading, by device name; errors as text. Needs no `open`."""
        handles = self._wiring.handles
        texts = await together(*map(self._probed, handles.values()))
        return dict(zip(handles, texts, strict=True))

    async def _probed(self, handle: Handle[Device]) -> str:
        try:
            identity = await handle.identify()
            reading = await handle.ask(partial(_any_reading, handle.device), "read")
        except DeviceError as error:
            return f"{type(error).__name__}: {error}"
        who = " ".join(filter(None, (identity.model, identity.firmware, identity.serial)))
        return f"{who}: {reading}"

    async def control(self, setpoints: Mapping[str, float]) -> Mapping[str, ActuatorState]:
        """Impose these setpoints and nothing else.

        Releases what is not chosen, imposes what is (treatments before dosing), carries out the prepare steps, doses,
        then reads everything back. If it raises or is cancelled, the rig is left as it was then: go `safe`.

        Args:
            setpoints: by variable name, engineering units.

        Returns:
            The confirmed state of every variable that has an actuator.

        Raises:
            GuardRefused: a setpoint or dose is not allowed; setpoints are checked before anything moves.
            Tripped: the trip is latched, or a pump ran past its deadline.
            ReadBackMismatch: something is not where it was sent, or a dosed variable cannot be brought there.
            DeviceError: a device refused, or it cannot be known what it did.
            JournalError: a dose cannot be recorded.
        """
        return await self._imposer.control(setpoints)

    async def measure(self) -> Mapping[str, Measurement]:
        """A window of every sensor, as `spec.timing.measure` says; by the names of variables and outcomes.

        A sensor without a single valid sample gives an INVALID measurement, never an exception.
        """
        spec = self.spec.timing.measure
        windows = await sample_window(self._wiring.probes, spec, self._clock, self._rest)
        out = {p.name: reduced(windows[p.name], spec.statistic, spec.min_count) for p in self._wiring.probes}
        for name, measurement in out.items():
            if measurement.severity is not Severity.NONE:
                severity = min(measurement.severity, Severity.MAJOR)
                self._on_alarm(Alarm(severity, name, measurement.detail))
        return out

    async def meters(self) -> Mapping[str, Reading]:
        """The counters now, by meter name (kinds energy and volume); one that cannot be read is INVALID."""
        handles = self._wiring.meters
        readings = await together(*(self._metered(n, h) for n, h in handles.items()))
        return dict(zip(handles, readings, strict=True))

    async def _metered(self, name: str, handle: Handle[Meter]) -> Reading:
        try:
            reading = judged(await handle.ask(handle.device.total, "total"), None)
        except DeviceError as error:
            reading = invalid(handle.device.meter_unit, self._clock.now_s(), f"{type(error).__name__}: {error}")
        if not reading.valid:
            self._on_alarm(Alarm(Severity.MINOR, handle.name, f"meter {name} cannot be read: {reading.detail}"))
        return reading

    async def snapshot(self) -> Mapping[str, Reading]:
        """One reading of each sensor now, by the names of variables and outcomes; INVALID if it cannot be read."""
        probes = self._wiring.probes
        readings = await together(*map(Probe.read, probes))
        return {p.name: r for p, r in zip(probes, readings, strict=True)}

    async def safe(self) -> SafeReport:
        """Drive everything to its declared safe state in less than 2 s of wall time, ahead of all that waits.

        Pumps are stopped, treatments released. Raises nothing; the report says what could not be confirmed, and an
        alarm what could be confirmed the last time. Needs no `open`. Cancel a running `control` first: it would go on
        imposing.
        """
        self._imposer.driven.clear()
        report = await drive_safe(self.spec, self._wiring, self.guard)
        for name, why in report.failed.items():
            if name not in self._unsafe:  # one alarm, not one per attempt
                self._on_alarm(Alarm(Severity.MAJOR, name, f"not confirmed in its safe state: {why}"))
        self._unsafe = frozenset(report.failed)
        return report

    @property
    def driven(self) -> Mapping[str, float]:
        """Actuators that hold a value now, as far as is known."""
        return self._imposer.driven

    async def verify(self) -> Mapping[str, str]:
        """Read back every driven actuator; those that do not hold, and what they say instead.

        Raises:
            DeviceError: one cannot be asked.
        """
        return await self._imposer.verify()

    def look(self) -> Glance:
        """What the rig was last seen to be; begins what has to be asked, and waits for nothing."""
        return self._lookout.glance()

    async def roll_call(self) -> Mapping[str, str]:
        """Ask every device who it is; what is wrong, by the name of those that do not answer as they should."""
        handles = self._wiring.handles
        answers = await together(*map(_missing, handles.values()))
        return {name: why for name, why in zip(handles, answers, strict=True) if why}

    async def settle_doses(self, open_doses: Sequence[OpenDose]) -> None:
        """Settle doses whose end was not recorded, after a crash or a cancelled `control`; sends none.

        From the pump's total where it can testify, else booked in full with a MAJOR alarm. A pump found running is
        stopped.

        Raises:
            JournalError: the outcome cannot be recorded.
        """
        for left in open_doses:
            pump = self._wiring.dosers.get(left.actuator)
            if pump is not None:
                await self._dispenser.settle(pump, left)
                continue
            why = f"no doser is called {left.actuator} any more"
            await self._doses.unknown(left.dose, left.volume_ml, why)
            message = f"dose {left.dose} of {left.volume_ml:g} mL: unknown, booked in full: {why}"
            self._on_alarm(Alarm(Severity.MAJOR, left.actuator, message))

    async def trip(self, reason: str) -> SafeReport:
        """Latch the trip, then everything to its safe state. Only a person resets it (`guard.reset_trip`)."""
        self.guard.trip(reason)
        self._on_alarm(Alarm(Severity.MAJOR, self.spec.name, f"tripped: {reason}"))
        return await self.safe()

    async def close(self) -> None:
        """Close every bus; what still waits on one is dropped."""
        await self._lookout.close()
        await together(*(bus.close() for bus in self._wiring.buses.values()))


async def _missing(handle: Handle[Device]) -> str:
    try:
        await handle.identify()
    except DeviceError as error:
        return str(error)
    return ""


def _any_reading(device: Device, deadline: Deadline) -> str:
    """One thing a device can be asked without changing anything, in words."""
    if isinstance(device, Sensor):
        return _in_words(device.read(deadline))
    if isinstance(device, Doser):
        return "running" if device.dose_status(deadline).running else "at rest"
    if isinstance(device, Meter):
        return _in_words(device.total(deadline))
    if isinstance(device, Actuator):
        return told(device.read_back(deadline), device.unit)
    return "answers"


def _in_words(reading: Reading) -> str:
    return f"{reading.value:g} {reading.unit}" if reading.valid else f"INVALID ({reading.detail})"
