import math

import pytest

from sim_rig.faces.ezo import PhCircuit
from tests.sim_rig.fakes import FakeTimer, Talk, Wire


class Bench(Talk):
    """A pH circuit with the test's hand on the clock and on the pH."""

    def __init__(self):
        self.ph, timer = 6.25, FakeTimer()
        self.probe = PhCircuit(timer, lambda: self.ph)
        super().__init__(self.probe, timer, Wire(b"\r"))

    def ask(self, command, seconds=1.0):
        return super().ask(command, seconds)


@pytest.fixture
def bench():
    return Bench()


def test_it_ships_in_continuous_mode(bench):
    """A line a second, unasked, until `C,0`."""
    bench.probe.power_up()
    silent = (("", 10.0, []), ("C,?", 1.0, ["?C,0", "*OK"]))
    bench.assert_goes_as([("", 3.5, ["6.250"] * 3), ("C,0", 0.4, ["*OK"]), *silent])


DIALOGUES = {
    "a reading takes 900 ms": [("R", 0.89, []), ("", 0.02, ["6.250", "*OK"])],
    "a middle calibration wipes the others": [
        *((command, 1.0, ["*OK"]) for command in ("Cal,mid,7.00", "Cal,low,4.00", "Cal,high,10.00")),
        ("Cal,?", 1.0, ["?CAL,3", "*OK"]),
        ("Cal,mid,7.00", 1.0, ["*OK"]),
        ("Cal,?", 1.0, ["?CAL,1", "*OK"]),
        ("Cal,clear", 1.0, ["*OK"]),
        ("Cal,?", 1.0, ["?CAL,0", "*OK"]),
    ],
    "OK can be switched off, errors cannot": [
        ("*OK,0", 1.0, []),
        ("R", 1.0, ["6.250"]),
        ("nonsense", 1.0, ["*ER"]),
        ("*OK,1", 1.0, ["*OK"]),
    ],
    "commands wait for one another": [("R\rT,?", 1.0, ["6.250", "*OK"]), ("", 0.25, ["?T,25.00", "*OK"])],
    "the byte that wakes it is lost": [
        ("Sleep", 1.0, ["*OK", "*SL"]),
        ("R", 2.0, ["*WA"]),
        ("R", 1.0, ["6.250", "*OK"]),
    ],
    "a name is kept": [
        ("Name,?", 1.0, ["?NAME,", "*OK"]),
        ("Name,north_ph", 1.0, ["*OK"]),
        ("Name,?", 1.0, ["?NAME,north_ph", "*OK"]),
    ],
}


@pytest.mark.parametrize("dialogue", DIALOGUES.values(), ids=DIALOGUES)
def test_it_talks_as_its_data_sheet_says(bench, dialogue):
    """Delays, calibrations, modes and names."""
    bench.assert_goes_as(dialogue)
    assert bench.wire.lines() == []


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


def test_a_restart_drops_what_was_waiting(bench):
    """`*RS` and `*RE` are sent, a command under way is never answered, and `Status` says why."""
    bench.probe.feed(b"R\r")
    bench.probe.power_cycle("W")
    bench.timer.run(2.0)
    assert bench.wire.lines() == ["*RS", "*RE"]
    assert bench.ask("Status") == ["?STATUS,W,5.02", "*OK"]


def test_a_sleeping_circuit_says_nothing_unasked(bench):
    """Continuous mode pauses while it sleeps."""
    bench.probe.power_up()
    bench.ask("Sleep", 0.4)
    bench.assert_goes_as([("", 10.0, []), ("R", 0.1, ["*WA"]), ("", 1.0, ["6.250"])])


@pytest.mark.parametrize(("ph", "text"), [(15.2, "14.000"), (-1.0, "0.000"), (math.nan, "nan")])
def test_readings_stay_on_the_scale(bench, ph, text):
    """The circuit shows 0 to 14, and says so when it has no value."""
    bench.ph = ph
    assert bench.ask("R") == [text, "*OK"]
