"""Everything to its declared safe state, whatever else is wrong, in bounded time.

The time is bounded for each bus, not for each command. First everything on a bus is told, one command right after the
other whatever becomes of the one before; then the line is silenced if it has to be, and everything is asked. What
denies or does not answer is told and asked again. A healthy device gets the time it needs, a silent one holds up the
others for no longer.

How long that takes at most follows from what the devices say of their exchanges, without asking anything: on one bus a
question under way is cut short, devices that can be told apart are recognised, everything is told, the line is
silenced, everything is asked. Buses go side by side.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any, Final

from rigctl.errors import DeviceError, DeviceTimeout, in_words
from rigctl.rig.bus import Bus, Turn
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle, said
from rigctl.rig.imposing import holds, told
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import Actuator, Deadline, Doser
from rigctl.rig.spec import RigSpec
from rigctl.rig.values import SafeReport, SafeTimes
from rigctl.rig.wiring import Wiring

PATIENCE: Final = 4.0
"""A healthy device is given so many times what it says it needs."""
LEAST_PATIENCE_S: Final = 0.5


def to_make_safe(wiring: Wiring) -> list[Handle[Any]]:
    return [*wiring.in_service(wiring.dosers).values(), *wiring.in_service(wiring.actuators).values()]


def grouped(handles: Iterable[Handle[Any]], limits: Mapping[str, ActuatorLimits]) -> list[list[Handle[Any]]]:
    """Group those that can go to their safe state together; most stand alone."""
    groups: dict[Hashable, list[Handle[Any]]] = {}
    for handle in handles:
        group = None
        # the device's own way leads to its own safe state, not to a number declared for the rig
        if limits[handle.name].safe_state == "off" and isinstance(handle.device, Actuator):
            group = said(handle.device.safe_group, None)
        groups.setdefault(("alone", handle.name) if group is None else ("together", group), []).append(handle)
    return list(groups.values())


def together_s(group: Sequence[Handle[Any]]) -> float:
    return said(lambda: group[0].device.safe_all_s([h.device for h in group]), group[0].timeout_s)


def time_to_safe(spec: RigSpec, wiring: Wiring) -> SafeTimes:
    """Reckon the worst case with healthy devices, over all and by bus.

    Nobody has been recognised yet, a question to a silent device is under way, and groups refuse to go together.
    """
    by_bus = {}
    for url, bus in wiring.buses.items():
        handles = [h for h in to_make_safe(wiring) if h.bus is bus]
        if handles:
            cut_short_s = max(h.hurried_s for h in wiring.handles.values() if h.bus is bus)
            by_bus[url] = _on_one_bus(bus, cut_short_s, grouped(handles, spec.limits))
    told, confirmed = zip(*by_bus.values(), strict=True) if by_bus else ((0.0,), (0.0,))
    return SafeTimes(max(told), max(confirmed), by_bus)


def _on_one_bus(bus: Bus, begin_s: float, groups: Sequence[Sequence[Handle[Any]]]) -> tuple[float, float]:
    told_s, asked_s = begin_s, bus.quiet_for_s(pressed_on=False)
    met_s, in_vain_s = 0.0, 0.0
    for group in groups:
        told_s += sum(h.pace.command_s for h in group)
        if len(group) > 1:
            told_s += together_s(group)
        asked_s += sum(h.pace.confirm_s for h in group)
        # one of a group is recognised before it is told, all before they are asked
        to_meet = [h for h in group if not h.device.anonymous]
        if to_meet:
            met_s += to_meet[0].pace.confirm_s
            in_vain_s += patience_s(to_meet[0], to_meet[0].pace.confirm_s, little=in_vain_s > 0)
            asked_s += sum(h.pace.confirm_s for h in to_meet[1:])
    told_s += met_s
    # recognising may have to wait for the silence, until it is over or patience is; then it is for nothing
    waited_s = min(bus.quiet_for_s(pressed_on=True), in_vain_s)
    if waited_s:
        return told_s + waited_s, told_s + asked_s + met_s
    return told_s, told_s + asked_s


LEAST_S: Final = 1.8
"""Wall seconds: no bus is given up sooner, and a line that cannot be opened, or is held, is tried for so long."""
ATTEMPTS: Final = 5
"""Going to the safe state may be repeated without harm, but only after a read-back denied it or failed."""
FIRST_PAUSE_S: Final = 0.1
"""Wall seconds before the second attempt: some devices take a moment to do or show what they were told; then doubled,
so that all attempts take no longer than a bus is given anyway: a unit that is busy for a second is not left driven."""
LITTLE_PATIENCE: Final = 2.0
LITTLE_PATIENCE_S: Final = 0.1
"""As `PATIENCE`, once something on the bus was silent: then the next commands matter more than their answers."""


def patience_s(handle: Handle[Any], needed_s: float, *, little: bool) -> float:
    times, least_s = (LITTLE_PATIENCE, LITTLE_PATIENCE_S) if little else (PATIENCE, LEAST_PATIENCE_S)
    return min(handle.timeout_s, max(times * needed_s, least_s))


async def drive_safe(spec: RigSpec, wiring: Wiring, guard: Guard) -> SafeReport:
    """Drive everything to its safe state, buses side by side. Raises nothing (but cancellation)."""
    times = time_to_safe(spec, wiring).by_bus
    handles = to_make_safe(wiring)
    courses = [
        _Course(bus, [h for h in handles if h.bus is bus], guard, spec.limits, times[url][1])
        for url, bus in wiring.buses.items()
        if url in times
    ]
    await asyncio.gather(*(c.until_safe() for c in courses))
    failed = {name: why for c in courses for name, why in dict(c.left).items()}
    return SafeReport(tuple(h.name for h in handles if h.name not in failed), failed)


class _Course:
    """One bus on its way to safety; all but `until_safe` runs in the bus's thread."""

    def __init__(
        self,
        bus: Bus,
        handles: Sequence[Handle[Any]],
        guard: Guard,
        limits: Mapping[str, ActuatorLimits],
        once_s: float,
    ) -> None:
        self._bus = bus
        self._handles = handles
        self._guard = guard
        self._limits = limits
        self._within_s = max(LEAST_S, 2 * once_s + max(h.timeout_s for h in handles))
        self._until_s = time.monotonic() + self._within_s
        self._silence = False
        self._told_only = f"told, but not confirmed within {self._within_s:.1f} s"
        self.left = {h.name: f"not told within {self._within_s:.1f} s: the bus is busy" for h in handles}
        """What is not confirmed, and why."""

    async def until_safe(self) -> None:
        """Tell all, ask all; again those that are left, a few times or until the time is over."""
        with suppress(TimeoutError):  # what is left is the answer
            async with asyncio.timeout(self._within_s):
                await self._in_several_attempts()

    async def _in_several_attempts(self) -> None:
        attempts, pause_s = 0, FIRST_PAUSE_S
        reach_until_s = time.monotonic() + LEAST_S
        while True:
            try:
                await self._bus.take_turn(self._attempt, "to the safe state")
                attempts += 1
            except Exception as error:  # noqa: BLE001 -- the last line of defence: it is reported, for all
                self.left = dict.fromkeys(self.left, in_words(error))
                if not isinstance(error, DeviceError) or time.monotonic() + pause_s > reach_until_s:
                    return
            if not self.left or attempts == ATTEMPTS:
                return
            await asyncio.sleep(pause_s)
            pause_s *= 2

    # in the bus's thread ------------------------------------------------------------------------------------------

    def _attempt(self, turn: Turn) -> None:
        handles = [h for h in self._handles if h.name in self.left]
        self._silence = False
        self._tell_all(turn, sorted(handles, key=attrgetter("silent")))  # those that were silent come last
        for handle in sorted(handles, key=attrgetter("silent")):
            if time.monotonic() >= self._until_s:
                return  # nobody waits for the answers any more, and others wait for the bus
            turn.reach()
            with self._noting([handle]):
                self._ask(turn, handle)

    def _tell_all(self, turn: Turn, handles: Sequence[Handle[Any]]) -> None:
        """Tell all; what turns out to be silent is told once everything else has been."""
        silent: list[tuple[Handle[Any], int]] = []
        for group in grouped(handles, self._limits):
            opened = turn.reach().opened
            with self._noting(group):
                silent += [(handle, opened) for handle in self._tell_group(turn, group)]
        for handle, opened in silent:
            self._tell(turn, handle, opened)

    def _tell_group(self, turn: Turn, group: Sequence[Handle[Any]]) -> Sequence[Handle[Any]]:
        """Tell them together if there are several, else one by one; returns those that did not answer and wait.

        A group is one instrument: who knows one of it knows all.
        """
        named, contact = [h for h in group if not h.device.anonymous], turn.reach()
        if named and all(h.is_strange(contact) for h in named):
            asked = named[0]
            if not asked.meet(turn, self._patience_s(asked, asked.pace.confirm_s)):
                self._silence = True
                return group
        if len(group) > 1:
            patience_s = max(PATIENCE * together_s(group), LEAST_PATIENCE_S)
            try:
                group[0].exchange(turn, self._guard.common_way(group), patience_s, "to the safe state, together")
            except DeviceTimeout:
                self._silence = True
                return group
            except Exception as refusal:  # noqa: BLE001 -- whatever it is, there is another way
                self.left |= {h.name: in_words(refusal) for h in group}
            else:
                self.left |= {h.name: self._told_only for h in group}
                return ()
        for handle in group:
            self._tell(turn, handle, contact.opened)
        return ()

    def _tell(self, turn: Turn, handle: Handle[Any], opened: int) -> None:
        """Tell it; on another opening of the line than it was met on, or silent on, whoever is there is met first."""
        contact = turn.reach()
        with self._noting([handle]):
            if contact.opened != opened:
                handle.meet(turn, self._patience_s(handle, handle.pace.confirm_s))
            patience_s = self._patience_s(handle, handle.pace.command_s)
            handle.exchange(turn, self._guard.way_to_safety(handle), patience_s, "to the safe state")
            self.left[handle.name] = self._told_only

    def _patience_s(self, handle: Handle[Any], needed_s: float) -> float:
        return patience_s(handle, needed_s, little=self._silence)

    def _ask(self, turn: Turn, handle: Handle[Any]) -> None:
        handle.meet(turn, handle.timeout_s, settled=True)
        if handle.is_strange(turn.reach()):
            raise DeviceTimeout("it does not say who it is", device=handle.name)
        question = _question(handle, self._limits[handle.name])
        denied = handle.exchange(turn, question, handle.timeout_s, "is it safe", settled=True)
        if denied:
            self.left[handle.name] = denied
        else:
            del self.left[handle.name]

    @contextmanager
    def _noting(self, handles: Sequence[Handle[Any]]) -> Iterator[None]:
        """Note what goes wrong; the others must go on whatever it is."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 -- the last line of defence: no driver's bug keeps the others from it
            self._silence = self._silence or isinstance(error, DeviceTimeout)
            self.left |= {h.name: in_words(error) for h in handles}


def safe_tolerance(value: float) -> float:
    """Return how far a safe value may be from what is read back: only the rounding of a coarse register is forgiven."""
    return 0.01 * max(abs(value), 1.0)


def _question(handle: Handle[Any], limits: ActuatorLimits) -> Callable[[Deadline], str]:
    """Return what the instrument says instead of being safe, or nothing."""
    if isinstance(handle.device, Doser):
        return lambda deadline: "it still runs" if handle.device.dose_status(deadline).running else ""
    value = None if limits.safe_state == "off" else limits.safe_state
    tolerance = 0.0 if value is None else safe_tolerance(value)

    def denial(deadline: Deadline) -> str:
        state = handle.device.read_back(deadline)
        return "" if holds(state, value, tolerance) else f"reads back {told(state, handle.device.unit)}"

    return denial
