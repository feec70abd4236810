"""What moves is held against the plant as it was, and only that is found."""

import asyncio
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigctl.campaign.safe_file import of_rig
from rigctl.errors import CapSpent
from rigctl.rig.places import Seen
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import CapSpec, DosingSpec
from rigctl.rig.values import Alarm, SafeReport, SafeTimes
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import PumpFaults
from sim_rig.plants.tank import Tank
from sim_rig.rigs.assembly import PLC
from tests.simulation.books import Given, Violation, barred, total_s
from tests.simulation.dosed import Dosed
from tests.simulation.promises import Promises
from tests.simulation.seed import Simulation
from tests.simulation.truths import Truths
from tests.simulation.way import WayToSafety
from tests.simulation.worlds import world

PER_ML = 0.04


@pytest.fixture
def truths():
    """A tank of pH 6.0 with a pump that raises it; what is found wrong is in `.failed`."""
    looking, failed = object.__new__(Truths), []
    variable = SimpleNamespace(name="ph", sensor="probe", actuator="base", actuators=("base",))
    dosing = DosingSpec("probe", PER_ML, 0.05, 15.0, 10)
    looking.rig = SimpleNamespace(name="greenhouse", variables=[variable], dosing={"base": dosing}, volumes={})
    looking.kernel = SimpleNamespace(now_s=100.0)
    tank = object.__new__(Tank)
    tank._unmixed, tank.channels = {"ph": 0.0}, {"ph": SimpleNamespace(value=6.0)}
    looking.witness = SimpleNamespace(
        fail=failed.append, driven=list, plant=SimpleNamespace(assembly=SimpleNamespace(plant=tank))
    )
    looking.met = Counter()
    looking.decided, looking.is_sound = lambda _: {"ph": 6.4}, lambda _: True
    looking.failed, looking.tank, looking.dosed = failed, tank, Dosed(looking)
    return looking


@pytest.mark.parametrize(
    ("unmixed", "waited_s", "volume_ml", "fits"),
    [(0.0, 1.0, 10.8, True), (0.0, 1.0, 11.5, False), (0.04, 1.0, 11.8, True), (0.04, 6.0, 11.8, False)],
)
def test_a_dose_is_held_against_what_was_missing_as_its_probe_was_read(truths, unmixed, waited_s, volume_ml, fits):
    """What was not mixed then may be by the time it leaves (seed 8): 0.4 is missing, a mL brings 0.04."""
    truths.tank._unmixed["ph"] = unmixed
    truths.dosed.reads("probe")
    truths.tank._unmixed["ph"] = 0.0
    truths.kernel.now_s += waited_s
    truths.dosed.doses("base", volume_ml)
    assert (truths.failed == []) == fits


def test_somebody_brings_other_values_where_an_interlock_would_stand_for_ever(truths):
    """It stands on what nobody drives, so no campaign can end it (seed 63); only where the rig has one."""
    drawn = iter([11.0, 9.0, 5.0])
    speed, low, hard = (SimpleNamespace(variable=SimpleNamespace(low=0.0, high=10.0), value=0.0) for _ in range(3))
    wet = SimpleNamespace(variable=SimpleNamespace(low=1.0, high=12.0), value=11.0)
    wet.draw = lambda: setattr(wet, "natural", next(drawn))
    for other in (speed, low, hard):
        other.draw, other.natural = lambda: None, 0.0
    truths.rig.name = "lathe"
    truths.tank.channels = {"speed": speed, "feed": low, "depth": low, "hardness": hard, "coolant": wet}
    for extras, value in ((frozenset(), 11.0), (frozenset({"interlocks"}), 5.0)):
        truths._extras = extras
        truths.cleared()
        assert wet.value == value


