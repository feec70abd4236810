"""Drives a rig to its safe state by `safe.json` alone: without journal, configuration or lock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

import structlog

from rigctl.campaign.clock import RealClock
from rigctl.campaign.confirming import STAYS, until_confirmed
from rigctl.campaign.safe_file import Driven
from rigctl.errors import RigctlError, in_words
from rigctl.rig.protocols import DoseLog, Unanswered
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.spec import ActuatorLimits, DeviceSpec, DosingSpec, MeasureSpec, RigSpec, TrialTiming
from rigctl.rig.values import SafeReport
from rigctl.signals import NO_SECOND, Signals


def go_safe(devices: Sequence[Driven], speedup: float, signals: Signals | None = None) -> SafeReport:
    """Bring everything to its safe state; block. What cannot even be made is told with the rest that failed.

    With `signals` it is tried until it is confirmed, or until one comes once the log has said what is not.
    """
    registry = Registry.installed()
    usable, failed = [], {}
    for device in devices:
        try:
            _rig([device], speedup, registry)
        except (RigctlError, ValueError) as error:  # its driver is gone, or reads its options no more
            failed[device.name] = in_words(error)
        else:
            usable.append(device)

    async def drive() -> SafeReport:
        rig = _rig(usable, speedup, registry)
        for device in usable:
            if device.seen is not None:
                rig.hands.expect(device.name, device.seen)
        try:
            report = await rig.safe()  # needs no open(): one missing instrument must not keep the others unsafe
            return report if signals is None else await _until_confirmed(rig, report, signals)
        finally:
            await rig.close()

    report = asyncio.run(drive())
    return SafeReport(report.reached, {**failed, **report.failed})


async def _until_confirmed(rig: Rig, report: SafeReport, signals: Signals) -> SafeReport:
    before, sooner, log = len(signals.heard), asyncio.Event(), structlog.get_logger("rigctl.campaign")

    def enough() -> bool:
        return any(name != NO_SECOND for name in signals.heard[before:])

    with signals.caught(), signals.told(lambda _: sooner.set(), asyncio.get_running_loop().call_soon_threadsafe):
        return await until_confirmed(
            rig.safe, report, lambda alarm: log.error(alarm.message), enough, what=STAYS, sooner=sooner
        )


def recognisable(devices: Sequence[Driven], left: Sequence[Driven]) -> tuple[Driven, ...]:
    """Return these with who was seen where each of them stands, as far as word was left of that."""
    seen = {device.place: device.seen for device in left}
    return tuple(replace(device, seen=seen.get(device.place)) for device in devices)


def joined(first: Sequence[Driven], more: Sequence[Driven]) -> tuple[Driven, ...]:
    """Join both, each instrument once; of two with one name the second is called by its origin too."""
    known, names = {device.place for device in first}, {device.name for device in first}
    others = [device for device in more if device.place not in known]
    return (*first, *(replace(d, name=f"{d.name} (as last driven)") if d.name in names else d for d in others))


def _rig(devices: Sequence[Driven], speedup: float, registry: Registry) -> Rig:
    made = {
        d.name: DeviceSpec(
            d.name, d.driver, d.url, registry.driver(d.driver).options.model_validate(d.options), d.timeout_s
        )
        for d in devices
    }
    spec = RigSpec(
        name="as last driven",
        devices=made,
        variables=(),
        outcome_sensor="",
        outcome_name="",
        timing=TrialTiming((), 0.0, MeasureSpec(0.0, 1.0, "median", 1)),
        meters=(),
        limits={d.name: ActuatorLimits(-math.inf, math.inf, d.safe_state) for d in devices},
        dosing={d.name: DosingSpec("", 0.0, 0.0, 0.0, 0) for d in devices if d.kind == "doser"},
        speedup=speedup,
    )
    return Rig(spec, registry, RealClock(speedup), NoDoses(), lambda _: None)


class NoDoses(DoseLog):
    """Stands in for whoever never doses: a dose without a record must not happen, so there is none to settle."""

    async def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        raise RigctlError(f"{actuator}: {volume_ml:g} mL after {total_before_ml:g} mL: no journal is open, no dose")

    async def _never(self, *_: object, **__: object) -> None:
        pass  # of what was not intended nothing comes

    sent = done = unknown = answered = _never

    async def volume_since_ml(self, actuator: str, since_s: float) -> float:  # noqa: ARG002  # the protocol's signature
        return 0.0

    async def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:  # noqa: ARG002  # as above
        return 0.0

    async def unanswered(self, actuator: str, probe: str) -> Unanswered:  # noqa: ARG002  # the protocol's signature
        return Unanswered(0, 0)
