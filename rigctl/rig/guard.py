"""The only door to an actuator: every command passes the checks here, or is refused.

The decision is pure: a `Command` and the `Facts` about its actuator go through a tuple of checks, each of which names
its objection or has none. Going to the safe state, releasing and stopping are never refused. A trip is latched as long
as the process lives; only a person lets another one start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal
from weakref import WeakSet

from rigctl.errors import CapReached, CapSpent, GuardRefused, Tripped
from rigctl.rig.clocks import Clock
from rigctl.rig.dose_log import DoseLog
from rigctl.rig.handle import Handle
from rigctl.rig.limits import ActuatorLimits, CapSpan, CapSpec, TankSpec, caps_of
from rigctl.rig.protocols import Actuator, Deadline, Doser
from rigctl.text import in_full


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody wants an actuator to do."""

    actuator: str
    kind: Literal["setpoint", "dose"]
    value: float
    """Engineering units (setpoint) or mL (dose)."""
    unit: str


@dataclass(frozen=True, slots=True)
class Booked:
    """What the pumps of a cap have given, mL; open intents in full, what is admitted with this dose included."""

    cap: CapSpec
    given_ml: Mapping[CapSpan, float]
    """By span that counts."""

    def beyond(self, volume_ml: float) -> str | None:
        """Say which cap so much more would exceed: one that waiting does not help with, if there is one."""
        of = "" if len(self.cap.pumps) == 1 else f" from {self.cap.name}"
        widest_first = [*self.cap.most_ml.items()][::-1]
        for span, most_ml in sorted(widest_first, key=lambda held: held[0].slides):
            booked_ml, within = self.given_ml.get(span, 0.0), f"in {span.words}"
            if booked_ml + volume_ml > most_ml:
                after = f"{in_full(volume_ml)} mL after {in_full(booked_ml)} mL{of} {within}"
                return f"got {after}, allowed {in_full(most_ml)} mL {within}"
        return None


@dataclass(frozen=True, slots=True)
class KnownState:
    """What a check may know of the actuator."""

    limits: ActuatorLimits
    booked: tuple[Booked, ...] = ()
    """By cap that the pump has a part in: its own first, then its tank's."""
    moving: bool = False
    """Whether the command is about to be sent, and not only looked at beforehand."""
    stands: tuple[float, float] | None = None
    """Where the actuator stands, and the rig seconds since it was sent there; None: it is not known."""

    def without(self, over: Callable[[CapSpan], bool]) -> KnownState:
        """Return the facts as if nothing had been given in these spans."""
        left = [{span: ml for span, ml in b.given_ml.items() if not over(span)} for b in self.booked]
        return replace(self, booked=tuple(map(Booked, [b.cap for b in self.booked], left)))


Check = Callable[[Command, KnownState], str | None]
"""One reason a command may be refused for: the objection (`got ..., allowed ...`), or None."""


def is_number(command: Command, facts: KnownState) -> str | None:
    del facts
    return None if math.isfinite(command.value) else f"got {command.value}, must be a finite number"


def within_range(command: Command, facts: KnownState) -> str | None:
    low, high = facts.limits.low, facts.limits.high
    if command.kind != "setpoint" or low <= command.value <= high:
        return None
    return f"got {in_full(command.value)} {command.unit}, allowed {in_full(low)} to {in_full(high)}"


def within_dose_cap(command: Command, facts: KnownState) -> str | None:
    if command.kind != "dose":
        return None
    per_dose = facts.limits.per_dose_ml
    if not command.value > 0:
        return f"got {in_full(command.value)} mL, must be > 0"
    if per_dose is not None and command.value > per_dose:
        return f"got {in_full(command.value)} mL, allowed {in_full(per_dose)} mL per dose"
    return None


def within_caps(command: Command, facts: KnownState) -> str | None:
    """Object to what one of the pump's caps of a span does not let through: its own, or its tank's."""
    if command.kind != "dose":
        return None
    objected = (booked.beyond(command.value) for booked in facts.booked)
    return next((said for said in objected if said is not None), None)


