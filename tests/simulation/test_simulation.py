"""The simulation itself: replayed bit for bit, clean where nothing is wrong, and able to find what is."""

import asyncio
import json
import math
import sqlite3
from collections import Counter, defaultdict, deque
from contextlib import closing, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigctl.rig.protocols import Reading
from sim_rig.plants.pump import Dispense
from tests.simulation import seed as seeds
from tests.simulation.aims import asks, commands, doses
from tests.simulation.books import (
    Books,
    Given,
    Violation,
    check_caps,
    check_sends,
    check_trials,
    check_windows,
    counted,
)
from tests.simulation.exchanges import Exchanges
from tests.simulation.fleet import outcome_of
from tests.simulation.kernel import Kernel, Life, Stuck, Trace
from tests.simulation.late import Late
from tests.simulation.promises import _check_pauses
from tests.simulation.trouble import Trouble


@pytest.mark.slow
def test_a_seed_is_replayed_bit_for_bit(monkeypatch):
    """Two runs of one seed do the same things at the same times, and find nothing wrong; another does others."""
    monkeypatch.setitem(seeds.LIVES, "dense", 3)
    monkeypatch.setattr(seeds, "drawn", lambda _, **__: ("lathe", "dense"))
    first, again, other = outcome_of(1), outcome_of(1), outcome_of(2)
    assert first.starts > 3
    assert (first.violation, first.digest, first.events) == ("", again.digest, again.events)
    assert (other.violation, other.digest == first.digest) == ("", False)


@pytest.fixture
def books(tmp_path):
    """The books of a journal of two trials, the first one recorded and charged."""
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE trials (trial, control_set, setpoints, state);"
            "CREATE TABLE events (id INTEGER PRIMARY KEY, trial, state);"
            "CREATE TABLE ledger (trial, meter, amount_micros);"
            "CREATE TABLE phases (id INTEGER PRIMARY KEY, start, phase);"
            "CREATE TABLE alarms (id); CREATE TABLE acts (id); CREATE TABLE doses (id); CREATE TABLE starts (id);"
            "CREATE TABLE trips (id);"
        )
        chosen = json.dumps(["speed"])
        trials = [(1, chosen, "{}", "RECORDED"), (2, chosen, "{}", "ARMED")]
        connection.executemany("INSERT INTO trials VALUES (?, ?, ?, ?)", trials)
        steps = [(1, s) for s in ("PROPOSED", "ARMED", "RUNNING", "MEASURED", "RECORDED")] + [
            (2, "PROPOSED"),
            (2, "ARMED"),
        ]
        connection.executemany("INSERT INTO events (trial, state) VALUES (?, ?)", steps)
        connection.execute("INSERT INTO ledger VALUES (1, 'power', 10)")
        connection.executemany("INSERT INTO phases (start, phase) VALUES (?, ?)", [(1, "RUNNING"), (2, "RUNNING")])
    connection.close()
    known = Books(tmp_path)
    with known.copy() as copied:
        known.look(copied)
    return known


DOCTORED = {
    "a step is left out": "DELETE FROM events WHERE state = 'MEASURED'",
    "a trial ends twice": "INSERT INTO events (trial, state) VALUES (1, 'LOST')",
    "a trial is repeated": "INSERT INTO events (trial, state) VALUES (2, 'ARMED')",
    "a trial is lost": "DELETE FROM trials WHERE trial = 2; DELETE FROM events WHERE trial = 2",
    "a recorded trial is another": "UPDATE trials SET setpoints = '{\"speed\": 1}' WHERE trial = 1",
    "a line is dropped": "DELETE FROM ledger",
    "a line is another": "UPDATE ledger SET amount_micros = 11",
    "a line is there twice": "INSERT INTO ledger VALUES (1, 'power', 10)",
    "a trial under way is charged": "INSERT INTO ledger VALUES (2, 'power', 10)",
    "a process goes on after its end": "INSERT INTO phases (start, phase) VALUES (2, 'ENDED'), (2, 'RUNNING')",
}


@pytest.mark.parametrize("doctored", DOCTORED.values(), ids=DOCTORED)
def test_a_doctored_journal_is_found_out(books, doctored):
    """What cannot have happened is a violation, and only that."""
    with sqlite3.connect(books.state / "journal.sqlite") as connection:
        connection.executescript(doctored)
    connection.close()
    with books.copy() as copied, pytest.raises(Violation):
        books.look(copied)


