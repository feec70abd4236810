"""What people do to instruments: by the campaign that runs here, else to the rig itself, everything safe afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from rigctl.campaign import control, daemon
from rigctl.campaign.caretaker import pin_of
from rigctl.campaign.decide import Question
from rigctl.campaign.decider import Decider
from rigctl.campaign.events import CampaignEvent
from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import bus_locks, campaign_here
from rigctl.campaign.requests import Calibrate, Dose, DrivingOperation, HandOperation, Set
from rigctl.campaign.trial import Decision
from rigctl.codec import fields_of
from rigctl.config.load import LoadedConfig
from rigctl.config.units import Units
from rigctl.console.assemble import loaded_here, own_journal, rig_factory
from rigctl.console.output import asked, at_a_terminal
from rigctl.console.safe import left_safe
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import Problem
from rigctl.errors import GuardRefused, NoAnswer, RigctlError, UsageError
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.kinds import DURATION, VOLUME, Kind
from rigctl.logs import logger
from rigctl.page.campaign import campaign_spec
from rigctl.people import this_person
from rigctl.rig.by_hand import check_able
from rigctl.rig.clocks import Clock, RealClock
from rigctl.rig.guard import Command, KnownState, objections
from rigctl.rig.protocols import Identity, Severity
from rigctl.rig.registry import Registry
from rigctl.rig.spec import RigSpec
from rigctl.rig.values import Alarm, News
from rigctl.rig.wiring import Wiring, wired
from rigctl.signals import Signals

ANSWER_S = 1800.0
"""Wall seconds that an act by hand may take: a dose takes what it takes."""
KINDS: Final[Mapping[str, Kind]] = {"duration": DURATION, "volume": VOLUME}


@dataclass(frozen=True, slots=True)
class CampaignPlace:
    """Where a rig's campaign is, and by which configuration."""

    directory: Path
    config: Path | None
    buses: Mapping[str, str]


def by_hand(place: CampaignPlace, asked: HandOperation) -> Iterator[Mapping[str, Any]]:
    """Do something to one instrument; yield what came of it, step by step.

    Raises:
        UsageError: it cannot be done now, or not to this instrument.
        RigctlError: it was refused, or went wrong.
    """
    if not isinstance(asked, Calibrate):
        yield _done(place, asked)
        return
    pump = asked.device
    if asked.measured_ml is None and not at_a_terminal():  # before the dose, which would be for nothing
        allowed = "must be what was measured, e.g. 9.6 mL"
        raise UsageError(Flaw("--measured is missing", allowed, where=f"device calibrate {pump}"))
    yield _done(place, Dose(device=pump, volume_ml=asked.volume_ml, why=asked.why))
    measured_ml = _asked(pump) if asked.measured_ml is None else asked.measured_ml
    yield _done(place, replace(asked, volume_ml=measured_ml, measured_ml=None))


def _done(place: CampaignPlace, asked: HandOperation) -> Mapping[str, Any]:
    if campaign_here(place.directory) is None:
        return alone(place, asked)
    said = {"operation": asked.operation, **fields_of(asked)}
    answer = control.ask(place.directory, "manual", ANSWER_S, who=this_person(), **said)
    return {name: told for name, told in answer.items() if name != "ok"}


def _asked(pump: str) -> float:
    """Return the measured dose; ask until the answer is readable, as another dose would cost as much again."""
    what = "ended before the answer; what was dispensed is booked, the pump is calibrated as before"
    read = partial(quantity, "measured", kind="volume")
    return asked("What was measured, e.g. 9.6 mL", read, f"device calibrate {pump}: {what}")


def quantity(where: str, text: str, kind: str) -> float:
    """Return a quantity of one of the `KINDS` in the unit used inside; raises UsageError if the text is none."""
    try:
        return Units(None).quantity(text, KINDS[kind])
    except ValueError as error:
        raise UsageError(flaw_of(error).within(where)) from error


def since(date: str) -> float:
    """Return how long ago a date was, wall seconds."""
    try:
        then = datetime.fromisoformat(date)
        aware = then if then.tzinfo is not None else then.astimezone()
    except (ValueError, OverflowError):  # the second and some of the first: so long ago that no clock knows it
        raise UsageError(got(date, "must be a date such as 2026-03-01", where="--on")) from None
    return (datetime.now(UTC) - aware).total_seconds()


class Undecided(Decider):
    """Stands where decisions are made: by hand there are none."""

    async def start(self, policy: Policy, problem: Problem) -> None:
        pass

    async def decide(self, question: Question, limit_s: float) -> Decision:  # noqa: ARG002  # the protocol's
        raise NoAnswer("nothing is decided while single instruments are driven by hand")

    async def close(self) -> None:
        pass


