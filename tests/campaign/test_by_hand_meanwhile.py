"""What people do by hand at once with what else happens: everything is made safe, trials go on, time is over."""

import asyncio
import threading

import pytest

from rigctl.campaign.requests import Manual
from rigctl.rig.values import Alarm
from tests.campaign.test_acts import ask, asks, paused_then, refusal, soon, watched
from tests.campaign.test_holding import ACID, reads


async def test_nothing_is_driven_by_hand_that_everything_was_made_safe_before(stage, golden):
    """The journal takes its time with the intent: the command would leave after the way to safety, and stand."""
    returns, refused = threading.Event(), []

    async def drive():
        refused.append(await refusal(stage, "manual", operation="set", device="valve", value=1.0))

    async def person():
        stage.rig.doses._thread.submit(lambda _: returns.wait(30.0))
        before, driving = stage.rig.calls.count("safe"), asyncio.create_task(drive())
        await soon(lambda: stage.rig.doses._thread._executor._work_queue.qsize() > 0)
        ending = asyncio.create_task(ask(stage, "safe"))
        await soon(lambda: stage.rig.calls.count("safe") > before)
        returns.set()
        await driving
        await ending

    await paused_then(stage, watched(max_trials=3), person)
    assert not [done for done in stage.rig.hands.done if done[0] == "apply"]
    assert len(refused) == 1
    golden(refused[0])


@pytest.mark.slow
async def test_what_the_watch_made_safe_meanwhile_is_not_driven_and_the_refusal_is_kept(stage, monkeypatch):
    """The journal is slow with the intent, an interlock fires, everything is made safe: the act is refused then."""
    returns, refused, checked, value, check = threading.Event(), [], [], [3.0], Manual._check

    def checking(self, asked):
        check(self, asked)
        checked.append(asked)

    monkeypatch.setattr(Manual, "_check", checking)

    async def drive():
        refused.append(await refusal(stage, "manual", operation="set", device="valve", value=1.0))

    async def person():
        stage.rig.doses._thread.submit(lambda _: returns.wait(30.0))
        driving = asyncio.create_task(drive())
        await soon(lambda: checked)
        value[0] = 0.5
        await soon(lambda: any(isinstance(e, Alarm) and e.kind == "interlock acid" for e in stage.told))
        returns.set()
        await driving

    spec = watched(max_trials=3, interlocks=(ACID,))
    await paused_then(stage, spec, person, asks(stage, "stop"), shows=lambda: reads(value[0]))
    assert not [done for done in stage.rig.hands.done if done[0] == "apply"]
    assert [outcome.partition(":")[0] for _, outcome in acts(stage)] == ["begun", "refused"]
    assert len(refused) == 1


def acts(stage):
    return [(act.argument, act.outcome) for act in stage.acts() if act.verb == "manual"]


@pytest.mark.slow
async def test_nobody_resumes_what_another_begins_to_drive_meanwhile(stage, golden):
    """What is driven is made safe for it; a dose that somebody begins then would run on into the next trial."""
    over, refused, dosing = asyncio.Event(), [], []

    async def dose(pump, volume_ml):
        await over.wait()
        return volume_ml

    async def meanwhile():
        if stage.rig.driven and not dosing:
            stage.rig.hands.dose = dose
            dosing.append(asyncio.create_task(ask(stage, "manual", operation="dose", device="pump", volume_ml=1.0)))
            await soon(lambda: ("dose pump 1 mL", "begun") in acts(stage))

    async def person():
        await ask(stage, "manual", operation="set", device="valve", value=1.0)
        refused.append(await refusal(stage, "resume"))
        over.set()
        await dosing[0]
        await ask(stage, "stop")

    result = await paused_then(stage, watched(max_trials=2), person, fail={"safe": meanwhile})
    golden(refused)
    assert result.trials == 1


@pytest.mark.slow
async def test_who_still_doses_has_not_forgotten_anything(stage, monkeypatch):
    """The time for the next act is over in the middle of it: nobody is told that everything is made safe."""
    made, act = [], Manual.act

    async def acting_by_hand(self, *asked):
        made.append(self)
        return await act(self, *asked)

    monkeypatch.setattr(Manual, "act", acting_by_hand)

    async def dose(pump, volume_ml):
        made[-1]._time_is_over()  # as its timer says in the midst of it
        made[-1].limit_s = 0.05
        return volume_ml

    async def person():
        stage.rig.hands.dose = dose
        await ask(stage, "manual", operation="set", device="valve", value=1.0)
        await ask(stage, "manual", operation="dose", device="pump", volume_ml=1.0)
        assert (stage.alarms(), stage.rig.driven) == ([], {"valve": 1.0})
        await soon(lambda: not stage.rig.driven)
        await ask(stage, "stop")

    await paused_then(stage, watched(max_trials=2), person)
    assert [alarm.source for alarm in stage.alarms()] == ["manual"]