SENT = [(1.0, 5.0), (9.0, 2.5)]
DAY = [Given(0.0, 60.0), Given(80_000.0, 60.0), Given(170_000.0, 60.0)]
HOURS = [Given(0.0, 60.0), Given(3000.0, 60.0), Given(6000.0, 60.0)]
TRIALS = [Given(0.0, 60.0, 1), Given(1.0, 60.0, 2), Given(2.0, 60.0, 2), Given(3.0, 200.0)]
"""The last by hand, which belongs to no trial."""


@pytest.mark.parametrize(
    ("check", "given", "fits", "wrong"),
    [
        (check_sends, SENT, [([5.0, 7.0, 2.5],)], [([5.0],), ([2.5, 5.0],), ([],)]),
        (check_caps, DAY, [(60.0, 120.0)], [(50.0, None), (None, 110.0)]),
        (check_windows, HOURS, [([(3600.0, 120.0), (math.inf, 180.0), (86400.0, None)],)],
         [([(3600.0, 110.0)],), ([(math.inf, 170.0)],)]),
        (check_trials, TRIALS, [(120.0,)], [(110.0,)]),
    ],
    ids=["intents", "a dose and 24 h", "any window", "a trial"],
)  # fmt: skip
def test_a_dose_without_an_intent_and_what_is_beyond_a_cap_are_found_out(check, given, fits, wrong):
    """Each dose that leaves has its own intent, in their order; caps hold for one dose, any window and a trial."""
    for limits in fits:
        check("pump", given, *limits)
    for limits in wrong:
        with pytest.raises(Violation):
            check("pump", given, *limits)


def test_of_a_pump_that_runs_on_only_what_nobody_could_stop_is_left_out():
    """Stopped, or left by a life that died: what it was told counts. What runs on otherwise counts all."""
    going = Dispense(1, 1, 50.0, 0.0, dispensed_ml=90.0, delivered_ml=91.0)
    assert [counted(going, left=left) for left in (True, False)] == [50.0, 91.0]
    ended = [replace(going, how=how) for how in ("stopped", "done", "replaced")]
    assert [counted(dispense, left=True) for dispense in ended] == [50.0, 91.0, 91.0]


@pytest.mark.slow
def test_who_spins_is_found_out():
    """Time that stands still is a failure, not a test that hangs."""
    kernel = Kernel(1, Trace())

    def spin() -> None:
        kernel.after(0.0, spin)

    spin()
    with pytest.raises(Stuck):
        kernel.run(lambda: False, kernel.now_s + 1.0)


def test_a_dead_life_never_goes_on():
    """Not even its `finally`, whatever it waits for."""
    kernel, life, done = Kernel(1, Trace()), Life("#1"), []

    def work() -> None:
        try:
            kernel.sleep(5.0)
        finally:
            done.append("went on")

    kernel.spawn(life, "main", work)
    kernel.after(1.0, lambda: kernel.kill(life, "killed"))
    kernel.run(lambda: False, kernel.now_s + 10.0)
    assert (life.dead, done) == (True, [])
    life.dead, life.strands[0].waiting = False, True  # a life that lives does go on
    kernel.wake(life.strands[0])
    kernel.run(lambda: False, kernel.now_s + 10.0)
    assert done == ["went on"]


def test_a_computer_that_sleeps_already_sleeps_on():
    """Its clock stands still for as long as it sleeps, not for the sum of what kept it asleep."""
    kernel = Kernel(1, Trace())
    computer, begun_s = kernel.computer, kernel.now_s
    computer.suspend(100.0)
    kernel.now_s += 50.0
    computer.suspend(10.0)
    assert (computer.suspended_s, computer.asleep_until_s) == (100.0, begun_s + 100.0)
    computer.suspend(80.0)
    assert (computer.suspended_s, computer.asleep_until_s) == (130.0, begun_s + 130.0)


@pytest.fixture
def trouble():
    """Knows of one bus, to which everything is connected; nothing is wrong at 500 s."""
    looking, station = object.__new__(Trouble), SimpleNamespace(units={1: SimpleNamespace(word_swap=False)})
    looking._kernel, looking._mischief = SimpleNamespace(now_s=500.0), SimpleNamespace(disk_until_s=0.0)
    assembly = SimpleNamespace(wire_faults={}, sensors={}, stations={"plc": station})
    looking._plant = SimpleNamespace(cables={"plc": SimpleNamespace(plugged=True)}, assembly=assembly)
    looking._bus_of, looking._bus_s, looking._deaf_s, looking._forged_s = {"probe": "plc"}, {}, {}, {}
    looking._computer_s = 0.0
    return looking


