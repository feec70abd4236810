import asyncio
from contextlib import nullcontext

import pytest

from rigctl.campaign.acts import OutOfService
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import State
from rigctl.errors import DeviceFault
from rigctl.rig.conditions import Compare
from rigctl.rig.protocols import Identity
from rigctl.rig.spec import InterlockSpec, OutcomeSpec, WatchSpec
from rigctl.rig.values import RigGlance, SeenReading
from tests.campaign.fakes import make_rig_spec, make_spec, open_journal
from tests.campaign.records import make_decision, rows
from tests.campaign.test_acts import ask, asks, once, once_paused, paused_then, phases, refusal, soon, watched
from tests.page.conftest import page_beside

WATCH = WatchSpec(every_s=0.01, clear_for_s=0.0)


def cared(care, **changes):
    """A campaign whose instruments are looked after."""
    return make_spec(rig=make_rig_spec(watch=WATCH, care=care), **changes)


def journalled(stage, spec):
    """Every trial's state and control set, and whether its decision comes out the same again."""
    with stage.journal() as journal:
        again = {t.trial: t.differences for t in replay(journal, spec)}
        return [(row.state, "+".join(row.control_set), again.get(row.trial)) for row in journal.trials()]


# a pause ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_fault_45_a_pause_cancels_what_is_queued_and_nothing_is_replayed(stage, golden):
    """A trial that was decided and has moved nothing is closed, uncharged; after the pause another one is decided.

    The campaign was to do one trial, and does it: nothing was done in what was cancelled.
    """

    async def look():
        assert stage.world.count("control") == 0

    spec = watched(max_trials=1)
    async with once_paused(stage, look, asks(stage, "resume")):
        await stage.run(spec, fail={"meters": once(asks(stage, "pause", who="anna", why="tea"))})
    queued, after = stage.trials()
    assert (queued.state, queued.cost) == (State.ABANDONED, 0)
    golden(queued.because)
    assert [e["setpoints"] for e in stage.world.log if e["what"] == "control"] == [after.setpoints]
    assert journalled(stage, spec) == [(State.ABANDONED, "a", ()), (State.RECORDED, "b", ())]


@pytest.mark.parametrize("resumed", [False, True])
async def test_fault_45_a_proposal_left_by_a_process_is_cancelled_by_a_pause(stage, resumed, golden):
    """Also if it was resumed since, before anybody could look: what was queued then is not carried out."""
    stage.state.mkdir()
    journal = open_journal(stage.state, stage.clock())
    spec = watched(max_trials=1)
    journal.begin(spec, "0.0")
    journal.propose(make_decision(1))
    journal.people.act("pause", "anna", why="tea")
    if resumed:
        journal.people.act("resume", "anna")
    journal.close()

    async with nullcontext() if resumed else once_paused(stage, asks(stage, "resume")):
        await stage.run(spec)
    first, second = stage.trials()
    golden(first.because)
    assert (first.state, first.cost) == (State.ABANDONED, 0)
    assert (second.state, second.history_length) == (State.RECORDED, 1)
    assert [e["setpoints"] for e in stage.world.log if e["what"] == "control"] == [second.setpoints]


@pytest.mark.slow
async def test_fault_45_pause_now_breaks_off_the_trial_under_way(stage, golden):
    """Everything is safe first, the trial is ABANDONED and charged, none begins until somebody resumes it."""
    seen = {}

    async def pause():
        await ask(stage, "pause", who="anna", why="a leak", now=True)
        await asyncio.Event().wait()

    async def look():
        seen["controls"] = stage.world.count("control")

    spec = watched(max_trials=2)
    async with once_paused(stage, look, asks(stage, "resume")):
        result = await stage.run(spec, fail={"measure": once(pause)})
    assert (result.trials, seen["controls"]) == (2, 1)
    broken, after = stage.trials()
    acts = [(act.verb, act.argument, act.who) for act in stage.acts()]
    golden(broken.because)
    assert broken.state == State.ABANDONED
    assert broken.cost > 0
    assert after.state is State.RECORDED
    assert acts == [("pause", "now", "anna"), ("resume", "", acts[1][2])]
    assert journalled(stage, spec) == [(State.ABANDONED, "a", ()), (State.RECORDED, "b", ())]


