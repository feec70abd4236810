import asyncio
import os
import signal
import socket
import stat

import pytest

from rigctl.campaign import control, watchman
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import RigSeen
from rigctl.campaign.lock import state_lock
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import State
from rigctl.errors import JournalError, Locked, RigctlError, UsageError
from rigctl.rig.clocks import RealClock
from rigctl.signals import Signals
from tests.campaign.fakes import make_spec


def signalling(*signals):
    """A fault that sends signals to this process and then never ends by itself."""

    async def hang():
        for number in signals:
            os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    return hang


# Stopping -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["control end", "measure"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_fault_29_a_signal_in_mid_trial_abandons_it_safe_and_charged(stage, where, number):
    """Everything is safe first of all, the trial is ABANDONED and paid for, and the campaign can go on afterwards."""
    spec = make_spec(max_trials=2)
    result = await stage.run(spec, fail={where: signalling(number)})
    assert (result.ending, result.reason, result.safe.ok) == ("abandoned", number.name, True)
    assert result.safe_after_s is not None
    calls = stage.rig.calls
    assert calls[calls.index(where) + 1] == "safe"
    with stage.journal() as journal:
        row = journal.trial(1)
        (acid,) = [line for line in journal.ledger(1) if line.meter == "acid"]
        assert (row.state, row.cost) == (State.ABANDONED, result.spent)
        assert acid.quantity == pytest.approx(stage.world.total("dose", "ml"))
        assert journal.starts()[0].ended == "abandoned"
    again = await stage.run(spec)
    assert (again.ending, again.trials) == ("trials", 2)
    with stage.journal() as journal:
        assert [r.state for r in journal.trials()] == [State.ABANDONED, State.RECORDED]
        assert all(t.agrees for t in replay(journal, spec))


async def test_a_signal_during_the_start_ends_it_safe(stage):
    """SIGTERM while the past is being settled: safe, and nothing started."""
    seen = []

    async def first_time():
        if not seen:
            seen.append(1)
            await signalling(signal.SIGTERM)()

    result = await stage.run(make_spec(), fail={"safe": first_time})
    assert (result.ending, result.trials) == ("abandoned", 0)
    assert stage.world.count("control") == 0


async def test_a_signal_while_the_rig_is_opened_ends_it_untouched(stage):
    """SIGTERM before all devices are identified: nothing is written to any of them."""
    result = await stage.run(make_spec(), fail={"open": signalling(signal.SIGTERM)})
    assert (result.ending, result.trials) == ("abandoned", 0)
    assert stage.rig.calls == ["open", "close"]


async def test_a_signal_does_not_break_off_the_way_to_the_safe_state(stage):
    """SIGTERM while everything goes safe at the end: it still gets there, and the campaign has ended as it had."""

    async def twice():
        if stage.rig.calls.count("safe") == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(10):  # the loop hears of it
                await asyncio.sleep(0)
            stage.reached = True

    result = await stage.run(make_spec(max_trials=1), fail={"safe": twice})
    assert (result.ending, stage.reached) == ("trials", True)


async def test_signal_handlers_are_put_back(stage):
    """After the campaign, signals do again what they did."""
    await stage.run(make_spec(max_trials=1))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_who_runs_the_campaign_and_does_not_answer_is_named(tmp_path):
    """A daemon whose loop hangs: its pid, and how to get everything safe without it."""
    with state_lock(tmp_path), socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "control.sock"))
        deaf.listen()
        with pytest.raises(RigctlError) as caught:
            control.ask(tmp_path, "safe", timeout_s=0.01)
    pid = os.getpid()
    for part in ("safe: no answer", f"process {pid} ", "`rigctl safe --force`"):
        assert part in str(caught.value)


# Control socket -----------------------------------------------------------------------------------------------------


async def ask(stage, verb):
    return await asyncio.to_thread(control.ask, stage.state, verb)


def asking(stage, verb, answers):
    async def fault():
        answers.append(await ask(stage, verb))

    return fault


async def test_status_says_what_is_going_on(stage):
    """Trial, state, what is done now and for how long yet, doses, setpoints and money, in currency units."""
    answers = []
    await stage.run(make_spec(max_trials=2), fail={"measure": asking(stage, "status", answers)})
    first, second = answers
    assert (first["pid"], first["rig"], first["phase"]) == (os.getpid(), "fake", "running")
    assert (first["trial"]["trial"], first["trial"]["state"], first["spent"]) == (1, "RUNNING", 0.0)
    assert (second["trial"]["control_set"], second["trials"]) == (["b"], 1)
    assert second["spent"] == pytest.approx(0.291528)
    assert first["trial"]["step"] in {"settle", "measure"} == set(first["trial"]["left_s"])
    [(pump, doses)] = first["trial"]["doses"].items()
    assert (pump, doses["count"], doses["volume_ml"]) == ("pump", 1, doses["day_ml"])
    assert second["trial"]["doses"] == {}


async def test_stop_finishes_the_trial_under_way(stage):
    """The trial in which `stop` is asked is recorded; no other starts."""
    result = await stage.run(make_spec(max_trials=9), fail={"measure": asking(stage, "stop", [])})
    assert (result.ending, result.trials) == ("stopped", 1)
    assert [row.state for row in stage.trials()] == [State.RECORDED]