def test_a_bus_is_not_quiet_whose_cable_was_pulled_since_anybody_looked(trouble):
    """Nothing is demanded of it, however seldom somebody looks in passing."""
    assert trouble.quiet("probe")
    trouble._plant.cables["plc"].plugged = False
    assert not trouble.quiet("probe")


def test_a_bus_is_not_honest_as_long_as_its_words_are_swapped(trouble):
    """However long ago that began (seed 91002)."""
    bank, trouble._forged_s = trouble._plant.assembly.stations["plc"].units[1], {"plc": 400.0}
    for swapped, now_s in ((True, 500.0), (False, 600.0)):
        bank.word_swap, trouble._kernel.now_s = swapped, now_s
        trouble.glance()
        assert trouble.honest("probe") == (not swapped)


@pytest.fixture
def exchanges():
    """What is looked at of a probe that gave 6.1 at 10 s and 6.3 at 12 s, with what has been found in `.failed`."""
    looking, failed = object.__new__(Exchanges), []
    looking._witness = SimpleNamespace(kernel=SimpleNamespace(now_s=12.5), fail=failed.append)
    looking._trouble = SimpleNamespace(honest=lambda name: name != "forged", bus_of=lambda name: name)
    looking._given_up_s, looking._near = {}, {"ph": 0.0006, "forged": 0.0006}
    looking._valid, looking._texts, looking._heard = set(), {"line"}, defaultdict(deque)
    looking._gave = defaultdict(deque, ph=deque([(10.0, 6.1), (12.0, 6.3)]))
    looking._sending, looking._place_of = {"valve": Counter()}, {("coil", 3): "valve", ("holding", 6): "valve"}
    looking.failed = failed
    return looking


def read(exchanges, value, *, name="ph", given_up_s=None):
    """Have a probe say so at 12.5 s, asked at 11 s; return what was found wrong."""
    exchanges._given_up_s = {} if given_up_s is None else {name: given_up_s}
    clock = exchanges._witness.kernel

    async def answered(_probe):
        clock.now_s = 12.5
        return Reading(value, "pH", 0.0), True

    clock.now_s = 11.0
    probe = SimpleNamespace(handle=SimpleNamespace(name=name))
    asyncio.run(exchanges._answered(answered)(probe))
    return exchanges.failed


def test_an_answer_to_an_earlier_question_is_found_out(exchanges):
    """Unless its line is not honest, or it came later than a line can be silent for."""
    assert read(exchanges, 6.3004) == []
    assert read(exchanges, 6.1, name="forged") == []
    assert read(exchanges, 6.1, given_up_s=11.0) == []
    assert len(read(exchanges, 6.1, given_up_s=12.0)) == 1
    assert len(read(exchanges, 6.1)) == 2


def test_an_answer_that_came_before_its_question_is_found_out(exchanges):
    """However long after it was given up: a line of text is emptied before it is asked again."""
    exchanges._gave["line"].append((12.0, 6.3))
    exchanges._near["line"] = 0.0006
    exchanges._heard["line"].append((11.5, 6.3))
    assert read(exchanges, 6.3, name="line", given_up_s=9.0) == []
    exchanges._heard["line"][0] = (10.9, 6.3)
    assert len(read(exchanges, 6.3, name="line", given_up_s=9.0)) == 1


def test_a_dose_by_an_old_reading_is_found_out(exchanges):
    """A reading is good for one dose: the next needs one that was taken after it."""
    read(exchanges, 6.3004)
    exchanges.doses("pump", "ph")
    assert exchanges.failed == []
    exchanges.doses("pump", "ph")
    assert len(exchanges.failed) == 1


def test_a_command_that_leaves_twice_is_found_out(exchanges):
    """Another one, one that switches off, or one that nobody has decided on now, may."""
    on, off, setpoint = b"\x05\0\x03\xff\0", b"\x05\0\x03\0\0", b"\x06\0\x06\0\x07"
    for pdu in (off, on, off, setpoint, b"\x05\0\x04\xff\0", b"\x05\0\x04\xff\0"):
        exchanges.writes(pdu)
    assert exchanges.failed == []
    exchanges.writes(on)
    assert len(exchanges.failed) == 1


