import asyncio
import os
from contextlib import asynccontextmanager

import pytest

from rigctl.campaign import control
from rigctl.campaign.events import PhaseChanged
from rigctl.campaign.journal.alarms import AlarmMinded
from rigctl.campaign.trial import State
from rigctl.errors import RigctlError, Tripped
from rigctl.people import person
from rigctl.printable import printable
from rigctl.rig.conditions import Compare
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import InterlockSpec, WatchSpec
from rigctl.rig.values import Alarm, RigGlance, SeenReading
from tests.campaign.fakes import ThreadDecider, make_rig_spec, make_spec, open_journal


def watched(**changes):
    """A campaign on the fake rig that is looked at a hundred times a second."""
    interlocks = changes.pop("interlocks", ())
    watch = WatchSpec(every_s=0.01, clear_for_s=0.0, interlocks=interlocks)
    return make_spec(rig=make_rig_spec(watch=watch), **changes)


async def ask(stage, verb, **arguments):
    return await asyncio.to_thread(control.ask, stage.state, verb, 60.0, **arguments)


async def soon(happened):
    for _ in range(4000):
        if happened():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never happens")


def phases(stage):
    return [event.phase for event in stage.told if isinstance(event, PhaseChanged)]


def once(fault):
    """The fault, the first time only."""
    done = []

    async def first():
        if not done:
            done.append(1)
            await fault()

    return first


def asks(stage, verb, **arguments):
    """What asks the campaign for this when it is called."""

    async def act():
        return await ask(stage, verb, **arguments)

    return act


async def refusal(stage, verb, **arguments):
    """What is said when the campaign refuses this."""
    with pytest.raises(RigctlError) as caught:
        await ask(stage, verb, **arguments)
    return str(caught.value)


@asynccontextmanager
async def once_paused(stage, *acts, phase="PAUSED"):
    """Have these acts done as soon as the campaign is paused, or in another phase, while it runs in here."""

    async def person_acts():
        await soon(lambda: phases(stage)[-1:] == [phase])
        for act in acts:
            await act()

    acting = asyncio.create_task(person_acts())
    try:
        yield
    finally:
        await acting


async def paused_then(stage, spec, *acts, fail=None, **how):
    """Run a campaign that is paused in its first trial; what follows is done once it is."""
    pause = once(asks(stage, "pause", who="anna", why="the tank leaks"))
    async with once_paused(stage, *acts):
        return await stage.run(spec, fail={"measure": pause, **(fail or {})}, **how)


@pytest.mark.slow
async def test_a_pause_keeps_everything_safe_until_it_is_resumed(stage, golden):
    """The trial under way is recorded, everything is safe, no other begins; then the campaign goes on."""
    seen = {}

    async def look():
        seen.update(await ask(stage, "status"))
        seen["calls"] = list(stage.rig.calls)
        seen["controls"] = stage.world.count("control")

    result = await paused_then(stage, watched(max_trials=3), look, asks(stage, "resume", who="ben"))
    assert (result.ending, result.trials) == ("trials", 3)
    assert (seen["phase"], seen["trials"], seen["controls"]) == ("paused", 1, 1)
    golden(seen["why"])
    assert seen["why"] == seen["paused"]
    assert "safe" in seen["calls"][seen["calls"].index("measure") :]
    assert phases(stage) == ["PAUSED", "RUNNING"]
    acts = [(act.verb, act.who, act.why) for act in stage.acts()]
    assert acts == [("pause", "anna", "the tank leaks"), ("resume", "ben", "")]


async def test_a_pause_taken_back_in_mid_trial_lets_go_of_nothing(stage):
    """What the trial drives is no person's: it is measured as it was set, and nothing is made safe meanwhile."""

    async def pause_and_resume():
        stage.rig.hands.driven = {"valve": 0.5}  # by the trial
        await ask(stage, "pause", who="anna")
        await ask(stage, "resume", who="ben")

    await stage.run(watched(max_trials=1), fail={"measure": once(pause_and_resume)})
    calls = stage.rig.calls
    assert calls[calls.index("control") :][:4] == ["control", "control end", "measure", "verify"], calls


