"""Which devices are not to be used, and what cannot be played because of that."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from rigctl.campaign import carry, instruments
from rigctl.campaign.caretaker import Caretaker
from rigctl.campaign.carry import TrialRun
from rigctl.campaign.instruments import DeviceState, needed, objections, said_of, to_json, unavailable
from rigctl.campaign.journal.rows import MeasurementRow, UpkeepRow
from rigctl.campaign.trial import State
from rigctl.core.experiment.policy import Finished
from rigctl.errors import NoAnswer
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import Calibration, Severity
from rigctl.rig.spec import (
    CalibrationSpec,
    CareSpec,
    DosingSpec,
    InventorySpec,
    MeterSpec,
    PrepareStep,
    TubingSpec,
    VariableWiring,
    VolumeSpec,
)
from rigctl.rig.values import Measurement
from tests.campaign.fakes import make_rig_spec, make_space
from tests.campaign.test_acts import ask, once_paused, phases
from tests.campaign.test_hands import cared

DAY_S = 86_400.0
SETS = make_space().control_sets
CARE = {
    "pump": CareSpec(InventorySpec(500.0), TubingSpec(50_000.0)),
    "a_probe": CareSpec(calibration=CalibrationSpec(30 * DAY_S)),
}


def found(**states):
    """What is objected to, of the fake rig, and which control sets it bars."""
    rig = make_rig_spec(care=CARE)
    against = objections(rig, {name: DeviceState(**state) for name, state in states.items()})
    barred = {SETS[i].label for i in unavailable(rig, SETS, against)}
    return [(o.device, o.kind, o.severity) for o in against], barred


@pytest.mark.parametrize(
    ("device", "state", "kind", "barred"),
    [
        ("pump", {"out": "by anna"}, "out", {"a", "a+b"}),
        ("pump", {"left_ml": 9.0, "trial_ml": 10.0}, "empty", {"a", "a+b"}),
        ("pump", {"left_ml": -1.0}, "empty", {"a", "a+b"}),
        ("pump", {"left_ml": 40.0, "dose_ml": 2.0, "trial_ml": 10.0}, "low", set()),
        ("pump", {"left_ml": 42.0, "dose_ml": 2.0, "trial_ml": 10.0}, None, set()),
        ("pump", {"tubing_ml": 50_000.0}, "tubing", set()),
        ("pump", {"points": 0}, "uncalibrated", set()),
        ("a_probe", {"points": 0}, "uncalibrated", {"a", "a+b"}),
        ("a_probe", {"points": 3, "slopes": (84.9, 99.0)}, "slope", {"a", "a+b"}),
        ("a_probe", {"points": 3, "slopes": (85.0, 105.0)}, None, set()),
        ("a_probe", {"points": 3, "slopes": (99.0, 105.1)}, "slope", {"a", "a+b"}),
        ("a_probe", {"calibrated_ago_s": 30 * DAY_S}, "due", set()),
        ("a_probe", {"calibrated_ago_s": 26 * DAY_S}, None, set()),
        ("a_probe", {"calibrated_ago_s": 31 * DAY_S}, "overdue", {"a", "a+b"}),
        ("b_probe", {"points": 0}, "uncalibrated", set()),
        ("pump", {"astray": "does not bring a to its setpoint"}, "does not follow", {"a", "a+b"}),
        ("a_probe", {"out": "by anna"}, "out", {"a", "b", "a+b"}),
    ],
)
def test_what_a_device_is_in_bars_the_control_sets_that_need_it_so(device, state, kind, barred):
    """A probe that judges doses bars those; what is out of service all that read it; what only wears out nothing."""
    against, sets = found(**{device: state})
    severity = Severity.MAJOR if barred else Severity.MINOR
    assert (against, sets) == ([] if kind is None else [(device, kind, severity)], barred)


def test_what_does_not_follow_is_said_with_what_to_do_about_it():
    """Its cause, then the remedy."""
    state = DeviceState(astray="does not bring a to its setpoint", check="look at its hose")
    (objection,) = objections(make_rig_spec(), {"pump": state})
    assert (objection.why, objection.remedy) == (state.astray, state.check)


def test_what_every_trial_does_is_needed_by_every_control_set():
    """Sensors, energy meters, prepared actuators and what is given anyway; pumps and treatments as they are chosen."""
    rig = make_rig_spec()
    rig = replace(
        rig,
        variables=(
            VariableWiring("a", "a_probe", "acid", 0.1, second="base"),
            VariableWiring("b", "", "feed", 0.1),
        ),
        dosing={
            "acid": DosingSpec("a_probe", -1.0, 0.1, 0.0, 1, treatment="osmosis", with_={"nutrient": 1.0}),
            "base": DosingSpec("a_probe", 1.0, 0.1, 0.0, 1),
        },
        volumes={"feed": VolumeSpec("feed", otherwise_ml=1.0, with_={"salt": 2.0})},
        timing=replace(rig.timing, prepare=(PrepareStep("drain", 1.0, 1.0),)),
        meters=(MeterSpec("energy", rig.meters[0].price, "mains", "power"), rig.meters[2]),
    )
    always = {"a_probe", "scale", "mains", "drain", "feed", "salt"}
    assert set(needed(rig, ())) == set(needed(rig, ("b",))) == always
    assert set(needed(rig, ("a",))) == always | {"acid", "base", "nutrient", "osmosis"}
    assert "dosing" in needed(rig, ("a",))["a_probe"]
    assert "dosing" not in needed(rig, ("b",))["a_probe"]
    assert [name for name, uses in needed(rig, ("a",)).items() if "control" in uses] == ["acid"]
    assert [name for name, uses in needed(rig, ("b",)).items() if "control" in uses] == ["feed"]


# in a campaign --------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_bottle_that_is_empty_is_not_dosed_from_until_it_is_refilled(stage, golden):
    """What is left is counted from the doses; then the campaign goes on without the pump, and says why."""
    spec = cared({"pump": CareSpec(InventorySpec(10.0, 1))}, max_trials=7)
    seen = []

    async def at_measure():
        if stage.world.count("control") == 5:
            seen.append(await ask(stage, "status"))
            seen.append((await ask(stage, "refilled", device="pump", volume_ml=400.0))["outcome"])

    await stage.run(spec, fail={"measure": at_measure})
    with stage.journal() as journal:
        rows, doses = journal.trials(), journal.doses.rows()
        knew = ["pump" in str(row.unavailable) for row in rows]
        played = ["a" in row.control_set for row in rows]
    emptied = next(n for n in range(7) if knew[n])
    used_ml = sum(d.dispensed_ml for d in doses if d.trial <= emptied)
    assert used_ml + max(d.dispensed_ml for d in doses if d.trial <= emptied) > 10.0
    assert not any(p for p, k in zip(played, knew, strict=True) if k)
    assert not knew[5]
    (pump,) = seen[0]["upkeep"]
    assert pump["left_ml"] == pytest.approx(10.0 - sum(d.dispensed_ml for d in doses if d.trial <= 5), abs=1e-3)
    golden(seen[1])
    told = [(a.severity, a.state) for a in stage.alarms() if (a.source, a.kind) == ("pump", "empty")]
    assert told == [(Severity.MAJOR, "stands"), (Severity.MINOR, "over")]


async def test_a_probe_that_is_not_calibrated_holds_its_control_sets_until_it_is(stage):
    """What instruments say is read at the start, journalled, and read again while it is waited for."""
    rig = make_rig_spec()
    probe = replace(rig.devices["pump"], name="a_probe")
    spec = cared({}, max_trials=1)
    devices = {**rig.devices, "a_probe": probe}
    only_a = replace(spec.problem, space=type(spec.problem.space).of(spec.problem.space.variables, [["a"]]))
    spec = replace(spec, rig=replace(spec.rig, devices=devices), problem=only_a)
    make = stage.make_rig

    def with_probe(**faults):
        factory = make(**faults)

        def made(*told):
            rig = factory(*told)
            rig.hands.said["a_probe"] = Calibration(0, (), "Cal,0")
            return rig

        return made

    stage.make_rig = with_probe

    async def calibrated():
        stage.rig.hands.said["a_probe"] = Calibration(2, (99.0, 98.0), "Cal,2")
        await ask(stage, "calibrated", device="a_probe", who="anna", age_s=3600.0)

    async with once_paused(stage, calibrated, phase="HOLDING"):
        result = await stage.run(spec)
    assert (result.recorded, phases(stage)) == (1, ["HOLDING", "RUNNING"])
    with stage.journal() as journal:
        row = journal.upkeep.calibrations()["a_probe"]
        (said,) = journal.people.kept(UpkeepRow)
        (trial,) = journal.trials()
    assert (row.points, row.slopes, said.kind, round(said.age_s)) == (2, (99.0, 98.0), "calibrated", 3600)
    assert (trial.state, trial.unavailable) == (State.RECORDED, {})
    told = [a.state for a in stage.alarms() if (a.source, a.kind) == ("a_probe", "uncalibrated")]
    assert told == ["stands", "over"]


@pytest.mark.parametrize(
    ("entry", "numbers"),
    [
        ({}, []),
        ({"calibration_points": 2}, [["2"]]),
        ({"calibration_points": 2, "slopes": [99.5, 101.0]}, [["2", "99.5", "101"]]),
        ({"left_ml": -3.0}, [["0"]]),
        ({"left_ml": 120.0, "doses_left": 6, "calibration_due_days": -1.5}, [["120", "6"], ["1.5"]]),
    ],
)
def test_what_is_said_of_upkeep_has_what_is_known_and_nothing_else(entry, numbers):
    """One phrase each, with the numbers of the entry; what is not known is left out, whatever else is."""
    assert [re.findall(r"[\d.]+", phrase) for phrase in said_of(entry)] == numbers


def test_days_and_millilitres_are_told_to_programs_rounded():
    """Days to a hundredth, the time to the next calibration among them; volumes to a microlitre."""
    known = {
        "pump": DeviceState(left_ml=120.12345, dose_ml=20.0, tubing_ml=0.98765),
        "a_probe": DeviceState(calibrated_ago_s=3.1150001 * DAY_S),
    }
    pump, probe = to_json(make_rig_spec(care=CARE), known)
    assert (pump["left_ml"], pump["doses_left"], pump["tubing_ml"]) == (120.123, 6, 0.988)
    assert DeviceState(left_ml=-3.0, dose_ml=20.0).doses_left == 0
    assert (probe["calibrated_days_ago"], probe["calibration_due_days"]) == (3.12, 26.88)


@pytest.mark.parametrize(
    ("used", "per_dose_ml", "left"),
    [((60.0, 3), None, (440.0, 20.0)), ((0.0, 0), 12.0, (500.0, 12.0)), ((0.0, 0), None, (500.0, None))],
)
def test_a_bottle_is_good_for_as_many_doses_as_were_usual(used, per_dose_ml, left):
    """Before the first dose: of as many as may be given at once; where that has no limit, nobody knows."""
    read = SimpleNamespace(
        doses=SimpleNamespace(of_pump=lambda *_: used, dearest_of_last_ml=lambda _: 25.0),
        people=SimpleNamespace(kept=lambda _: []),
        upkeep=SimpleNamespace(calibrations=dict, calibrated=dict),
        history=lambda _: (),
    )
    limits = (
        {}
        if per_dose_ml is None
        else {"pump": ActuatorLimits(low=0.0, high=1.0, safe_state="off", per_dose_ml=per_dose_ml)}
    )
    rig = make_rig_spec(care={"pump": CareSpec(InventorySpec(500.0))}, limits=limits, variables=())
    pump = instruments.states(read, rig, lambda *_: 0.0)["pump"]
    assert (pump.left_ml, pump.dose_ml, pump.trial_ml) == (*left, 25.0)


@pytest.mark.parametrize(
    ("given_ml", "takes_ml", "spent"), [(29.0, 0.0, False), (30.0, 0.0, True), (20.0, 10.0, False), (25.0, 10.0, True)]
)
def test_a_pump_is_spent_once_less_is_left_of_its_cap_than_a_trial_may_take(given_ml, takes_ml, spent, golden):
    """Nothing left is too little also for a pump that has given none of it: another one shares the cap."""
    journal = SimpleNamespace(doses=SimpleNamespace(given_ml=lambda *_: given_ml, dearest_trial_ml=lambda _: takes_ml))
    limits = {"pump": ActuatorLimits(low=0.0, high=10.0, safe_state="off", per_campaign_ml=30.0)}
    known = instruments.limited(journal, make_rig_spec(limits=limits), {}, None, ())
    assert bool(known) is spent
    golden({name: state.spent for name, state in known.items()})


@pytest.mark.parametrize(("others", "frozen"), [((1.0, 2.0), True), ((1.0, 1.0), False)])
def test_a_sensor_is_frozen_only_if_another_one_moved_meanwhile(others, frozen):
    """Where nothing moves at all, the process stands still."""
    before, now = others
    earlier = {n: MeasurementRow(1, n, 0, v, 0.0, 5, 0, Severity.NONE, "") for n, v in (("y", 3.0), ("a", before))}
    assert (
        instruments._is_frozen({"y": Measurement(3.0, 0.0, 5), "a": Measurement(now, 0.0, 5)}, "y", [earlier]) is frozen
    )


def test_beside_a_campaign_the_wall_clock_says_how_long_ago_something_was(monkeypatch):
    """At the rig's pace; what is past is not yet to come."""
    monkeypatch.setattr(instruments, "utc_now", lambda: datetime(2026, 11, 28, 12, tzinfo=UTC))
    assert instruments.by_wall(60.0)(0.0, "2026-11-28T11:59:00+00:00", "") == 3600.0