def test_a_window_without_room_for_a_dose_bars_until_one_has_left_it():
    """Of two caps at a time only one counts (seed 24: a day for each of two pumps)."""
    given = [Given(0.0, 30.0), Given(100.0, 30.0), Given(4000.0, 10.0)]
    spells = list(barred(given, 3600.0, 80.0, 30.0))
    assert spells == [(100.0, 3600.0)]
    assert total_s([*spells, (50.0, 200.0), (3000.0, 5000.0)], 60.0, 4000.0) == 3940.0


def test_for_what_a_cap_bars_somebody_waits_and_for_nothing_else():
    """An hour is what it may take; a cap was in the way for the first two, and then for ever."""
    simulation, clock = object.__new__(Simulation), SimpleNamespace(now_s=0.0)

    def run(_, until_s):
        clock.now_s = until_s

    simulation.kernel = SimpleNamespace(run=run)
    for barred_s, reached_h in ((lambda: 0.0, 1), (lambda: min(clock.now_s, 7200.0), 3), (lambda: clock.now_s, 121)):
        simulation.witness = SimpleNamespace(recorded=0, barred_s=lambda *_, barred_s=barred_s: barred_s())
        with pytest.raises(Violation, match=f" {reached_h} h "):
            simulation._goes_on(SimpleNamespace(life=SimpleNamespace(dead=False)), 0.0, 3600.0, 0)


@pytest.mark.parametrize(("left_ml", "fits"), [(190.0, False), (210.0, True)])
def test_a_pump_left_out_for_the_rest_of_the_campaign_that_has_given_little_is_found_out(truths, left_ml, fits):
    """A cap that comes free again is none of the campaign's."""
    tank = CapSpec(per_campaign_ml=400.0, pumps=("base", "acid"), name="tank")
    truths.rig.caps = (CapSpec(per_hour_ml=50.0, pumps=("base",), name="base"), tank)
    truths.witness.sent = {"acid": [(0.0, left_ml / 2)], "base": [(1.0, left_ml / 2)]}

    async def refuses(*_):
        raise CapSpent("it never will")

    with pytest.raises(CapSpent):
        asyncio.run(truths.dosed.admitted(refuses)(None, SimpleNamespace(name="base"), 1.0))
    assert (truths.failed == []) == fits


@pytest.mark.parametrize(
    ("given_ml", "most_ever_ml", "found"), [(30.0, 20.0, 0), (31.0, 20.0, 1), (31.0, 0.0, 0), (1.0, 90.0, 1)]
)
def test_a_trial_that_begins_without_room_in_a_cap_is_found_out(truths, given_ml, most_ever_ml, found):
    """By the most that its pump has ever given in a trial; what is more than the cap waits for all of it."""
    truths.rig.caps = (CapSpec(per_hour_ml=50.0, pumps=("base",), name="base"),)
    truths.rig.pumps_of = lambda variable: variable.actuators
    answers = {"events": 5000.0, "AND at_s": given_ml, "GROUP BY": most_ever_ml}
    truths.decided = lambda *_: {"ph": 6.4}
    truths.witness._ask = lambda sql, *_: [(next(value for part, value in answers.items() if part in sql),)]
    truths.dosed.begins(1)
    assert len(truths.failed) == found


@pytest.mark.parametrize(
    ("took_s", "ok", "quiet", "fits"),
    [(2.4, True, True, True), (2.6, True, True, False), (9.0, True, False, True), (9.0, False, True, True)],
)
def test_who_takes_longer_to_safety_than_is_said_of_the_rig_is_found_out(truths, took_s, ok, quiet, fits):
    """With healthy devices only: silent ones take what patience they are given."""
    truths.trouble = SimpleNamespace(quiet_all=quiet)
    rig = SimpleNamespace(time_to_safe=lambda: SafeTimes(1.0, 2.4, {}))
    truths._is_in_time(rig, SimpleNamespace(ok=ok), took_s)
    assert (truths.failed == []) == fits


