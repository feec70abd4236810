"""What only some rigs have, drawn and held against what is promised of it."""

import random
import sqlite3
from collections import Counter
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest

from rigctl.campaign.events import TrialStep
from rigctl.campaign.trial import State
from tests.simulation.besides import Besides, _open
from tests.simulation.books import Violation
from tests.simulation.metered import Metered
from tests.simulation.richer import RICHER
from tests.simulation.worlds import BESIDES, BOTTLE_ML, EXTRAS, OPEN_MIN, TIMED, VALVE_MIN, besides, world

HOUR_S = 3600.0


@pytest.fixture
def rig():
    """A greenhouse that has all of it, and what looks at it."""
    where = world("greenhouse", "looking", frozenset(EXTRAS))
    looking = object.__new__(Besides)
    looking._rig, looking.met, looking._bottles = where.loaded.rig, Counter(), dict(BOTTLE_ML)
    looking._witness = SimpleNamespace(spec=SimpleNamespace(problem=where.loaded.problem))
    return looking


@pytest.mark.slow
def test_a_rig_has_what_was_drawn_for_it(rig):
    """Hours that the program understands as they are understood here, bottles, a watchdog, a reference."""
    spec = rig._rig
    valve = spec.limits[TIMED["greenhouse"]].allowed
    for minute in range(0, 24 * 60, 3):
        at_s = 1_767_225_600.0 + 60.0 * minute
        assert (spec.allowed.is_open(at_s), valve.is_open(at_s)) == (_open(OPEN_MIN, at_s), _open(VALVE_MIN, at_s))
    assert {name: care.inventory.volume_ml for name, care in spec.care.items()} == BOTTLE_ML
    assert spec.devices["b_valve"].options.heartbeat.at == 100
    assert rig._witness.spec.problem.reference.every == 5
    assert spec.meters[0].tariff is not None
    assert world("lathe", "looking", frozenset(["calendar", "reference"])).loaded.rig.timing.look is not None


def test_each_of_it_comes_in_a_part_of_the_seeds():
    """But a watchdog or hours only where a trial takes a minute."""
    drawn = Counter(name for seed in range(3000) for name in besides(random.Random(seed), "greenhouse", "dense"))
    assert {name: drawn[name] for name in EXTRAS} == {name: pytest.approx(3000 * BESIDES, rel=0.15) for name in EXTRAS}
    assert all(drawn[name] > 300 for name in RICHER if "greenhouse" in RICHER[name])
    assert {name for seed in range(99) for name in besides(random.Random(seed), "lathe", "long")} == {"reference"}


@pytest.mark.parametrize(
    ("doctored", "said"),
    [
        ("", ""),
        ("UPDATE events SET start = 2 WHERE event = 'ARM'", "one boot 0"),
        ("UPDATE events SET at_s = 900 WHERE event = 'ARM'", "armed by what was read"),
        ("UPDATE doses SET dispensed_ml = 500", "of whose 500 mL"),
        ("UPDATE doses SET dispensed_ml = 500; INSERT INTO upkeep VALUES (1, 'ca_doser', 'refilled', 55, NULL)", ""),
        ("INSERT INTO upkeep VALUES (1, 'ca_doser', 'refilled', 45, 60)", "of whose 60 mL"),
        ("UPDATE ledger SET amount_micros = 350000", "electricity"),
    ],
)
def test_a_doctored_journal_is_found_out(rig, doctored, said):
    """One trial, looked at 100 s in, decided 104 s in, that needs a pump of which 100 mL were given before."""
    with closing(sqlite3.connect(":memory:")) as journal:
        journal.executescript(
            "CREATE TABLE starts (id, epoch); CREATE TABLE looks (trial, at_s);"
            "CREATE TABLE trials (trial, control_set);"
            "CREATE TABLE events (trial, event, at_s, start);"
            "CREATE TABLE doses (actuator, dispensed_ml, volume_ml, at_s);"
            "CREATE TABLE upkeep (id, device, kind, at_s, volume_ml);"
            "CREATE TABLE ledger (trial, meter, quantity, amount_micros, estimated);"
            "INSERT INTO starts VALUES (1, 'boot 1'), (2, 'boot 2'); INSERT INTO looks VALUES (1, 103);"
            """INSERT INTO trials VALUES (1, '["ca", "b"]');"""
            "INSERT INTO events VALUES (1, 'LOOK', 100, 1), (1, 'PROPOSE', 104, 1), (1, 'ARM', 105, 1);"
            "INSERT INTO doses VALUES ('ca_doser', 100, 100, 50);"
            "INSERT INTO ledger VALUES (1, 'electricity', 1.0, 250000, 0);"
        )
        journal.executescript(doctored)
        with pytest.raises(Violation, match=said) if said else nullcontext():
            rig.ended(journal)


