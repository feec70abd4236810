from __future__ import annotations

import asyncio

import pytest

from rigctl.campaign import control, patience, watchman
from rigctl.errors import DeviceError, DeviceTimeout
from tests.campaign.fakes import make_spec

UNSAFE = {"valve": "no answer"}


async def test_after_a_failure_no_trial_starts_before_everything_is_confirmed_safe(stage, monkeypatch):
    """The way to the safe state is tried again, ever less often, with one alarm; then the campaign goes on."""
    pauses, sleep = [], asyncio.sleep

    async def noted(seconds):
        if seconds >= 1.0:
            pauses.append(seconds)
            assert stage.world.count("control") == 1
        await sleep(0)

    monkeypatch.setattr(patience.asyncio, "sleep", noted)
    monkeypatch.setattr(watchman.Watchman, "run", forever)
    once = [DeviceTimeout("pump: no answer")]

    def fault():
        if once:
            raise once.pop()

    result = await stage.run(make_spec(max_trials=2), fail={"measure": fault}, unsafe=[{}, *[UNSAFE] * 6])
    assert (result.trials, result.safe.ok) == (2, True)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    told = [a.message for a in stage.alarms() if a.source == "safe state"]
    assert len(told) == 2
    assert "NOT CONFIRMED SAFE: valve: no answer" in told[0]
    assert "confirmed" in told[1]


async def forever(_):
    await asyncio.Event().wait()


async def test_a_stop_ends_the_waiting_and_the_result_says_what_is_not_safe(stage, monkeypatch):
    """Asked to stop while something is not confirmed safe: no trial, no claim that everything is safe."""
    monkeypatch.setattr(patience, "FIRST_RETRY_S", 0.0)

    async def stop_at_third():
        if stage.rig.calls.count("safe") == 3:
            await asyncio.to_thread(control.ask, stage.state, "stop")

    faults = {"measure": DeviceTimeout("pump: no answer"), "safe": stop_at_third}
    result = await stage.run(make_spec(max_trials=5), fail=faults, unsafe=[{}, *[UNSAFE] * 9])
    assert (result.ending, result.trials, result.safe.failed) == ("stopped", 1, UNSAFE)
    assert stage.world.count("control") == 1
    with stage.journal() as journal:
        assert (journal.starts()[0].ended, journal.starts()[0].safe) == ("stopped", False)


async def test_giving_up_says_what_is_not_safe(stage, monkeypatch):
    """The error that ends a campaign never says that everything is safe when it is not."""
    monkeypatch.setattr(patience, "FIRST_RETRY_S", 0.0)

    async def stop_at_third():
        if stage.rig.calls.count("safe") == 3:
            await asyncio.to_thread(control.ask, stage.state, "stop")

    faults = {"measure": DeviceTimeout("pump: no answer"), "safe": stop_at_third}
    with pytest.raises(DeviceError, match="1 trial in a row failed") as caught:
        await stage.run(make_spec(max_failures=1), fail=faults, unsafe=[{}, *[UNSAFE] * 9])
    assert "everything is safe" not in str(caught.value)
    assert str(caught.value).count("NOT CONFIRMED SAFE: valve: no answer") == 1
    with stage.journal() as journal:
        assert "NOT CONFIRMED SAFE" in journal.starts()[0].ended


async def test_what_the_last_way_to_safety_could_not_confirm_is_in_the_result_and_in_an_alarm(stage):
    """A campaign that has ended says what is not confirmed safe."""
    result = await stage.run(make_spec(max_trials=1), unsafe=[{}, UNSAFE])
    assert (result.ending, result.safe.failed) == ("trials", UNSAFE)
    assert any("NOT CONFIRMED SAFE: valve" in a.message for a in stage.alarms())
