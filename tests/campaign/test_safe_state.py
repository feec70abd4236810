import asyncio

import pytest

from rigctl.campaign import control, safe_file, watchman
from rigctl.errors import DeviceError, DeviceTimeout
from tests.campaign.fakes import make_spec
from tests.campaign.test_acts import phases

UNSAFE = {"valve": "no answer"}


@pytest.mark.slow
async def test_after_a_failure_no_trial_starts_before_everything_is_confirmed_safe(stage, monkeypatch, golden):
    """The way to the safe state is tried again, ever less often, with one alarm; then the campaign goes on."""
    pauses = []

    async def noted(seconds, sooner):
        pauses.append(seconds)
        assert stage.world.count("control") == 1
        await asyncio.sleep(0)

    monkeypatch.setattr(safe_file, "moment", noted)
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
    golden(told[0])
    assert "confirmed" in told[1]


async def forever(_):
    await asyncio.Event().wait()


@pytest.mark.slow
async def test_a_stop_ends_the_campaign_once_everything_is_confirmed_safe(stage, monkeypatch):
    """Asked to stop while something is not confirmed safe: no trial, and the process stays until it is."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)

    async def stop_at_third():
        if stage.rig.calls.count("safe") == 3:
            await asyncio.to_thread(control.ask, stage.state, "stop")

    faults = {"measure": DeviceTimeout("pump: no answer"), "safe": stop_at_third}
    result = await stage.run(make_spec(max_trials=5), fail=faults, unsafe=[{}, *[UNSAFE] * 9])
    assert (result.ending, result.trials, result.safe.ok) == ("stopped", 1, True)
    assert stage.rig.calls.count("safe") == 11
    assert stage.world.count("control") == 1
    with stage.journal() as journal:
        assert (journal.starts()[0].ended, journal.starts()[0].safe) == ("stopped", True)


@pytest.mark.slow
async def test_giving_up_stays_until_everything_is_confirmed_safe(stage, monkeypatch, golden):
    """An error that ends a campaign leaves nothing unsafe behind either."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)

    async def stop_at_third():
        if stage.rig.calls.count("safe") == 3:
            await asyncio.to_thread(control.ask, stage.state, "stop")

    faults = {"measure": DeviceTimeout("pump: no answer"), "safe": stop_at_third}
    with golden.raises(DeviceError):
        await stage.run(make_spec(max_failures=1), fail=faults, unsafe=[{}, *[UNSAFE] * 9])
    assert stage.rig.calls.count("safe") == 11
    with stage.journal() as journal:
        assert journal.starts()[0].safe


async def test_a_campaign_that_has_ended_stays_until_what_it_could_not_confirm_is_safe(stage, monkeypatch):
    """It holds meanwhile, with one alarm that ends; the result says that everything is safe."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)
    result = await stage.run(make_spec(max_trials=1), unsafe=[{}, UNSAFE, UNSAFE])
    assert (result.ending, result.safe.ok) == ("trials", True)
    assert [a.state for a in stage.alarms() if a.source == "safe state"] == ["stands", "over"]
    assert phases(stage)[-1] == "HOLDING"
