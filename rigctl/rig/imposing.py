"""Bringing a rig to a setting: what is chosen is imposed, everything else is let go, and both are confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rigctl.errors import (
    DeviceBusy,
    DeviceError,
    DeviceFault,
    GarbledReply,
    GuardRefused,
    IdentityMismatch,
    ReadBackMismatch,
)
from rigctl.rig.bus import Bus
from rigctl.rig.clocks import Clock
from rigctl.rig.dead_man import check_all
from rigctl.rig.dosing import Dispenser
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle, together
from rigctl.rig.measuring import Probe
from rigctl.rig.protocols import Actuator, ActuatorState, Doser
from rigctl.rig.slewing import ramp
from rigctl.rig.spec import PrepareStep, RigSpec, VariableWiring
from rigctl.rig.titration import Evidence, Partner, Side, Titration
from rigctl.rig.values import News
from rigctl.rig.wiring import Wiring
from rigctl.text import in_full

RELEASED = ActuatorState(controlled=False, setpoint=None)
ON = 1.0
_NOTHING = VariableWiring("", "", None, 0.0)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A setting, by actuator."""

    imposed: Mapping[str, float]
    """Actuators that hold a value: the chosen variables' and the treatments that go with chosen dosing."""
    dosed: Mapping[str, float]
    """Pumps and the setpoint each brings its probe to; of two for one variable, the first."""
    volumes: Mapping[str, float]
    """Pumps and what each gives once, mL; without those that dose along with them."""
    moving: frozenset[str]
    """All pumps that may run."""
    chosen: Mapping[str, float]
    """What each chosen variable was set to, by its first actuator."""


