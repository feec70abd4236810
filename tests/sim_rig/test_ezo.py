import math

import pytest

from sim_rig.faces.ezo import PhCircuit
from tests.sim_rig.fakes import FakeTimer, Wire


class Bench:
    """A pH circuit with the test's hand on the clock and on the pH."""

    def __init__(self):
        self.ph = 6.25
        self.timer = FakeTimer()
        self.wire = Wire(b"\r")
        self.probe = PhCircuit(self.timer, lambda: self.ph)
        self.probe.send = self.wire

    def ask(self, command, seconds=1.0):
        self.probe.feed(command.encode() + b"\r")
        self.timer.run(seconds)
        return self.wire.lines()


@pytest.fixture
def bench():
    return Bench()


def test_it_ships_in_continuous_mode(bench):
    """A line a second, unasked, until `C,0`."""
    bench.probe.power_up()
    bench.timer.run(3.5)
    assert bench.wire.lines() == ["6.250"] * 3
    assert bench.ask("C,0", 0.4) == ["*OK"]
    bench.timer.run(10.0)
    assert bench.wire.lines() == []
    assert bench.ask("C,?") == ["?C,0", "*OK"]


def test_a_reading_takes_900_ms(bench):
    """The value comes after the processing delay, then `*OK`."""
    assert bench.ask("R", 0.89) == []
    bench.timer.run(0.02)
    assert bench.wire.lines() == ["6.250", "*OK"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("i", ["?I,pH,SIM2.14", "*OK"]),
        ("status", ["?STATUS,P,5.02", "*OK"]),
        ("T,19.5", ["*OK"]),
        ("T,?", ["?T,25.00", "*OK"]),
        ("RT,19.5", ["6.236", "*OK"]),
        ("SLOPE,?", ["?SLOPE,99.7,100.3,-0.89", "*OK"]),
        ("*OK,?", ["?*OK,1", "*OK"]),
        ("blub", ["*ER"]),
        ("R,1", ["*ER"]),
        ("T,warm", ["*ER"]),
        ("T,nan", ["*ER"]),
        ("C,100", ["*ER"]),
        ("Cal,top,7", ["*ER"]),
    ],
)
def test_commands_and_their_answers(bench, command, answer):
    """Case does not matter; what is not understood is answered with `*ER` alone."""
    assert bench.ask(command) == answer


def test_a_middle_calibration_wipes_the_others(bench):
    """`Cal,mid` starts a calibration anew."""
    for command in ("Cal,mid,7.00", "Cal,low,4.00", "Cal,high,10.00"):
        assert bench.ask(command) == ["*OK"]
    assert bench.ask("Cal,?") == ["?CAL,3", "*OK"]
    bench.ask("Cal,mid,7.00")
    assert bench.ask("Cal,?") == ["?CAL,1", "*OK"]
    bench.ask("Cal,clear")
    assert bench.ask("Cal,?") == ["?CAL,0", "*OK"]


def test_ok_can_be_switched_off_but_errors_cannot(bench):
    """After `*OK,0` only values and errors are sent."""
    assert bench.ask("*OK,0") == []
    assert bench.ask("R") == ["6.250"]
    assert bench.ask("nonsense") == ["*ER"]
    assert bench.ask("*OK,1") == ["*OK"]


def test_commands_wait_for_one_another(bench):
    """Two commands in one breath are answered in order, each after its own delay."""
    bench.probe.feed(b"R\rT,?\r")
    bench.timer.run(1.0)
    assert bench.wire.lines() == ["6.250", "*OK"]
    bench.timer.run(0.25)
    assert bench.wire.lines() == ["?T,25.00", "*OK"]


def test_a_restart_drops_what_was_waiting(bench):
    """`*RS` and `*RE` are sent, a command under way is never answered, and `Status` says why."""
    bench.probe.feed(b"R\r")
    bench.probe.power_cycle("W")
    bench.timer.run(2.0)
    assert bench.wire.lines() == ["*RS", "*RE"]
    assert bench.ask("Status") == ["?STATUS,W,5.02", "*OK"]


def test_a_sleeping_circuit_is_woken_by_the_first_byte_and_loses_what_woke_it(bench):
    """`Sleep` ends in `*SL`; any byte is answered `*WA` at once, and the command it belongs to is not carried out."""
    assert bench.ask("Sleep") == ["*OK", "*SL"]
    bench.probe.feed(b"R")
    assert bench.wire.lines() == ["*WA"]
    bench.probe.feed(b"\r")
    bench.timer.run(2.0)
    assert bench.wire.lines() == []
    assert bench.ask("R") == ["6.250", "*OK"]


def test_a_sleeping_circuit_says_nothing_unasked(bench):
    """Continuous mode pauses while it sleeps."""
    bench.probe.power_up()
    bench.ask("Sleep", 0.4)
    bench.timer.run(10.0)
    assert bench.wire.lines() == []
    assert bench.ask("R", 0.1) == ["*WA"]
    bench.timer.run(1.0)
    assert bench.wire.lines() == ["6.250"]


def test_a_name_is_kept(bench):
    """`Name` is what people call it; it has none at first."""
    assert bench.ask("Name,?") == ["?NAME,", "*OK"]
    assert bench.ask("Name,north_ph") == ["*OK"]
    assert bench.ask("Name,?") == ["?NAME,north_ph", "*OK"]


@pytest.mark.parametrize(("ph", "text"), [(15.2, "14.000"), (-1.0, "0.000"), (math.nan, "nan")])
def test_readings_stay_on_the_scale(bench, ph, text):
    """The circuit shows 0 to 14, and says so when it has no value."""
    bench.ph = ph
    assert bench.ask("R") == [text, "*OK"]
