"""What may be driven now and how to stop it, in a small file beside the journal; and going safe by that file alone.

Written before the first command of a process leaves, so that whoever comes next can go safe without the journal, the
configuration or the lock: every actuator with its driver, its line and its safe state. Needs nothing that learns.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from rigctl.campaign.lock import Writer
from rigctl.codec import plain, typed
from rigctl.errors import JournalUnwritable, RigctlError, in_words, reason
from rigctl.files import own, whole
from rigctl.logs import logger
from rigctl.rig.clocks import RealClock
from rigctl.rig.dose_log import DoseLog, Unanswered
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.places import Seen
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.spec import DeviceSpec, DosingSpec, MeasureSpec, RigSpec, TrialTiming
from rigctl.rig.values import Alarm, News, SafeReport
from rigctl.signals import NO_SECOND, Signals

# The file -------------------------------------------------------------------------------------------------------------

FILE_NAME = "safe.json"
VERSION = 2
"""2: who was seen there; a file of version 1 does not know."""
BY_CONFIGURATION = "`rigctl safe CONFIG` goes by the configuration instead"


@dataclass(frozen=True, slots=True)
class Driven:
    """One actuator or pump, and how it is stopped."""

    name: str
    driver: str
    url: str
    options: Mapping[str, Any]
    """As the driver's options read them, JSON."""
    timeout_s: float
    kind: Literal["actuator", "doser"]
    safe_state: Literal["off"] | float
    seen: Seen | None = None
    """Who stood there; None: it is not known."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Return what is equal for two that are the same instrument, whatever it is called."""
        return self.driver, self.url, json.dumps(dict(self.options), sort_keys=True), self.kind


@dataclass(frozen=True, slots=True)
class SafeFile:
    """What a process that drives, or drove, a rig has left word of."""

    rig: str
    driven: bool
    """False: it was confirmed safe at its end."""
    speedup: float
    devices: tuple[Driven, ...]
    writer: Writer


NOBODY: Final[Mapping[str, Seen]] = MappingProxyType({})


def driven_by(spec: RigSpec, seen: Mapping[str, Seen] = NOBODY) -> tuple[Driven, ...]:
    """Return all that a rig may drive, with who is known to stand where, by device."""
    return tuple(
        Driven(
            name=name,
            driver=device.driver,
            url=device.url,
            options=device.options.model_dump(mode="json", by_alias=True, exclude_unset=True),
            timeout_s=device.timeout_s,
            kind="doser" if name in spec.pumps else "actuator",
            safe_state=limits.safe_state,
            seen=seen.get(name),
        )
        for name, limits in spec.limits.items()
        if (device := spec.devices.get(name)) is not None
    )


def of_rig(spec: RigSpec, seen: Mapping[str, Seen], *, driven: bool) -> SafeFile:
    """Return this process's word."""
    return SafeFile(spec.name, driven, spec.speedup, driven_by(spec, seen), Writer.this_process())


def write(directory: Path, content: SafeFile) -> None:
    """Put it there, whole or not at all; when this returns, it is on disk.

    Raises:
        JournalUnwritable: it cannot be written, so nothing may move.
    """
    put(directory / FILE_NAME, {"version": VERSION, **plain(content)})


def put(path: Path, content: Mapping[str, Any]) -> None:
    """Put a JSON document there, whole or not at all; when this returns, it is on disk.

    Raises:
        JournalUnwritable: it cannot be written, so nothing may move.
    """
    try:
        with whole(path, private=True) as new:
            new.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise JournalUnwritable(
            f"{path}: cannot be written ({reason(error)}), so nothing may move; free space or make the directory "
            "writable"
        ) from error