async def test_a_pause_from_before_can_be_taken_back_while_the_instruments_are_opened(stage):
    """It is known from the first: a person is not told that nobody has paused, by a campaign that then stands still."""
    stage.state.mkdir()
    journal = open_journal(stage.state, stage.clock())
    journal.begin(watched(), "0.0")
    journal.people.act("pause", "anna", why="tea")
    journal.close()
    result = await stage.run(watched(max_trials=1), fail={"open": once(asks(stage, "resume", who="ben"))})
    assert (result.trials, phases(stage)) == (1, [])


@pytest.mark.slow
async def test_a_pause_outlives_the_process(stage, golden):
    """A paused campaign that is stopped and started again is still paused, by whom it was."""
    first = await paused_then(stage, watched(max_trials=3), asks(stage, "stop"))
    assert (first.ending, first.trials) == ("stopped", 1)
    stage.told.clear()

    async def look():
        assert stage.world.count("control") == 1

    async with once_paused(stage, look, asks(stage, "resume", who="ben")):
        again = await stage.run(watched(max_trials=3))
    assert (again.ending, again.trials) == ("trials", 3)
    golden(next(e.why for e in stage.told if isinstance(e, PhaseChanged)))


async def test_a_pause_asked_for_in_mid_trial_is_known_after_a_crash(stage):
    """It is on disk before it is answered: a process that dies in that very trial has not forgotten it."""
    known = []

    async def pause():
        await ask(stage, "pause", who="anna")
        with stage.journal() as journal:
            known.append(journal.people.pause())
        await ask(stage, "safe")

    await stage.run(watched(max_trials=3), fail={"measure": once(pause)})
    assert known == ["paused by anna"]


async def test_a_pause_while_a_decision_is_made_leaves_nothing_queued(stage):
    """Nothing has moved when the pause comes: the decision is dropped, and made anew when trials go on."""

    class Interrupted(ThreadDecider):
        async def decide(self, question, limit_s):
            decisions.append(question.trial)
            if len(decisions) == 1:
                await ask(stage, "pause")
            return await super().decide(question, limit_s)

    waiting, decisions = [], []

    async def look():
        assert stage.world.count("control") == 0
        waiting.extend(stage.trials())

    async with once_paused(stage, look, asks(stage, "resume")):
        result = await stage.run(watched(max_trials=1), decider=Interrupted())
    assert (waiting, decisions) == ([], [1, 1])
    (row,) = stage.trials()
    assert (result.trials, row.state) == (1, State.RECORDED)


async def test_a_trip_ends_a_paused_campaign(stage):
    """A pause waits out no trip."""
    trips = InterlockSpec("acid", Compare("a", "<", 1.0, "mM"), "trip")
    reads = [3.0]

    def glance():
        return RigGlance({"a": SeenReading(reads[-1], "mM", 0.0, stale_after_s=5.0)})

    async def turn_acid():
        reads.append(0.5)

    with pytest.raises(Tripped):
        await paused_then(stage, watched(max_trials=3, interlocks=(trips,)), turn_acid, shows=glance)


async def test_what_cannot_be_done_is_refused_in_words(stage):
    """Twice paused, resumed without a pause, alarms and trials that are not there, no reason given."""
    said = []

    async def fault():
        for verb, arguments in (
            ("resume", {}),
            ("ack", {"alarm": 99}),
            ("ack", {"alarm": "x"}),
            ("ack", {}),
            ("void", {"trial": 99, "why": "typo"}),
            ("void", {"trial": 1, "why": "under way"}),
            ("note", {"act": "pause"}),
            (["pause"], {}),
        ):
            said.append(await refusal(stage, verb, **arguments))
        await ask(stage, "pause", who="anna")
        said.append(await refusal(stage, "pause", who="ben"))
        await ask(stage, "resume")

    await stage.run(watched(max_trials=1), fail={"measure": once(fault)})
    for message, words in zip(
        said,
        (
            "nobody has paused this campaign",
            "alarm 99",
            'alarm: got "x", must be a whole number',
            "alarm: got nothing",
            "trial 99",
            "is under way",
            'act: got "pause", must be one of denied, login, token',
            "must be one of status, stop, safe, pause",
            "paused by anna; `rigctl resume`",
        ),
        strict=True,
    ):
        assert words in message