@dataclass(frozen=True, slots=True)
class Imposer:
    """Carries out `Rig.control`."""

    spec: RigSpec
    wiring: Wiring
    guard: Guard
    dispenser: Dispenser
    clock: Clock
    news: News
    evidence: Evidence
    driven: dict[str, float] = field(default_factory=dict)
    """Actuators that hold a value now, as far as is known; mutable. Whoever goes safe clears it."""
    given: dict[str, float] = field(default_factory=dict)
    """What the pumps whose volume is a variable gave in this trial, mL; mutable."""

    async def prepare(self) -> None:
        """Let everything go, and carry out the steps of preparation, as `Rig.prepare` says."""
        await check_all(self.wiring)
        await _let_go(self, _Plan({}, {}, {}, frozenset(), {}))
        for step in self.spec.timing.prepare:
            await _carry_out(self, step)
        actuators = self.wiring.in_service(self.wiring.actuators)
        await together(*(self.confirm(a, None) for a in actuators.values()))

    async def control(self, setpoints: Mapping[str, float], *, prepared: bool = False) -> Mapping[str, ActuatorState]:
        plan = self._planned(setpoints)
        actuators = self.wiring.in_service(self.wiring.actuators)
        idle_pumps = await _let_go(self, plan)
        imposing = [self.impose(self.wiring.actuators[n], value) for n, value in plan.imposed.items()]
        slewed = any(self.spec.limits[n].slew is not None for n in plan.imposed)
        await together(*(self.clock.beside(imposing) if slewed else imposing))
        treated_s = self.clock.now_s()
        for step in () if prepared else self.spec.timing.prepare:
            await _carry_out(self, step)
        needs_s = max((self.spec.dosing[n].treat_s or 0.0 for n in plan.dosed), default=0.0)
        left_s = treated_s + needs_s - self.clock.now_s()
        if left_s > 0:
            await self.clock.rest(left_s)
        await self._give(plan.volumes)
        await self._titrate(plan.dosed)
        await together(
            *(self.confirm(a, plan.imposed.get(n)) for n, a in actuators.items()),
            *(self.still(d) for d in idle_pumps),
        )
        imposed = {name: ActuatorState(True, value) for name, value in plan.chosen.items()}
        return {v.name: imposed.get(v.actuator, RELEASED) for v in self.spec.variables if v.actuator is not None}

    def _planned(self, setpoints: Mapping[str, float]) -> _Plan:
        """Plan which actuator does what; nothing moves before the guard has let every setpoint pass."""
        wired = {v.name: v for v in self.spec.variables if v.actuators}
        aside = sorted(self.wiring.aside & {name for v in setpoints for name in wired.get(v, _NOTHING).actuators})
        if aside:
            raise GuardRefused(
                f"{', '.join(aside)}: out of service; `rigctl device in-service` puts it back", devices=aside
            )
        unknown = sorted(set(setpoints) - set(wired))
        if unknown:
            raise GuardRefused(f"no actuator for {', '.join(unknown)}; variables with one: {', '.join(wired)}")
        imposed: dict[str, float] = {}
        dosed: dict[str, float] = {}
        moving: set[str] = set()
        for variable, value in setpoints.items():
            first = wired[variable].actuators[0]
            for name in wired[variable].actuators:
                self.guard.check_setpoint(name, value, _unit_of(self.spec, self.wiring, name))
            moving.update(self.spec.pumps_of(wired[variable]))
            dosing = [self.spec.dosing[name] for name in wired[variable].actuators if name in self.spec.dosing]
            imposed |= {d.treatment: ON for d in dosing if d.treatment is not None}
            if dosing:
                dosed[first] = value
            elif first not in self.spec.volumes:
                imposed[first] = value
        given = given_volumes(self.spec, setpoints)
        chosen = {wired[variable].actuators[0]: value for variable, value in setpoints.items()}
        volumes = {name: given[name] for name in self.spec.volumes if name in given}
        return _Plan(imposed, dosed, volumes, frozenset(moving | set(given)), chosen)

    async def impose(self, actuator: Handle[Actuator], value: float | None) -> None:
        """Apply a value, in steps where it may not jump, or release (None).

        No step is taken from where it is no more. If an answer is lost, nothing is sent again: the read-back decides.
        """
        stood, slew = self.driven.pop(actuator.name, None), self.spec.limits[actuator.name].slew
        if value is None or slew is None:
            await self._tell(actuator, value)
            return
        start = await _stands(self.spec, self.wiring, actuator) if stood is None else stood
        if stood is None:
            self.guard.stands_at(actuator.name, start)
        for pause_s, setpoint in ramp(start, value, slew):
            await self.clock.rest(pause_s)
            self.driven.pop(actuator.name, None)
            if stood is not None:  # where it was sent; if it has restarted since, the next step would be a jump
                await self.confirm(actuator, stood, within=abs(setpoint - stood) / 2)
            await self._tell(actuator, setpoint)
            stood = setpoint

    async def _tell(self, actuator: Handle[Actuator], value: float | None) -> None:
        self.driven.pop(actuator.name, None)
        try:
            if value is None:
                await self.guard.release(actuator)
            else:
                await self.guard.apply(actuator, value)
        except (DeviceFault, DeviceBusy, IdentityMismatch):
            raise
        except DeviceError as error:
            doing = "release" if value is None else f"apply {in_full(value)}"
            message = f"{doing}: unknown whether it arrived, not sent again, reading back: {error}"
            self.news.minor(actuator.name, message, kind="command unknown")
            await self.confirm(actuator, value)
            if value is not None:
                self.guard.stands_at(actuator.name, value)
        if value is not None:
            self.driven[actuator.name] = value

    async def confirm(self, actuator: Handle[Actuator], value: float | None, within: float = 0.0) -> None:
        """Raise `ReadBackMismatch` unless the instrument says that it holds `value`, or is released (None)."""
        denied = await self.denial(actuator, value, within)
        if denied:
            message = f"{self._serves(actuator.name)}: {actuator.name} {denied}"
            self.news.major(actuator.name, message, kind="read-back")
            raise ReadBackMismatch(message, devices=[actuator.name])

    async def denial(self, actuator: Handle[Actuator], value: float | None, within: float = 0.0) -> str:
        """Return what the instrument says instead of holding `value`, or being released (None); empty if it does.

        A value between two counts of a coarse register may be as far off as `within`, whatever is tolerated.
        """
        state = await actuator.ask(actuator.device.read_back, "read back")
        # treatments and prepared actuators are switches: they hold what was sent
        served = self.spec.served_by(actuator.name)
        if holds(state, value, max(1e-6 if served is None else served.read_back_tolerance, within)):
            return ""
        unit = actuator.device.unit
        wanted = "released" if value is None else f"{in_full(value)} {unit}".rstrip()
        return f"reads back {told(state, unit)}, wanted {wanted}"

    async def verify(self) -> Mapping[str, str]:
        actuators = self.wiring.in_service(self.wiring.actuators)
        said = await together(*(self._deviation(a, self.driven.get(n)) for n, a in actuators.items()))
        return {name: text for name, text in zip(actuators, said, strict=True) if text}

    async def _deviation(self, actuator: Handle[Actuator], value: float | None) -> str:
        try:
            wrong = await self.denial(actuator, value)
        except DeviceError as error:
            wrong = ": ".join(filter(None, (error.bus, error.what)))  # by the name that the answer has
        return wrong if self.driven.get(actuator.name) == value else ""

    async def still(self, pump: Handle[Doser]) -> None:
        """A pump that is not chosen stands still; one that runs is stopped, and asked again."""
        status = await pump.ask(pump.device.dose_status, "dose status")
        if status.reset:
            message = "the pump restarted; its totals began anew"
            self.news.minor(pump.name, message, kind="restarted")
        if not status.running:
            return
        message = "the pump runs although nothing was asked of it: stopping it"
        self.news.major(pump.name, message, kind="unasked run")
        await self.guard.stop(pump)
        if (await pump.ask(pump.device.dose_status, "dose status")).running:
            message = f"{self._serves(pump.name)}: {pump.name} runs, wanted stopped"
            raise ReadBackMismatch(message, devices=[pump.name])

    async def _give(self, volumes: Mapping[str, float]) -> None:
        """Give every volume that is a variable's, once; what was given is what is measured of it."""
        self.given.clear()
        self.given.update(dict.fromkeys(self.spec.volumes, 0.0))
        for name, volume_ml in volumes.items():
            partners = self.spec.volumes[name].with_
            act = [(self.wiring.dosers[p], share * volume_ml) for p, share in {name: 1.0, **partners}.items()]
            self.given[name] = (await self.dispenser.dispense_together(act))[0]
        if volumes:
            await self.clock.rest(max(self.spec.volumes[name].mix_s for name in volumes))

    async def _titrate(self, dosed: Mapping[str, float]) -> None:
        """Pumps on different buses dose at the same time."""
        buses: dict[Bus, list[tuple[Titration, float]]] = {}
        for name, setpoint in dosed.items():
            buses.setdefault(self.wiring.dosers[name].bus, []).append((self._titration(name), setpoint))
        await together(*self.clock.beside(map(_in_turn, buses.values())))

    def _titration(self, name: str) -> Titration:
        pumps = next(v.actuators for v in self.spec.variables if v.actuator == name)
        return Titration(
            sides=tuple(self._side(pump) for pump in pumps),
            probe=self.wiring.dosing_probes[name],
            dispenser=self.dispenser,
            clock=self.clock,
            news=self.news,
            evidence=self.evidence,
        )

    def _side(self, name: str) -> Side:
        limits, spec = self.spec.limits, self.spec.dosing[name]
        along = [Partner(self.wiring.dosers[n], ratio, limits[n].per_dose_ml) for n, ratio in spec.with_.items()]
        return Side(spec, self.wiring.dosers[name], limits[name].per_dose_ml, tuple(along))

    def _serves(self, actuator: str) -> str:
        served = self.spec.served_by(actuator)
        return actuator if served is None else served.name