@pytest.mark.parametrize(
    ("told_at_s", "done_at_s", "ago_s"),
    [(None, None, None), (900.0, None, 100.0), (None, 900.0, 160.0), (900.0, 950.0, 100.0), (800.0, 950.0, 110.0)],
)
def test_a_device_was_calibrated_when_it_or_a_person_said_last(told_at_s, done_at_s, ago_s):
    """Here a person says it a minute afterwards; of a device of which nobody has said it, it is not known."""
    told, done = (
        None if at_s is None else SimpleNamespace(at_s=at_s, utc="", epoch="", age_s=60.0)
        for at_s in (told_at_s, done_at_s)
    )
    assert instruments._calibrated_ago_s(told, done, lambda at_s, *_: 1000.0 - at_s) == ago_s


@pytest.mark.parametrize(
    ("barred", "for_good", "answer", "waits"),
    [
        ({}, False, None, False),
        ({0: "empty"}, True, None, False),
        ({0: "empty"}, False, Finished("nothing is worth a trial"), False),
        ({0: "empty"}, False, NoAnswer("late"), True),
        ({0: "empty"}, False, None, True),
    ],
)
async def test_a_campaign_waits_for_instruments_only_if_its_policy_would_use_them(
    monkeypatch, barred, for_good, answer, waits
):
    """One that is over with all of them, or whose caps are spent, ends; one that does not say so is no reason to."""
    noted = []

    async def question(history, trials, told):
        return told

    async def decide(asked, within_s):
        assert asked == {}
        if answer is not None:
            raise answer

    monkeypatch.setattr(carry, "_question", question)
    care = SimpleNamespace(barred=barred, for_good=for_good, nothing_useful=lambda: noted.append(True))
    trials = SimpleNamespace(
        care=care, decider=SimpleNamespace(decide=decide), spec=SimpleNamespace(decision_limit_s=1.0)
    )
    assert await TrialRun.waits_for_instruments(trials, None) is waits
    assert noted == [True] * waits


def test_a_reason_in_other_words_is_no_reason_to_ask_a_policy_again():
    """How long ago a probe was calibrated changes every minute; what cannot be played because of it does not."""
    care = object.__new__(Caretaker)
    care.spec = SimpleNamespace(problem=SimpleNamespace(space=SimpleNamespace(control_sets=SETS)))
    care.barred, care._why = {0: "calibrated 15 min ago"}, ("calibrated 15 min ago",)
    care.nothing_useful()
    care.barred = {0: "calibrated 16 min ago"}
    assert care.nothing_left() != ""
    care.barred = {1: "calibrated 16 min ago"}
    assert care.nothing_left() == ""