@pytest.mark.parametrize(
    ("kind", "doses", "last_s", "safe_s", "short", "found"),
    [
        ("dose unknown", 2, 0.0, 70.0, 1.0, True),
        ("low stock", 2, 0.0, 70.0, 1.0, False),
        ("dose unknown", 1, 0.0, 40.0, 1.0, False),
        ("dose unknown", 2, 48.0, 70.0, 1.0, False),
        ("dose unknown", 2, 0.0, 81.0, 1.0, False),
        ("dose short", 2, 0.0, 70.0, 0.5, False),
        ("dose unknown", 2, 0.0, 70.0, 0.5, True),
    ],
)
def test_a_false_alarm_of_a_dose_is_found_out(truths, kind, doses, last_s, safe_s, short, found):
    """Of a pump with which nothing has been wrong since before its last dose but one, at 50 s."""
    circuit = object.__new__(PumpCircuit)
    circuit.pump = SimpleNamespace(faults=PumpFaults(short=short), total_ml=90.0)
    truths.witness.plant.assembly.circuits = {"bus": circuit}
    truths.witness.sent = {"base": [(50.0, 1.0), (80.0, 1.0)][:doses]}
    truths.trouble = SimpleNamespace(bus_of=lambda _: "bus", unpressed=True, last_s=lambda _: last_s)
    truths.dosed.safe_s = safe_s
    truths.dosed.alarmed(Alarm(Severity.MAJOR, "base", "said", kind=kind))
    truths.dosed.ends()
    truths.dosed.alarmed(Alarm(Severity.MAJOR, "base", "said of what the life before has sent", kind=kind))
    assert len(truths.failed) == found


@pytest.mark.parametrize(
    ("began_s", "until_s", "others", "failed", "found"),
    [
        (100.0, 100.9, 0, "valve", True),
        (100.0, 100.9, 0, "pump", False),
        (100.0, 100.9, 1, "valve", False),
        (101.0, 100.9, 0, "valve", False),
        (100.0, 99.9, 0, "valve", False),
    ],
)
def test_who_gives_up_while_a_plc_refuses_for_a_moment_is_found_out(truths, began_s, until_s, others, failed, found):
    """Given up at 100.5 s already, 0.4 s before the PLC does as it is told; nothing else was wrong meanwhile."""
    truths.kernel.now_s, truths.witness.mischief = 100.5, SimpleNamespace(done=Counter(exception=1 + others))
    way = object.__new__(WayToSafety)
    way._kernel, way._witness, way._met, way._refused = truths.kernel, truths.witness, Counter(), (until_s, 1)
    way._trouble = SimpleNamespace(bus_of={"valve": PLC, "pump": "pump"}.get)
    way._is_patient(SafeReport((), {failed: "refused"}), began_s)
    assert bool(truths.failed) == found


@pytest.mark.parametrize(
    ("device", "changed"),
    [
        ("k_valve", {"url": "modbus_tcp://elsewhere"}),
        ("k_valve", {"options": {"enable": {"coil": 9}}}),
        ("k_valve", {"kind": "doser"}),
        ("ca_doser", {"kind": "actuator"}),
        ("ca_doser", {"seen": None}),
        ("ca_doser", {"safe_state": 0.0}),
        ("ca_doser", {"name": "other"}),
    ],
)
def test_a_word_that_would_leave_something_driven_is_found_out(device, changed):
    """Each device as it stands at the plant: its line, its coil or that it is a pump, and who it is."""
    rig, held = world("greenhouse", "dense").loaded.rig, object.__new__(Promises)
    held._rig, held._trouble = rig, SimpleNamespace(bus_of=lambda name: name)
    held._witness = SimpleNamespace(plant=SimpleNamespace(assembly=SimpleNamespace(circuits=rig.pumps)))
    word = of_rig(rig, dict.fromkeys(rig.pumps, Seen("EZO-PMP", "", "/dev/pump")), driven=True)
    assert held._left_out(word) == []
    devices = tuple(replace(d, **changed) if d.name == device else d for d in word.devices)
    assert held._left_out(replace(word, devices=devices)) == [device]
    assert held._left_out(replace(word, speedup=7.0)) == list(rig.limits)
