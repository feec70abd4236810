"""What is told, and how a trial goes, is held against journal and wire; only what is not so is found."""

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from rigctl.campaign.events import Dosed, TrialStep
from rigctl.campaign.trial import State
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import DosingSpec, MeasureSpec, PrepareStep, TrialTiming
from rigctl.rig.values import Alarm
from tests.simulation.books import Violation
from tests.simulation.course import Course
from tests.simulation.told import Told

ON, OFF = b"\x05\x00\x00\xff\x00", b"\x05\x00\x00\x00\x00"


@pytest.fixture
def witness():
    """A journal with trial 3 RUNNING, and a pump with a treatment; what is found wrong is in `.failed`."""
    timing = TrialTiming(20.0, MeasureSpec(10.0, 5.0), (PrepareStep("mixer", 1.0, 8.0),))
    dosing = {"acid": DosingSpec("probe", -0.04, 0.05, 15.0, 6, "mixer", 5.0)}
    dosing["base"] = DosingSpec("probe", 0.04, 0.05, 15.0, 2)
    variables = [SimpleNamespace(actuators=("acid", "base"))]
    answers = {"SELECT sta": [("RUNNING",)], "\nSELECT co": [(9.98, 50.0)], "SELECT sum": [(30.0,)]}
    failed = []
    return SimpleNamespace(
        failed=failed,
        fail=failed.append,
        kernel=SimpleNamespace(now_s=100.0),
        spec=SimpleNamespace(
            rig=SimpleNamespace(
                timing=timing, dosing=dosing, variables=variables, volumes={}, limits={}, care={}, devices={}
            )
        ),
        _ask=lambda sql, *_: answers[sql[:10]],
    )


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (TrialStep(3, State.RUNNING), 0),
        (TrialStep(3, State.ARMED), 1),
        (TrialStep(State.RUNNING, 3), 1),
        (Dosed("acid", 9.98, 30.0), 0),
        (Dosed("acid", 10.0, 30.0), 1),
        (Dosed("acid", 9.98, 40.0), 1),
        (Dosed("acid", 9.98, 0.0), 1),
        (Alarm(Severity.MAJOR, "meter power", "it fell by 3 kWh", kind="meter doubted"), 0),
        (Alarm(Severity.MAJOR, "it fell by 3 kWh", "meter power", kind="meter doubted"), 1),
    ],
)
def test_what_is_told_is_there(witness, event, found):
    """A step and a dose are told once they are on disk, as they are there; an alarm names what it is about."""
    Told(witness).heard(SimpleNamespace(verbs={}), event)
    assert len(witness.failed) == found


@pytest.mark.parametrize(("seen_s", "told", "found"), [(0, 2, False), (0, 1, True), (3, 1, False)])
def test_every_step_is_told(witness, seen_s, told, found):
    """But for the last, which a life may have ended before it could say; what the life before has left is its own."""
    follows = Told(witness)
    follows._looked_at, follows._last_event = lambda _: None, seen_s
    for state in (State.ARMED, State.RUNNING)[:told]:
        follows._steps.add((1, str(state)))
    rows = [(1, 1, "ARMED", "ARM"), (2, 1, "RUNNING", "RUN"), (3, 1, "MEASURED", "MEASURE"), (4, 1, "LOST", "LOSE")]
    connection = SimpleNamespace(execute=lambda _: SimpleNamespace(fetchall=lambda: rows))
    with pytest.raises(Violation, match="RUNNING") if found else nullcontext():
        follows.ended(connection)


@pytest.mark.parametrize(
    ("prepared_s", "treated_s", "mixed_s", "measured_s", "found"),
    [
        (8.0, 5.0, 21.0, 25.0, ()),
        (7.0, 5.0, 21.0, 25.0, ("mixer",)),
        (8.0, 4.0, 21.0, 25.0, ("treated",)),
        (8.0, 5.0, 14.0, 25.0, ("doses again", "acid has dosed")),
        (8.0, 5.0, 21.0, 24.0, ("measured",)),
        (8.0, 5.0, 21.0, 41.0, ("measured",)),
    ],
)
def test_everything_in_a_trial_takes_its_time(witness, monkeypatch, prepared_s, treated_s, mixed_s, measured_s, found):
    """Preparation, treatment, mixing, settling and measuring."""
    monkeypatch.setattr("tests.simulation.course.places", lambda _: {("coil", 0): "mixer"})
    course, clock = Course(witness, SimpleNamespace(quiet_all=True)), witness.kernel

    def after(seconds, call, *what):
        clock.now_s += seconds
        call(*what)

    course.heard(TrialStep(1, State.ARMED))
    after(1.0, course.writes, ON)
    after(prepared_s, course.writes, OFF)
    after(0.0, course.writes, ON)
    after(treated_s, course.doses, "acid")
    after(mixed_s, course.doses, "acid")
    after(mixed_s, course.heard, TrialStep(1, State.RUNNING))
    after(measured_s, course.heard, TrialStep(1, State.MEASURED))
    assert len(witness.failed) == len(found)
    assert all(word in said for word, said in zip(found, witness.failed, strict=True))
    assert course.met == Counter({"dose in its time": 2, "step of preparation": 1})


@pytest.mark.parametrize(
    ("pumps", "found"),
    [
        ("acid acid base base", 0),
        ("base base base", 1),
        ("acid base acid", 1),
    ],
)
def test_pumps_that_go_on_and_on_are_found(witness, monkeypatch, pumps, found):
    """Each has so many doses in a trial, and what one has overshot the other takes back once."""
    monkeypatch.setattr("tests.simulation.course.places", lambda _: {("coil", 0): "mixer"})
    course = Course(witness, SimpleNamespace(quiet_all=True))
    course.heard(TrialStep(1, State.ARMED))
    course.writes(ON)
    for pump in pumps.split():
        witness.kernel.now_s += 20.0
        course.doses(pump)
    assert len(witness.failed) == found
