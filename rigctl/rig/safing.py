"""Everything to its declared safe state, whatever else is wrong, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rigctl.rig.bus import Bus
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle
from rigctl.rig.imposing import holds, told
from rigctl.rig.protocols import Actuator, Doser
from rigctl.rig.spec import ActuatorLimits, RigSpec
from rigctl.rig.values import SafeReport
from rigctl.rig.wiring import Wiring

BUDGET_S = 1.8
"""Wall seconds; within 2 s a rig is safe, or says what is not."""
COMMANDS_SHARE = 0.6
"""Of that, for the commands of one bus even if nothing on it answers: each must go out before any is asked about."""
ATTEMPTS = 3
"""Going to the safe state may be repeated without harm, but only after a read-back denied it or failed."""


@dataclass(frozen=True, slots=True)
class _Target:
    """One actuator on its way to its safe state."""

    name: str
    bus: Bus
    command: Callable[[float], Awaitable[None]]
    """Send it there; within so many wall seconds."""
    denial: Callable[[], Awaitable[str]]
    """Ask the instrument: what it says instead of being safe, or nothing."""


async def drive_safe(spec: RigSpec, wiring: Wiring, guard: Guard) -> SafeReport:
    """Drive everything to its safe state, buses in parallel, within `BUDGET_S`. Raises nothing (but cancellation)."""
    targets = [_pump(guard, p) for p in wiring.dosers.values()]
    targets += [_actuator(guard, a, spec.limits[n]) for n, a in wiring.actuators.items()]
    buses: dict[Bus, list[_Target]] = {}
    for target in targets:
        buses.setdefault(target.bus, []).append(target)
    failures = await asyncio.gather(*map(_drive_bus, buses.values()))
    failed = {name: why for part in failures for name, why in part.items()}
    return SafeReport(tuple(t.name for t in targets if t.name not in failed), failed)


async def _drive_bus(targets: Sequence[_Target]) -> dict[str, str]:
    """Command all, then ask all; again for those that did not confirm. What is left, and why."""
    left = {t.name: f"not confirmed within {BUDGET_S} s" for t in targets}
    with suppress(TimeoutError):  # what is left is the answer
        async with asyncio.timeout(BUDGET_S):
            for _ in range(ATTEMPTS):
                await _attempt([t for t in targets if t.name in left], left)
                if not left:
                    break
    return dict(left)


async def _attempt(targets: Sequence[_Target], left: dict[str, str]) -> None:
    """All commands wait on the bus together, so that nothing less urgent slips in between them; then all questions.

    If the time runs out while the bus is held up by an exchange under way, the commands stay in its queue, and go out
    before it is closed: late is better than never.
    """
    within_s = COMMANDS_SHARE * BUDGET_S / len(targets)
    await asyncio.shield(asyncio.gather(*(_noting(t.name, left, t.command(within_s)) for t in targets)))
    denials = await asyncio.gather(*(_noting(t.name, left, t.denial()) for t in targets))
    for target, denied in zip(targets, denials, strict=True):
        if denied == "":
            del left[target.name]


async def _noting(name: str, left: dict[str, str], step: Awaitable[str | None]) -> str | None:
    """Carry out one step and note what goes wrong; the others must go on whatever it is."""
    try:
        denied = await step
    except Exception as error:  # noqa: BLE001 -- the last line of defence: no driver's bug keeps the others from safety
        left[name] = f"{type(error).__name__}: {error}"
        return None
    if denied:
        left[name] = denied
    return denied


def _pump(guard: Guard, pump: Handle[Doser]) -> _Target:
    async def denial() -> str:
        status = await pump.ask(pump.device.dose_status, "dose status", urgent=True)
        return "it still runs" if status.running else ""

    async def stop(within_s: float) -> None:
        await guard.stop(pump, within_s=within_s)

    return _Target(pump.name, pump.bus, stop, denial)


def _actuator(guard: Guard, actuator: Handle[Actuator], limits: ActuatorLimits) -> _Target:
    value = None if limits.safe_state == "off" else limits.safe_state
    # the safe value itself must come back; only the rounding of a coarse register is forgiven
    tolerance = 0.0 if value is None else 0.01 * max(abs(value), 1.0)

    async def denial() -> str:
        state = await actuator.ask(actuator.device.read_back, "read back", urgent=True)
        return "" if holds(state, value, tolerance) else f"reads back {told(state, actuator.device.unit)}"

    async def safe(within_s: float) -> None:
        await guard.safe(actuator, within_s=within_s)

    return _Target(actuator.name, actuator.bus, safe, denial)