LATE = {
    "as it should be": ("", 0, ""),
    "what was taken is gone": ("DELETE FROM corrections WHERE trial = 1", 0, "taken"),
    "what was taken is another": ("UPDATE corrections SET becomes = replace(becomes, '7', '8')", 0, "taken"),
    "one that came is given up": ("UPDATE trials SET state = 'FAILED'", 0, "came"),
    "given up too early": ("UPDATE corrections SET at_s = 150 WHERE trial = 2", 0, "waited"),
    "given up by a clock that was set": ("UPDATE corrections SET at_s = 150 WHERE trial = 2", 1, "waited"),
    "its sensor reads another's": (
        "UPDATE corrections SET at_s = 150, why = 'what its sensor reads now is' WHERE trial = 2",
        0,
        "",
    ),
    "across a boot by the clock": ("UPDATE corrections SET at_s = 150; UPDATE awaited SET epoch = 'boot 0'", 1, ""),
}


@pytest.mark.parametrize(("doctored", "clocks", "said"), LATE.values(), ids=LATE)
def test_an_outcome_that_is_lost_or_given_up_early_is_found_out(doctored, clocks, said):
    """Of two trials that awaited theirs from 100 s on, 90 s at most, one was told and the other given up."""
    late = object.__new__(Late)
    late._name, late._after_s, late._within_s, late._taken = "growth", 0.0, 90.0, {1: 7.0}
    late._witness = SimpleNamespace(mischief=SimpleNamespace(done=Counter({"clock set": clocks})))
    with closing(sqlite3.connect(":memory:")) as journal:
        journal.executescript(
            "CREATE TABLE trials (trial, state); CREATE TABLE events (trial, event, at_s, utc);"
            "CREATE TABLE awaited (trial, epoch); CREATE TABLE starts (id, epoch, at_s);"
            "CREATE TABLE corrections (id, trial, kind, becomes, who, at_s, utc, why DEFAULT '');"
            "INSERT INTO trials VALUES (1, 'RECORDED'), (2, 'FAILED');"
            "INSERT INTO events VALUES (1, 'AWAIT', 100, '2026-01-01T00:00'), (2, 'AWAIT', 100, '2026-01-01T00:00');"
            "INSERT INTO awaited VALUES (1, 'boot 1'), (2, 'boot 1'); INSERT INTO starts VALUES (1, 'boot 1', 0);"
            "INSERT INTO corrections (id, trial, kind, becomes, who, at_s, utc) VALUES "
            """(1, 1, 'amend', '{"outcomes": {"growth": 7.0}}', 'anna', 120, '2026-01-01T00:00:20'),"""
            """(2, 2, 'amend', '{"outcomes": {"growth": null}}', 'rigctl', 190, '2026-01-01T00:01:30');"""
        )
        journal.executescript(doctored)
        with pytest.raises(Violation, match=said) if said else nullcontext():
            late.ended(journal)


@pytest.mark.parametrize(
    ("looked_s", "start", "fits"), [(None, 1, False), (95.0, 1, True), (95.0, 2, False), (140.0, 1, False)]
)
def test_a_trial_that_begins_in_a_pause_is_found_out(looked_s, start, fits):
    """Paused at 100 s, armed at 150 s: only one that looked before that, in the same process, goes on."""
    with closing(sqlite3.connect(":memory:")) as journal:
        journal.executescript(
            "CREATE TABLE acts (id, at_s, verb); INSERT INTO acts VALUES (1, 100, 'pause');"
            "CREATE TABLE events (id, trial, event, at_s, start); INSERT INTO events VALUES (2, 7, 'ARM', 150, 1);"
        )
        if looked_s is not None:
            journal.execute("INSERT INTO events VALUES (1, 7, 'LOOK', ?, ?)", (looked_s, start))
        with nullcontext() if fits else pytest.raises(Violation):
            _check_pauses(journal)


def test_what_trouble_waits_for_is_told_apart():
    """A dose, a command to a PLC, a question for a reading."""
    frame = b"\0\x01\0\0\0\x06\x01"
    assert [doses(data) for data in (b"D,5.00\r", b"D,?\r", b"X\r")] == [True, False, False]
    assert [commands(frame + bytes([function])) for function in (4, 5, 16)] == [False, True, True]
    assert [asks(data) for data in (b"R\r", b"MEAS:QUAL?\n", b"i\r")] == [True, True, False]