def alone(place: CampaignPlace, asked: HandOperation) -> Mapping[str, Any]:
    """Do one thing by hand, and return what came of it once everything is safe again.

    An actuator that is set is held until Ctrl-C, or until nothing was done by hand for a while.

    Raises:
        RigctlError: it was refused or went wrong, or the rig cannot be had.
    """
    signals = Signals()
    with left_safe(place.config or place.directory, place.directory, signals):
        loaded = loaded_here(place.config, place.directory, place.buses)
        clock, answers = RealClock(loaded.rig.speedup), list[Mapping[str, Any]]()
        factory = rig_factory(loaded, clock)
        _refuse_beforehand(loaded.rig, wired(loaded.rig, Registry.installed(), clock, News()), asked)
        errors: list[RigctlError] = []
        why = asked.why if isinstance(asked, DrivingOperation) else ""

        async def act(session: daemon.Session) -> None:
            await daemon.until_at_hand(session)
            try:
                answers.append(await session.acts.manual.act(asked, this_person(), why))
                if session.rig.driven:
                    logger("rigctl.manual").warning(f"{answers[-1]['outcome']}; Ctrl-C lets it go")
                while session.rig.driven:
                    await session.watchman.next_round()
            except RigctlError as error:
                errors.append(error)
            finally:
                session.stop_after_trial("done by hand")

        result = asyncio.run(
            daemon.run_campaign(
                campaign_spec(loaded),
                place.directory,
                factory,
                clock,
                _tell,
                signals=signals,
                decider=Undecided(),
                person=act,
            )
        )
        if errors:
            raise errors[0]
        if not answers:
            raise RigctlError(f"device {asked.operation}: not done: {result.reason}")
        if not result.safe.ok:
            raise RigctlError(
                f"device {asked.operation}: done, but NOT CONFIRMED SAFE: {', '.join(result.safe.failed)}"
            )
        return answers[0]


def _refuse_beforehand(spec: RigSpec, wiring: Wiring, asked: HandOperation) -> None:
    """Raise what this device, or its limits, will refuse whatever the rig says; nothing is on disk yet."""
    device = asked.device
    check_able(wiring, asked.operation, device)
    match asked:
        case Set():
            command = Command(device, "setpoint", asked.value, wiring.actuators[device].device.unit)
        case Dose():
            command = Command(device, "dose", asked.volume_ml, "mL")
        case _:
            return
    against = objections(command, KnownState(spec.limits[device]))
    if against:
        raise GuardRefused(f"{asked.operation} {device}: refused: {'; '.join(against)}")


def _tell(event: CampaignEvent) -> None:
    if isinstance(event, Alarm) and event.severity >= Severity.MAJOR:
        logger("rigctl.manual").error(f"{event.source}: {event.message}")


def reset(directory: Path) -> Mapping[str, Any]:
    """Let go of the trip latched in this state directory, and record when; return what had tripped, if anything had.

    Raises:
        UsageError: there is no campaign here.
        Locked: a campaign is running here: it ends by itself when it trips.
        JournalError: the journal cannot be used.
    """
    with open_reader(directory) as reader:  # before the lock, which would make a missing directory
        reader.campaign()
    with own_journal(directory) as journal:
        was = journal.trips.reset(this_person())
    return {"reset": None if was is None else {"reason": was.reason, "tripped": was.utc}}


def accept_device(loaded: LoadedConfig, directory: Path, name: str) -> Mapping[str, Any]:
    """Ask a device who it is, and expect this instrument there from now on; return who was expected and who is.

    Writes to no device.

    Raises:
        UsageError: there is no campaign here, or no device of that name.
        Locked: a campaign is running here, or on this bus.
        DeviceError: it does not answer, or is not what its driver drives.
        JournalError: the journal cannot be used.
    """
    if name not in loaded.rig.devices:
        raise UsageError(f"{name}: no such device in {loaded.path}; known: {', '.join(loaded.rig.devices)}")
    with open_reader(directory) as reader:
        reader.campaign()
    device, clock = loaded.rig.devices[name], RealClock(loaded.rig.speedup)
    with own_journal(directory, loaded.rig.speedup) as journal, bus_locks([device.url]):
        was = journal.read.pins.by_device().get(name)
        pin = pin_of(device, asyncio.run(_identity(loaded.rig, name, clock)))
        journal.pins.keep([pin], accepted_by=this_person())
    return {"device": name, "was": None if was is None else str(was), "is": str(pin), "by": this_person()}


async def _identity(rig: RigSpec, name: str, clock: Clock) -> Identity:
    handle = wired(rig, Registry.installed(), clock, News()).handles[name]
    try:
        return await handle.identify()
    finally:
        await handle.bus.close()