async def test_the_socket_belongs_to_the_user_alone(stage):
    """Mode 0600, and gone afterwards."""
    modes = []
    path = stage.state / "control.sock"
    await stage.run(make_spec(max_trials=1), fail={"measure": lambda: modes.append(path.stat().st_mode)})
    assert stat.S_ISSOCK(modes[0])
    assert stat.S_IMODE(modes[0]) == 0o600
    assert not path.exists()


async def test_a_wrong_request_is_answered_with_what_is_allowed(stage):
    """Unknown verbs and lines that are no request do not disturb the campaign."""
    refused = []

    async def fault():
        with pytest.raises(RigctlError) as unknown:
            await ask(stage, "explode")
        assert "status, stop, safe" in unknown.value.flaw.allowed
        reader, writer = await asyncio.open_unix_connection(stage.state / "control.sock")
        writer.write(b"not json\n[]\n" + b"x" * 100_000)
        refused.append(await reader.readline())
        refused.append(await reader.readline())
        writer.close()

    result = await stage.run(make_spec(max_trials=1), fail={"measure": fault})
    assert [b"a request is one line of JSON" in line for line in refused] == [True, True]
    assert result.trials == 1


def test_asking_nobody_says_so(tmp_path, golden):
    """No directory, no socket, and a socket nobody listens on are all no running campaign."""
    with golden.raises(UsageError):
        control.ask(tmp_path / "nowhere", "status")
    with golden.raises(UsageError):
        control.ask(tmp_path, "status")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))
    with golden.raises(UsageError):
        control.ask(tmp_path, "status")


async def test_a_deep_state_directory_has_a_socket_too(stage):
    """The kernel's limit of 108 bytes for a socket's path does not reach the user."""
    stage.state = stage.directory / ("deep" * 20) / ("deeper" * 20)
    answers = []
    await stage.run(make_spec(max_trials=1), fail={"measure": asking(stage, "status", answers)})
    assert answers[0]["rig"] == "fake"


async def test_a_directory_that_takes_no_socket_still_runs_the_campaign(stage):
    """Without a control socket there is a warning, and trials all the same."""
    (stage.state / "control.sock" / "in the way").mkdir(parents=True)
    assert (await stage.run(make_spec(max_trials=1))).trials == 1


# One process --------------------------------------------------------------------------------------------------------


async def test_fault_44_a_second_process_is_refused_by_pid(stage):
    """The same state directory: Locked, naming the holder; the first goes on."""
    refusals = []

    def second():
        with pytest.raises(Locked) as refusal, state_lock(stage.state):
            pass
        refusals.append(str(refusal.value))

    result = await stage.run(make_spec(max_trials=1), fail={"measure": second})
    assert f"process {os.getpid()} " in refusals[0]
    assert result.trials == 1


async def test_the_lock_is_free_after_the_campaign(stage):
    """A campaign that has ended, well or badly, does not hold the directory."""
    with pytest.raises(JournalError):
        await stage.run(make_spec(), fail={"measure": JournalError("a defect of our own")})
    with state_lock(stage.state):
        assert (stage.state / "lock").read_text().splitlines()[0] == str(os.getpid())


async def test_another_configuration_is_refused_before_anything_is_opened(stage):
    """Resuming with another seed is a usage error; the rig is not opened."""
    await stage.run(make_spec(max_trials=1))
    with pytest.raises(UsageError, match="seed"):
        await stage.run(make_spec(seed=8))
    assert stage.rig.calls == ["close"]


# Tick -----------------------------------------------------------------------------------------------------------------


async def test_the_watch_measures_its_own_delay_and_beats_at_a_low_rate(tmp_path):
    """A loop that was held up shows in the worst delay; heartbeats are rarer than looks."""
    looks, beats, told = asyncio.Queue(), [], []
    watching = watchman.Watchman(
        rules=(),
        clock=RealClock(),
        desk=Desk(None, told.append),
        surroundings=watchman.Surroundings(tmp_path, lambda: ""),
        journal_s=lambda: 0.0,
        alive=lambda: looks.put_nowait(1),
        beat=lambda: beats.append(1),
        period_s=0.001,
        beats_every_s=3600.0,
    )
    running = asyncio.create_task(watching.run())
    await looks.get()
    loop = asyncio.get_running_loop()
    until = loop.time() + 0.02
    while loop.time() < until:  # holds the loop up
        pass
    await looks.get()
    await looks.get()
    running.cancel()
    assert watching.lateness.worst_s >= 0.01
    assert beats == [1]
    assert len(told) >= 3
    assert {type(event) for event in told} == {RigSeen}


async def test_a_tick_that_fails_ends_the_campaign_safe(stage, monkeypatch):
    """Without its watch no trial goes on."""

    async def broken(self):
        raise RuntimeError("tick")

    monkeypatch.setattr(watchman.Watchman, "run", broken)
    with pytest.raises(RuntimeError, match="tick"):
        await stage.run(make_spec(), fail={"measure": lambda: asyncio.Event().wait()})
    assert stage.rig.calls[-2:] == ["safe", "close"]


async def test_a_signal_that_came_before_a_first_campaign_begins_ends_it(stage):
    """Nothing is in the journal yet, so nothing was spent."""
    early = Signals()
    early.heard.append("SIGTERM")
    result = await stage.run(signals=early)
    assert (result.ending, result.trials, result.recorded, result.spent) == ("abandoned", 0, 0, 0)