# out of service ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_campaign_goes_on_without_an_instrument_that_is_out_of_service(stage, golden):
    """Control sets that need it are not played, which every decision and its replay know; then they are again."""

    async def out():
        told = await ask(stage, "out-of-service", device="pump", who="anna", why="new head")
        golden(told["outcome"])

    back, controls = asks(stage, "in-service", device="pump", who="anna"), []

    def at_control():
        controls.append(stage.rig.hands.aside)
        act = {1: out, 3: back}.get(len(controls))
        return act and act()

    spec = make_spec(rig=make_rig_spec(watch=WATCH), max_trials=5)
    await stage.run(spec, fail={"measure": at_control})
    assert controls == [frozenset(), frozenset({"pump"}), frozenset({"pump"}), frozenset(), frozenset()]
    played = journalled(stage, spec)
    assert [(names, again) for _, names, again in played] == [(names, ()) for names in ("a", "b", "b", "a", "b")]
    knew = [row.unavailable for row in stage.trials()]
    acts = [(act.verb, act.argument, act.who, act.why) for act in stage.acts()]
    why = "pump is out of service, by anna: new head"
    assert knew == [{}, {"a": why, "a+b": why}, {"a": why, "a+b": why}, {}, {}]
    assert acts == [("out-of-service", "pump", "anna", "new head"), ("in-service", "pump", "anna", "")]


@pytest.mark.parametrize(
    ("then", "recorded", "passed"),
    [({"verb": "in-service", "device": "pump"}, 1, ["HOLDING", "RUNNING"]), ({"verb": "stop"}, 0, ["HOLDING"])],
    ids=["back", "stopped"],
)
async def test_with_no_control_set_left_the_campaign_holds_until_one_is_back(stage, then, recorded, passed, golden):
    """Across a restart, too: it is in the journal; the reason is in the phase. Stopped, it does not say it is over."""
    outcomes = (OutcomeSpec(name="y", unit="1", sensor="pump"),)
    spec = make_spec(rig=make_rig_spec(watch=WATCH, outcomes=outcomes), max_trials=1)
    journal = begun(stage, spec)
    OutOfService(device="pump", who="anna").apply(journal, spec.rig)
    journal.close()
    seen = {}

    def is_kept():
        """Tell whether what the page shows is written: nobody waits for that."""
        with stage.journal() as reader:
            return "nothing playable" in {alarm["kind"] for alarm in rows(reader, "alarms")}

    async def person_acts():
        await soon(lambda: phases(stage)[-1:] == ["HOLDING"] and is_kept())
        seen.update(await ask(stage, "status"), aside=stage.rig.hands.aside, page=await page_beside(stage))
        await ask(stage, **then)

    acting = asyncio.create_task(person_acts())
    result = await stage.run(spec)
    await acting
    golden(seen["why"])
    assert seen["aside"] == {"pump"}
    assert "pump is out of service, by anna" in seen["page"]["now"]
    assert "pump is out of service, by anna" in seen["page"]["log"]
    assert (result.recorded, phases(stage)) == (recorded, passed)


def begun(stage, spec):
    stage.state.mkdir()
    journal = open_journal(stage.state, stage.clock())
    journal.begin(spec, "0.0")
    return journal


async def test_another_instrument_is_not_put_back_in_service(stage):
    """Who answers is held against the pin, before anything is written to it."""
    refused = []

    async def exchanged():
        await ask(stage, "out-of-service", device="pump")
        stage.rig.found["pump"] = Identity("fake", serial="another")
        refused.append(await refusal(stage, "in-service", device="pump"))

    await stage.run(
        watched(max_trials=1), fail={"measure": once(exchanged)}, found={"pump": Identity("fake", serial="1")}
    )
    assert "device accept" in refused[0]
    assert [act.verb for act in stage.acts()] == ["out-of-service"]