async def _let_go(imposer: Imposer, plan: _Plan) -> list[Handle[Doser]]:
    """Release what is not to be imposed, and see to it that all other pumps stand still; return these."""
    wiring = imposer.wiring
    idle = [a for n, a in wiring.in_service(wiring.actuators).items() if n not in plan.imposed]
    pumps = [d for n, d in wiring.in_service(wiring.dosers).items() if n not in plan.moving]
    await together(*(imposer.impose(a, None) for a in idle), *(imposer.still(d) for d in pumps))
    return pumps


async def _carry_out(imposer: Imposer, step: PrepareStep) -> None:
    actuator = imposer.wiring.actuators[step.actuator]
    await imposer.impose(actuator, step.value)
    await imposer.clock.rest(step.wait_s)
    await imposer.impose(actuator, None)


def _unit_of(spec: RigSpec, wiring: Wiring, actuator: str) -> str:
    """Return the unit of an actuator's setpoint: a pump's is that of the probe it is judged by, or mL."""
    if actuator in spec.volumes:
        return "mL"
    probe = wiring.dosing_probes.get(actuator)
    return wiring.actuators[actuator].device.unit if probe is None else probe.handle.device.unit


async def _stands(spec: RigSpec, wiring: Wiring, actuator: Handle[Actuator]) -> float:
    """Return where a ramp begins: at the setpoint it holds, else where its variable is, within its range.

    What is let go by a setpoint holds that; one beyond the range stands for none.

    Raises:
        ReadBackMismatch: the device holds a value that this program did not send, and no step from that value is
                allowed; nothing was driven.
        GarbledReply: its variable cannot be read; nothing was driven.
    """
    state, limits = await actuator.ask(actuator.device.read_back, "read back"), spec.limits[actuator.name]
    variable = spec.served_by(actuator.name) or _NOTHING
    at, beyond = state.setpoint, variable.read_back_tolerance
    if at is None or not limits.low - beyond <= at <= limits.high + beyond:
        if state.controlled and at is not None:
            held, within = told(state, actuator.device.unit), f"[{in_full(limits.low)}, {in_full(limits.high)}]"
            why = f"holds {held}, beyond its range {within}, and may not jump; who set it? Let go of it first"
            raise ReadBackMismatch(why, device=actuator.name)
        probe = next((p for p in wiring.probes if p.name == variable.name), None)
        at = limits.low if probe is None else await _value(probe, actuator.name)
    return min(max(at, limits.low), limits.high)