def within_slew(command: Command, facts: KnownState) -> str | None:
    slew = facts.limits.slew
    if slew is None or command.kind != "setpoint" or not facts.moving:
        return None
    if facts.stands is None:
        return "it may not jump, and it is not known where it stands"
    return slew.objection(abs(command.value - facts.stands[0]), facts.stands[1])


CHECKS: tuple[Check, ...] = (is_number, within_range, within_dose_cap, within_caps, within_slew)


def objections(command: Command, facts: KnownState, checks: Sequence[Check] = CHECKS) -> tuple[str, ...]:
    return tuple(said for said in (check(command, facts) for check in checks) if said is not None)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class DosePermit:
    """Admits one dose, once. Caps are checked when it is issued, before the intent is booked against them."""

    doser: Handle[Doser]
    volume_ml: float


class Guard:
    """Passes commands on to actuators, or refuses them."""

    def __init__(
        self,
        limits: Mapping[str, ActuatorLimits],
        doses: DoseLog,
        clock: Clock,
        checks: Sequence[Check] = CHECKS,
        tanks: Mapping[str, TankSpec] = MappingProxyType({}),
    ) -> None:
        self._limits = limits
        self._caps = caps_of(limits, tanks)
        self._doses = doses
        self._clock = clock
        self._checks = tuple(checks)
        self._permits: WeakSet[DosePermit] = WeakSet()  # one that was never used is forgotten with its holder
        self._stands: dict[str, tuple[float, float]] = {}
        """By actuator: where it was last sent, and when, rig time."""
        self._tripped: str | None = None

    # the latch ----------------------------------------------------------------------------------------------------

    @property
    def tripped(self) -> str | None:
        return self._tripped

    def trip(self, reason: str) -> None:
        if self._tripped is None:
            self._tripped = reason

    def refuse_if_tripped(self, doing: str) -> None:
        if self._tripped is not None:
            raise Tripped(f"{doing}: refused, tripped: {self._tripped}")

    # commands that may be refused ---------------------------------------------------------------------------------

    def check_setpoint(self, actuator: str, value: float, unit: str) -> None:
        """Raise `Tripped`, or `GuardRefused` unless it is a number, in range, and the actuator has limits."""
        self._decide(Command(actuator, "setpoint", value, unit))

    async def apply(self, actuator: Handle[Actuator], value: float) -> None:
        """Impose a setpoint, sent once. Raises as `check_setpoint`, and what the device raises."""
        device, name = actuator.device, actuator.name
        stood = self._stands.get(name)
        stands = None if stood is None else (stood[0], self._clock.now_s() - stood[1])
        self._decide(Command(name, "setpoint", value, device.unit), moving=True, stands=stands)
        self._stands.pop(name, None)  # whatever becomes of the command

        def unless_tripped(deadline: Deadline) -> None:
            # the command may have waited for its turn: a trip in the meantime overtakes it
            self.refuse_if_tripped(f"{actuator.name}: apply {in_full(value)} {device.unit}")
            device.apply(value, deadline)

        await actuator.tell(unless_tripped, f"apply {in_full(value)} {device.unit}")
        self.stands_at(name, value)

    def stands_at(self, actuator: str, value: float) -> None:
        """Note where an actuator stands now, as it says itself, or where its process is; a ramp begins there."""
        self._stands[actuator] = (value, self._clock.now_s())

    async def admit_dose(
        self, doser: Handle[Doser], volume_ml: float, besides: Sequence[tuple[Handle[Doser], float]] = ()
    ) -> DosePermit:
        """Check a dose against the caps; counts what the log has booked, and doses `besides` that go with it.

        Raises:
            Tripped: the trip is latched.
            CapReached: it does not fit this hour or these 24 hours any more; it will later.
            CapSpent: it does not fit what the pump, or its tank, may give in the campaign.
            GuardRefused: not a positive number, over the cap of a single dose, or over what a trial may take.
        """
        now_s, name = self._clock.now_s(), doser.name
        caps = [cap for cap in self._caps if name in cap.pumps]
        booked = tuple([await _booked(self._doses, cap, now_s, besides) for cap in caps])
        self._decide(Command(name, "dose", volume_ml, "mL"), booked)
        permit = DosePermit(doser, volume_ml)
        self._permits.add(permit)
        return permit

    async def admit_doses(self, volumes: Sequence[tuple[Handle[Doser], float]]) -> Sequence[DosePermit]:
        """Admit doses that belong together, each as if those before were given; raises as `admit_dose`."""
        return [await self.admit_dose(doser, ml, volumes[:i]) for i, (doser, ml) in enumerate(volumes)]

    async def start_dose(self, permit: DosePermit) -> None:
        """Send an admitted dose, once.

        Raises:
            Tripped: a trip came in between; nothing was sent.
            GuardRefused: this permit was used before; nothing was sent.
            DeviceFault: the pump refused.
            DeviceError: it is unknown whether the dose runs.
        """
        doser, volume_ml = permit.doser, permit.volume_ml
        if permit not in self._permits:
            what = f"{doser.name}: dose {in_full(volume_ml)} mL"
            raise GuardRefused(f"{what}: this permit was used already; ask for a new one")
        self._permits.discard(permit)

        def unless_tripped(deadline: Deadline) -> None:
            self.refuse_if_tripped(f"{doser.name}: dose {in_full(volume_ml)} mL")
            doser.device.start_dose(volume_ml, deadline)

        await doser.tell(unless_tripped, f"dose {in_full(volume_ml)} mL")

    # commands that never are --------------------------------------------------------------------------------------

    async def release(self, actuator: Handle[Actuator]) -> None:
        self._stands.pop(actuator.name, None)
        await actuator.tell(actuator.device.release, "release")

    async def stop(self, doser: Handle[Doser], *, within_s: float | None = None) -> None:
        """Stop a pump; with `within_s` (wall seconds) ahead of everything that waits, and though it is silent."""
        if within_s is None:
            await doser.tell(doser.device.stop, "stop")
        else:
            await doser.tell_at_all_costs(doser.device.stop, "stop", within_s)

    def way_to_safety(self, handle: Handle[Actuator] | Handle[Doser]) -> Callable[[Deadline], None]:
        """Return the command that leads one device to its declared safe state, for the bus's thread."""
        device = handle.device
        self._stands.pop(handle.name, None)
        if isinstance(device, Doser):
            return device.stop
        state = self._limits[handle.name].safe_state
        if state == "off":
            return device.safe
        return lambda deadline: device.apply(state, deadline)

    def common_way(self, group: Sequence[Handle[Actuator]]) -> Callable[[Deadline], None]:
        """Return the command that leads a group to safety at once, for the bus's thread; a device may refuse it."""
        return partial(group[0].device.safe_all, [h.device for h in group])

    def _decide(
        self,
        command: Command,
        booked: tuple[Booked, ...] = (),
        *,
        moving: bool = False,
        stands: tuple[float, float] | None = None,
    ) -> None:
        what = f"{command.actuator}: {command.kind} {in_full(command.value)} {command.unit}"
        self.refuse_if_tripped(what)
        limits = self._limits.get(command.actuator)
        if limits is None:
            raise GuardRefused(f"{what}: refused, it has no limits. Declare them under safety.limits")
        facts = KnownState(limits, booked, moving, stands)
        against = objections(command, facts, self._checks)
        if not against:
            return
        message = f"{what}: refused: {'; '.join(against)}"
        if not objections(command, facts.without(lambda span: span.slides), self._checks):
            raise CapReached(message, command.actuator, command.value)
        if not objections(command, facts.without(lambda span: span.seconds is not None), self._checks):
            raise CapSpent(message, command.actuator, command.value)
        raise GuardRefused(message, devices=[command.actuator])


async def _booked(doses: DoseLog, cap: CapSpec, now_s: float, besides: Sequence[tuple[Handle[Doser], float]]) -> Booked:
    """Return what counts against a cap now; spans without a cap are not asked for."""
    with_it_ml = sum(ml for other, ml in besides if other.name in cap.pumps)
    given = {span: with_it_ml + await doses.given_ml(cap.pumps, span.since_s(now_s)) for span in cap.most_ml}
    return Booked(cap, given)