@pytest.mark.slow
async def test_an_amended_trial_is_learned_from_as_amended(stage):
    """While the campaign runs: the next decision and the budget know it; what is no amendment is refused in words."""

    async def fault():
        if stage.rig.calls.count("measure") == 2:
            becomes = {"outcomes": {"y": 9.25}, "amount": 70_000}
            said = await ask(stage, "amend", trial=1, who="anna", why="typo", becomes=becomes)
            assert "-> 9.25" in said["outcome"]
            for wrong in ({"colour": "red"}, {"values": {"z": 1.0}}, {"values": {"a": "1"}}, {"amount": 0.5}, 3):
                assert "amend: " in await refusal(stage, "amend", trial=1, who="anna", why="typo", becomes=wrong)

    spec = watched(max_trials=3)
    await stage.run(spec, fail={"measure": fault})
    with stage.journal() as journal:
        first, *_ = journal.history(spec.problem.space).observations
        assert [row.corrections for row in journal.trials()] == [0, 0, 1]
        assert [act.verb for act in journal.people.acts()] == ["amend"]
    assert (first.y, first.cost) == (9.25, 70_000)


def numbers(stage):
    """The alarms in the journal, by number."""
    with stage.journal() as journal:
        return [alarm.alarm for alarm in journal.alarms.rows()]


@pytest.mark.slow
async def test_a_running_campaign_shelves_an_alarm_and_tells_whoever_tells_people(stage, golden):
    """For a day at most; the audit has by whom and why."""
    refused = []

    async def fault():
        stage.rig.on_alarm(Alarm(Severity.MAJOR, "lamp", "flickers 3 times", kind="flickers"))
        await soon(lambda: numbers(stage))
        (number,) = numbers(stage)
        await ask(stage, "shelve", alarm=number, seconds=600, who="anna", why="known")
        refused.append(await refusal(stage, "shelve", alarm=number, seconds=90_000, who="ben"))
        await ask(stage, "unshelve", alarm=number, who="ben", why="mended")

    await stage.run(watched(max_trials=1), fail={"measure": once(fault)})
    assert "86400 s" in refused[0]
    acts = [(a.verb, a.who, a.argument) for a in stage.acts()]
    golden(acts)
    told = [(e.verb, e.source, e.kind, e.seconds) for e in stage.told if isinstance(e, AlarmMinded)]
    assert told == [("shelve", "lamp", "flickers", 600.0), ("unshelve", "lamp", "flickers", 0.0)]


async def test_who_does_not_say_so_is_named_by_the_kernel(stage):
    """The user of the process at the other end of the socket."""
    await stage.run(watched(max_trials=9), fail={"measure": once(asks(stage, "stop"))})
    (act,) = stage.acts()
    assert (act.verb, act.who) == ("stop", person(os.getuid()))


async def test_who_and_why_are_one_short_line(stage, golden):
    """What strangers write goes into logs and onto terminals: no line breaks, no escapes, not without end."""
    stop = asks(stage, "stop", who="an\x1b[31mna\nb", why="x" * 1000)
    result = await stage.run(watched(max_trials=9), fail={"measure": once(stop)})
    (act,) = stage.acts()
    golden(act.who)
    assert act.why == "x" * 200
    assert result.reason.endswith(f": {'x' * 200}")
    assert printable(result.reason) == result.reason
