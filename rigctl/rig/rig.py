"""The rig as the campaign sees it: control, measure, meter, safe."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rigctl.logs import logger
from rigctl.rig.bus import BusTiming
from rigctl.rig.by_hand import Hands
from rigctl.rig.clocks import Clock
from rigctl.rig.dead_man import check_all
from rigctl.rig.dose_log import DoseLog
from rigctl.rig.dosing import Dispenser
from rigctl.rig.guard import Guard
from rigctl.rig.handle import by_line, together
from rigctl.rig.imposing import Imposer
from rigctl.rig.lookout import Lookout
from rigctl.rig.measuring import Probe, reduced, sample_window
from rigctl.rig.metering import Metering
from rigctl.rig.opening import missing, open_all, probed, refuse_real_time_lapse
from rigctl.rig.protocols import ActuatorState, Identity, Reading, Severity
from rigctl.rig.registry import Registry
from rigctl.rig.safing import drive_safe, time_to_safe
from rigctl.rig.spec import RigSpec
from rigctl.rig.titration import Evidence
from rigctl.rig.values import Measurement, News, OpenDose, SafeReport, SafeTimes
from rigctl.rig.wiring import wired
from rigctl.text import in_full


class Rig:
    """All instruments of one rig; `news` is told of everything a person should know.

    Raises:
        ConfigError: the wiring does not hold (see `rigctl.rig.wiring.wired`); nothing was opened.
    """

    def __init__(
        self,
        spec: RigSpec,
        registry: Registry,
        clock: Clock,
        doses: DoseLog,
        news: News,
        *,
        bus_timing: BusTiming | None = None,
    ) -> None:
        self.spec = spec
        self.guard = Guard(spec.limits, doses, clock, tanks=spec.tanks)
        self._clock = clock
        self._doses = doses
        self._news = news
        self._unsafe: frozenset[str] = frozenset()
        self._wiring = wired(spec, registry, clock, news, bus_timing)
        self._dispenser = Dispenser(self.guard, doses, clock, news, trip=self.trip)
        evidence = Evidence(doses, spec.unanswered_doses, self.trip)
        tariffs, aside = {m.name: m.tariff for m in spec.meters if m.tariff is not None}, self._wiring.aside
        self._metering = Metering(self._wiring.meters, spec.timing, clock, news, tariffs, aside=aside)
        self._imposer = Imposer(spec, self._wiring, self.guard, self._dispenser, clock, news, evidence)
        self._lookout = Lookout(
            wiring=self._wiring,
            spec=spec.watch,
            guard=self.guard,
            doses=doses,
            clock=clock,
            driven=lambda: self.driven,
            denial=self._imposer.denial,
            dosing=lambda: self._dispenser.turns,
            unsafe=lambda: self._unsafe,
            news=news,
        )
        self._dispenser.stood_at = self._lookout.book_unasked
        self.hands = Hands(spec, self._wiring, self._imposer, self._dispenser, news)
        """What a person does to single instruments, and which of them are in service."""
        self.verify = self._imposer.verify
        """Ask every actuator whether it holds what was imposed, or nothing; what those say that do not, by actuator.

        One that cannot be asked counts among them, with the error as text. What is changed meanwhile is left out.
        """
        self.prepare = self._imposer.prepare
        """Let everything go and prepare the rig for a trial that is not decided yet, so that it can be looked at.

        Releases every actuator, carries out the prepare steps, then reads everything back. If it raises or is
        cancelled, go `safe`. Raises what `control` raises, for the same reasons.
        """
        self.glance = self._lookout.glance
        """What the rig was last seen to be; begins what has to be asked, and waits for nothing."""

    @property
    def tripped(self) -> str | None:
        return self.guard.tripped

    async def open(self) -> Mapping[str, Identity]:
        """Open every bus and identify every device; nothing is written before all have answered as they should.

        Returns:
            Who answered, by device name.

        Raises:
            DeviceError: of the worst kind found, with the messages of all: `PortUnavailable` names the port (and its
                holder), `IdentityMismatch` the wrong instrument, `DeviceFault` the register, or the bus
                that does not say that it is simulated though the clock is sped up, `DeviceTimeout` the silent device.
                What could be opened stays open, so that it can still go `safe`; `close` closes it.
        """
        found = await open_all(self._wiring)
        await refuse_real_time_lapse(self._wiring, self.spec.speedup)
        self._metering.start()
        return found

    async def probe(self) -> Mapping[str, tuple[bool, str]]:
        """Ask every device who it is and for one reading: whether all is well, and in words. Needs no `open`."""
        handles = self._wiring.handles
        return dict(zip(handles, await together(*map(probed, handles.values())), strict=True))

    async def control(self, setpoints: Mapping[str, float], *, prepared: bool = False) -> Mapping[str, ActuatorState]:
        """Impose these setpoints and nothing else.

        Releases what is not chosen, imposes what is (treatments before dosing), carries out the prepare steps, doses,
        then reads everything back. If it raises or is cancelled, the rig is left as it was then: go `safe`.

        Args:
            setpoints: by variable name, engineering units.
            prepared: `prepare` was done for this trial already: the prepare steps are not repeated.

        Returns:
            The confirmed state of every variable that has an actuator.

        Raises:
            GuardRefused: a setpoint or dose is not allowed; setpoints are checked before anything moves.
            Tripped: the trip is latched, or a pump ran past its deadline.
            DeviceFault: a device's watchdog is off, or would not notice that nobody feeds it; nothing was driven.
            ReadBackMismatch: something is not where it was sent, or a dosed variable cannot be brought there.
            DeviceError: a device refused, or it cannot be known what it did.
            JournalError: a dose cannot be recorded.
        """
        await check_all(self._wiring)
        return await self._imposer.control(setpoints, prepared=prepared)

    @property
    def driven(self) -> Mapping[str, float]:
        """Return what is imposed now, by actuator, engineering units: chosen variables, treatments, what is prepared.

        From the moment a command was answered until another one is sent; nothing once `safe` has begun.
        """
        return dict(self._imposer.driven)

    async def measure(self, *, look: bool = False, late: bool = False) -> Mapping[str, Measurement]:
        """Sample a window of every sensor, as `spec.timing.measure` says; by the names of variables and outcomes.

        With `look` as `spec.timing.look` says, and the variables' sensors only.

        A sensor without a single valid sample gives an INVALID measurement, never an exception. A volume that is a
        variable is what the last `control` gave. Outcomes that come later are left out; `late`: only these are sampled,
        whatever trial is under way.
        """
        spec, probes, window = self.spec.timing.measure, self._wiring.probes, self.spec.timing.look_window
        probes = tuple(p for p in probes if (p.name in self.spec.late_names) is late)
        if look and window is not None:
            spec = window
            probes = tuple(p for p in probes if p.name not in self.spec.outcome_names)
        windows = await sample_window(probes, spec, self._clock)
        out = {p.name: reduced(windows[p.name], spec.statistic, spec.min_count) for p in probes}
        if late:
            return out
        doubtful = {name: m.detail for name, m in out.items() if m.severity is not Severity.NONE}
        for source, (names, why) in by_line(doubtful, {p.name: p.handle for p in probes}).items():
            severity = min(max(out[name].severity for name in names), Severity.MAJOR)
            self._news.once(severity, source, why, kind="measurement")
        given = self._imposer.given
        for v in () if look else self.spec.variables:
            if v.actuator is not None and v.actuator in self.spec.volumes:
                out[v.name] = _given(given.get(v.actuator))
        return out

    async def meters(self) -> Mapping[str, Reading]:
        """Read the counters, by meter name (kinds energy and volume); one that cannot be read is INVALID.

        Beside them our own that say how far they can be believed; see `rigctl.rig.metering`.
        """
        return await self._metering.read()

    async def meters_meanwhile(self) -> Mapping[str, Reading]:
        """Wait for a twentieth of a trial, at least a wall second; then read the counters, but none of our own."""
        return await self._metering.meanwhile()

    async def snapshot(self) -> Mapping[str, Reading]:
        """Read each sensor once, by the names of variables and outcomes; INVALID if it cannot be read."""
        probes = self._wiring.probes
        readings = await together(*map(Probe.read, probes))
        return {p.name: r for p, r in zip(probes, readings, strict=True)}

    async def safe(self) -> SafeReport:
        """Drive everything to its declared safe state, ahead of all that waits, within bounded time (`time_to_safe`).

        Pumps are stopped, treatments released. Raises nothing; the report says what could not be confirmed, and an
        alarm what could be confirmed the last time. Needs no `open`. Cancel a running `control` first: it would go on
        imposing.
        """
        began_s = time.monotonic()
        self._imposer.driven.clear()
        report = await drive_safe(self.spec, self._wiring, self.guard)
        took = {"took_s": time.monotonic() - began_s, "reached": report.reached, "failed": dict(report.failed)}
        logger("rigctl.rig").info("went safe", **took)
        told = by_line(report.failed, self._wiring.handles)
        for source, (_, why) in told.items():
            if source not in self._unsafe:  # one alarm, not one per attempt
                self._news.stands(source, f"not confirmed in its safe state: {why}", kind="unconfirmed")
        stands = self._unsafe.intersection(report.failed).union(told)
        for source in sorted(self._unsafe - stands):
            what = "confirmed in its safe state" if source in self._wiring.handles else "the line answers again"
            self._news.over(source, what, kind="unconfirmed")
        self._unsafe = stands
        return replace(report, told={source: why for source, (_, why) in told.items()})

    def time_to_safe(self) -> SafeTimes:
        """Return how long `safe` takes at most while every device answers as it should; asks nobody."""
        return time_to_safe(self.spec, self._wiring)

    async def roll_call(self) -> Mapping[str, str]:
        """Ask every device who it is; what is wrong, by device, or by line where several on it give no answer."""
        return await missing(self._wiring)

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
            message = f"dose {left.dose} of {in_full(left.volume_ml)} mL: unknown, booked in full: {why}"
            self._news.major(left.actuator, message, kind="dose unknown")

    async def trip(self, reason: str) -> SafeReport:
        """Latch the trip, then everything to its safe state. No command but those to safety passes any more."""
        self.guard.trip(reason)
        self._news.major(self.spec.name, f"tripped: {reason}", kind="tripped")
        return await self.safe()

    async def close(self) -> None:
        await self._metering.stop()
        await self._lookout.close()
        await together(*(bus.close() for bus in self._wiring.buses.values()))


def _given(volume_ml: float | None) -> Measurement:
    """Return what a pump gave as a measurement; INVALID before anything was asked of it."""
    if volume_ml is None:
        return Measurement(math.nan, math.nan, 0, 0, Severity.INVALID, "nothing has been imposed yet")
    return Measurement(volume_ml, 0.0, 1)