def read(directory: Path) -> SafeFile | None:
    """Return what is there; None: nothing.

    Raises:
        RigctlError: something is, but it cannot be read, or others may have put it there (fault 86).
    """
    path = directory / FILE_NAME
    try:
        content = json.loads(own(path))
        version = content.pop("version")
        if version > VERSION:
            raise RigctlError(
                f"{path}: written by a newer rigctl (version {version}, this one knows up to {VERSION}); "
                f"update rigctl. {BY_CONFIGURATION}"
            )
        return typed(SafeFile, content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RigctlError(f"{path}: cannot be read ({type(error).__name__}: {error}). {BY_CONFIGURATION}") from error


# Going on until everything is confirmed safe --------------------------------------------------------------------------

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 10.0
"""Wall seconds between two attempts to make everything safe; they double from the first to the longest."""
REMIND_S = 60.0
"""Wall seconds after which the log says again what is not confirmed safe."""
SOURCE = "safe state"
"""Of the alarm while something is not confirmed safe."""
STAYS = "it stays and tries again until everything is confirmed safe; another signal ends it"


def standing(report: SafeReport) -> str:
    """Say that everything is safe, or what is not."""
    if report.ok:
        return "everything is safe"
    return "NOT CONFIRMED SAFE: " + "; ".join(f"{name}: {why}" for name, why in (report.told or report.failed).items())


async def until_confirmed(
    safe: Callable[[], Awaitable[SafeReport]],
    report: SafeReport,
    news: News,
    enough: Callable[[], bool],
    *,
    what: str,
    sooner: asyncio.Event | None = None,
) -> SafeReport:
    """Go on from a first report until everything is confirmed safe, or `enough`, asked before each try, says to stop.

    One alarm when it begins and one when it is over, however many attempts there are; the log says it every minute.
    `safe` tries once; `what` says for people what is done meanwhile. Once `sooner` is set, the next try does not wait.
    """
    if report.ok:
        return report
    news.stands(SOURCE, f"{what}: {standing(report)}", kind="unconfirmed")
    pause_s, told_s = FIRST_RETRY_S, time.monotonic()
    while not report.ok:
        await moment(pause_s, sooner or asyncio.Event())
        if enough():
            return report
        pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        report = await safe()
        if not report.ok and time.monotonic() >= told_s + REMIND_S:
            told_s = time.monotonic()
            logger("rigctl.campaign").error("still not confirmed safe", what=what, failed=dict(report.failed))
    tell_confirmed(news)
    return report


def tell_confirmed(news: News) -> None:
    """Tell that what stood as not confirmed safe is."""
    news.over(SOURCE, "confirmed: everything is safe", kind="unconfirmed")


async def moment(within_s: float, sooner: asyncio.Event) -> None:
    """Let so many wall seconds pass, or fewer if the event is set meanwhile."""
    with suppress(TimeoutError):
        await asyncio.wait_for(sooner.wait(), within_s)
    sooner.clear()


# Going safe by the file alone -----------------------------------------------------------------------------------------


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


class _Logged(News):
    def alarm(self, alarm: Alarm) -> None:
        logger("rigctl.campaign").error(alarm.message)


async def _until_confirmed(rig: Rig, report: SafeReport, signals: Signals) -> SafeReport:
    before, sooner = len(signals.heard), asyncio.Event()

    def enough() -> bool:
        return any(name != NO_SECOND for name in signals.heard[before:])

    with signals.caught(), signals.told(lambda _: sooner.set(), asyncio.get_running_loop().call_soon_threadsafe):
        return await until_confirmed(rig.safe, report, _Logged(), enough, what=STAYS, sooner=sooner)


def recognisable(devices: Sequence[Driven], left: Sequence[Driven]) -> tuple[Driven, ...]:
    """Return these with the identity last seen at each place, if it was recorded."""
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
        outcomes=(),
        timing=TrialTiming(0.0, MeasureSpec(0.0, 1.0)),
        meters=(),
        limits={d.name: ActuatorLimits(low=-math.inf, high=math.inf, safe_state=d.safe_state) for d in devices},
        dosing={d.name: DosingSpec("", 0.0, 0.0, 0.0, 0) for d in devices if d.kind == "doser"},
        speedup=speedup,
    )
    return Rig(spec, registry, RealClock(speedup), NoDoses(), News())


class NoDoses(DoseLog):
    """Stands in for whoever never doses: a dose without a record must not happen, so there is none to settle."""

    async def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        raise RigctlError(f"{actuator}: {volume_ml:g} mL after {total_before_ml:g} mL: no journal is open, no dose")

    async def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        await self.intend(actuator, volume_ml, total_before_ml)

    async def _never(self, *_: object, **__: object) -> None:
        pass  # of what was not intended nothing comes

    sent = done = unknown = answered = _never

    async def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:  # noqa: ARG002  # as above
        return 0.0

    async def unanswered(self, actuator: str, probe: str) -> Unanswered:  # noqa: ARG002  # the protocol's signature
        return Unanswered(0, 0)