# by hand --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_person_drives_single_instruments_of_a_paused_campaign(stage, golden):
    """Intent first, then the act, then its result, each with who; doses are booked; resuming lets everything go."""
    said = []

    async def person():
        for arguments in (
            {"operation": "read", "device": "pump"},
            {"operation": "set", "device": "valve", "value": 0.5},
            {"operation": "dose", "device": "pump", "volume_ml": 2.0},
            {"operation": "jog", "device": "pump", "for_s": 3.0},
            {"operation": "calibrate", "device": "pump", "volume_ml": 1.9},
            {"operation": "release", "device": "valve"},
            {"operation": "set", "device": "valve", "value": 1.0},
        ):
            answer = await ask(stage, "manual", who="anna", **arguments)
            said.append(answer["outcome"])
        said.append((await ask(stage, "status"))["by_hand"])

    result = await paused_then(stage, watched(max_trials=2), person, asks(stage, "resume"))
    assert said[0] == "4.5 mM"
    golden(said[1])
    golden(said[2:5])
    assert (said[5], said[7]) == ("released", {"driven": {"valve": 1.0}})
    assert (result.trials, stage.rig.driven) == (2, {})
    with stage.journal() as journal:
        acts = [(act.argument, act.outcome) for act in journal.people.acts() if act.verb in ("manual", "read")]
        doses = [dose.dispensed_ml for dose in journal.doses.rows() if dose.trial is None]
        points = journal.upkeep.calibrations()["pump"].points
    golden((*acts[4:6], acts[-1]))
    assert (doses, points) == ([2.0, 3.0], 1)


async def test_nothing_is_done_by_hand_while_trials_run(stage, golden):
    """Neither in mid-trial nor between trials; what to do first is said."""
    refused = []

    async def by_hand():
        wishes = {"operation": "set", "device": "valve", "value": 1.0}, {"operation": "fly", "device": "x"}
        refused.extend([await refusal(stage, "manual", **wish) for wish in wishes])

    await stage.run(watched(max_trials=1), fail={"measure": once(by_hand)})
    assert "`rigctl pause`" in refused[0]
    golden(refused[1])
    assert stage.rig.hands.done == [("calibrations",)]


@pytest.mark.slow
async def test_what_goes_wrong_by_hand_leaves_everything_safe_and_is_kept(stage, golden):
    """The act that failed is in the audit with its error; the campaign is still paused."""
    refused = []

    async def person():
        stage.rig.hands.fail["apply"] = DeviceFault("the valve sticks")
        before = stage.rig.calls.count("safe")
        refused.append(await refusal(stage, "manual", operation="set", device="valve", value=1.0))
        assert stage.rig.calls.count("safe") == before + 1

    await paused_then(stage, watched(max_trials=3), person, asks(stage, "stop"))
    golden(refused)
    acts = [act.outcome for act in stage.acts() if act.verb == "manual"]
    golden(acts)


async def test_what_is_forgotten_is_made_safe(stage, monkeypatch):
    """A valve that a person opened does not stay open when nothing is done by hand for a while."""
    monkeypatch.setattr("rigctl.campaign.requests.LIMIT_S", 0.05)

    async def person():
        stage_limit = await ask(stage, "manual", operation="set", device="valve", value=1.0)
        assert stage_limit["device"] == "valve"
        await soon(lambda: not stage.rig.driven)

    await paused_then(stage, watched(max_trials=3), person, asks(stage, "stop"))
    assert [a.source for a in stage.alarms()] == ["manual"]
    last = [act for act in stage.acts() if act.verb == "manual"][-1]
    assert (last.who, last.argument) == ("rigctl", "valve")


async def test_the_watch_looks_on_while_a_person_drives(stage, golden):
    """A finding that a trial would fail of makes everything safe; while it stands only looking is allowed."""
    acid = InterlockSpec("acid", Compare("a", "<", 1.0, "mM"), "fail")
    reads, refused = [3.0], []

    def glance():
        return RigGlance({"a": SeenReading(value=reads[0], unit="mM", age_s=0.0, stale_after_s=60.0)})

    async def person():
        await ask(stage, "manual", operation="set", device="valve", value=1.0)
        reads[0] = 0.5
        await soon(lambda: not stage.rig.driven)
        refused.append(await refusal(stage, "manual", operation="dose", device="pump", volume_ml=1.0))
        assert (await ask(stage, "manual", operation="read", device="pump"))["outcome"] == "4.5 mM"

    spec = watched(max_trials=3, interlocks=(acid,))
    await paused_then(stage, spec, person, asks(stage, "stop"), shows=glance)
    golden(refused[0])
    assert ("dose", "pump", 1.0) not in stage.rig.hands.done
