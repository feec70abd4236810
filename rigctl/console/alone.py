"""`rigctl manual` where no campaign runs: this process does it, and leaves everything safe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from rigctl.campaign import daemon
from rigctl.campaign.clock import RealClock
from rigctl.campaign.control import Request
from rigctl.campaign.decide import Question
from rigctl.campaign.decision import Decision
from rigctl.campaign.events import AlarmRaised, CampaignEvent
from rigctl.campaign.people import this_person
from rigctl.console.assemble import loaded_here, rig_factory
from rigctl.console.hands import Place
from rigctl.console.safe import left_safe
from rigctl.core.experiment.problem import Problem
from rigctl.core.policy import Policy
from rigctl.errors import GuardRefused, NoAnswer, RigctlError
from rigctl.page.campaign import campaign_spec
from rigctl.rig.by_hand import check_able
from rigctl.rig.guard import Command, Facts, objections
from rigctl.rig.protocols import Severity
from rigctl.rig.registry import Registry
from rigctl.rig.spec import RigSpec
from rigctl.rig.wiring import Wiring, wired
from rigctl.signals import Signals


class Undecided:
    """Stands where decisions are made: by hand there are none."""

    async def start(self, policy: Policy, problem: Problem) -> None:
        pass

    async def decide(self, question: Question, limit_s: float) -> Decision:  # noqa: ARG002  # the protocol's
        raise NoAnswer("nothing is decided while single instruments are driven by hand")

    async def close(self) -> None:
        pass


def alone(place: Place, operation: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
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
        _refuse_beforehand(loaded.rig, wired(loaded.rig, Registry.installed(), clock, lambda _: None), operation, said)
        errors: list[RigctlError] = []
        arguments = {name: value for name, value in said.items() if name != "why"}
        request = Request("manual", this_person(), str(said.get("why", "")), {"operation": operation, **arguments})

        async def act(session: daemon.Session) -> None:
            await daemon.until_at_hand(session)
            try:
                answers.append(await session.acts.manual.act(request))
                if session.rig.hands.driven:
                    structlog.get_logger("rigctl.manual").warning(f"{answers[-1]['outcome']}; Ctrl-C lets it go")
                while session.rig.hands.driven:
                    await session.watchman.next_look()
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
            raise RigctlError(f"manual {operation}: not done: {result.reason}")
        if not result.safe.ok:
            raise RigctlError(f"manual {operation}: done, but NOT CONFIRMED SAFE: {', '.join(result.safe.failed)}")
        return answers[0]


def _refuse_beforehand(spec: RigSpec, wiring: Wiring, operation: str, said: Mapping[str, Any]) -> None:
    """Raise what this device, or its limits, will refuse whatever the rig says; nothing is on disk yet."""
    device = str(said["device"])
    check_able(wiring, operation, device)
    commands = {
        "set": lambda: Command(device, "setpoint", said["value"], wiring.actuators[device].device.unit),
        "dose": lambda: Command(device, "dose", said["volume_ml"], "mL"),
    }
    if operation in commands and (against := objections(commands[operation](), Facts(spec.limits[device]))):
        raise GuardRefused(f"{operation} {device}: refused: {'; '.join(against)}")


def _tell(event: CampaignEvent) -> None:
    if isinstance(event, AlarmRaised) and event.alarm.severity >= Severity.MAJOR:
        structlog.get_logger("rigctl.manual").error(f"{event.alarm.source}: {event.alarm.message}")