async def _value(probe: Probe, driven: str) -> float:
    reading = await probe.fresh()
    if reading.valid:
        return reading.value
    why = f"{driven} may not jump, and it is not known from where it would begin"
    raise GarbledReply(f"{probe.name}: no valid reading ({reading.detail}); {why}", device=probe.handle.name)


def given_volumes(spec: RigSpec, setpoints: Mapping[str, float]) -> Mapping[str, float]:
    """Return what every pump whose volume is a variable, or that doses along with one, gives in a trial, mL."""
    out: dict[str, float] = {}
    for variable in spec.variables:
        pump = variable.actuator or ""
        if pump not in spec.volumes:
            continue
        volume_ml = setpoints.get(variable.name, spec.volumes[pump].otherwise_ml)
        if volume_ml > 0:
            out |= {name: share * volume_ml for name, share in {pump: 1.0, **spec.volumes[pump].with_}.items()}
    return out


async def _in_turn(titrations: list[tuple[Titration, float]]) -> None:
    for titration, setpoint in titrations:
        await titration.bring_to(setpoint)


def holds(state: ActuatorState, value: float | None, tolerance: float) -> bool:
    """Tell whether a read-back confirms `value` (None: released).

    What is let go by a setpoint, as a switch is by 0, both holds that and is released.
    """
    if value is None:
        return not state.controlled
    if state.setpoint is None:
        return state.controlled
    return abs(state.setpoint - value) <= tolerance


def told(state: ActuatorState, unit: str) -> str:
    if not state.controlled:
        return "released"
    return "switched on" if state.setpoint is None else f"{in_full(state.setpoint)} {unit}"