@pytest.mark.parametrize(
    ("trial", "phase", "own", "played", "barred", "fits"),
    [
        (5, "reference", True, "k+ph", (), True),
        (4, "wander", True, "k", (), True),
        (5, "wander", True, "k", (), False),
        (4, "reference", True, "k+ph", (), False),
        (5, "reference", True, "k", (), False),
        (5, "operate", False, "k", (), True),
        (5, "reference", False, "k+ph", (), False),
        (5, "wander", True, "k", ("k+ph",), True),
    ],
)
def test_a_reference_that_is_left_out_is_found_out(rig, trial, phase, own, played, barred, fits):
    """Every fifth trial of a campaign, if it can be played; never one of production."""
    with nullcontext() if fits else pytest.raises(Violation):
        rig.check_reference([(trial, phase, own, played, frozenset(barred))])


def test_minutes_of_an_hour_may_pass_its_end():
    """From 45 to 12 and from 20 to 40."""
    open_ = [minute for minute in range(60) if _open(OPEN_MIN, HOUR_S + 60.0 * minute)]
    assert open_ == [*range(12), *range(20, 40), *range(45, 60)]


@pytest.mark.parametrize(
    ("out", "since_s", "found"), [("camera", 90.0, 1), ("k_valve", 90.0, 1), ("k_valve", 99.0, 0), ("b_valve", 90.0, 0)]
)
def test_a_trial_that_needs_what_is_out_of_service_is_found_out(rig, out, since_s, found):
    """Taken out for a while before the trial's first step; what went out since then it may still use."""
    failed, clock = [], SimpleNamespace(now_s=100.0)
    truths = SimpleNamespace(decided=lambda *_: {"k": 6.0})
    rig._witness.kernel, rig._witness.fail = clock, failed.append
    rig._witness.promises = SimpleNamespace(truths=truths)
    rig._begun_s, rig.out_s = {}, {out: since_s}
    rig._in_service(TrialStep(7, State.LOOKING))
    clock.now_s = 110.0
    rig._in_service(TrialStep(7, State.ARMED))
    assert len(failed) == found


@pytest.mark.parametrize(
    ("cost", "too_dear", "found"), [(1.05, False, 0), (1.2, False, 1), (0.95, True, 0), (0.8, True, 1), (0.8, False, 0)]
)
def test_a_trial_that_may_not_cost_so_much_is_found_out(rig, cost, too_dear, found):
    """One that went to its end beyond what it may cost, or was broken off within it, by more than a tenth."""
    metered, failed = object.__new__(Metered), []
    problem = SimpleNamespace(cost_ceiling=1.0)
    metered._witness = SimpleNamespace(fail=failed.append, spec=SimpleNamespace(problem=problem))
    metered._trouble, metered.spoilt, metered.met = SimpleNamespace(quiet_all=True), False, Counter()
    metered._too_dear = {7} if too_dear else set()
    metered._is_affordable(7, "ABANDONED" if too_dear else "RECORDED", cost)
    assert len(failed) == found
