import numpy as np
import pytest

from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import DosingPump, PumpFaults
from tests.sim_rig.fakes import FakeTimer, Talk, Wire


class Bench(Talk):
    """A pump whose time passes when the test says so."""

    def __init__(self):
        self.pump = DosingPump("ca_doser", np.random.default_rng(1))
        timer = FakeTimer(self.pump.advance)
        super().__init__(PumpCircuit(timer, self.pump), timer, Wire(b"\r"))

    def ask(self, command, seconds=0.31):
        return super().ask(command, seconds)


@pytest.fixture
def bench():
    return Bench()


DIALOGUES = {
    "a dose from command to its end": [
        ("D,19.5", 0.31, ["*OK"]),
        ("d,?", 0.31, ["?D,0.30,1", "*OK"]),
        ("", 25.0, ["*DONE,19.50"]),
        ("D,?", 0.31, ["?D,19.50,0", "*OK"]),
        ("TV,?", 0.31, ["?TV,19.50", "*OK"]),
    ],
    "one that ends while a query is processed announces itself first": [
        ("D,9.75", 10.16, ["*OK"]),
        ("TV,?", 0.5, ["*DONE,9.75", "?TV,9.75", "*OK"]),
    ],
    "endless until X, which DONE alone answers": [
        ("D,*", 60.3, ["*OK"]),
        ("X", 0.3, [f"*DONE,{58.5 + 0.2925:.2f}"]),
        ("", 60.0, []),
    ],
    "backwards lowers the signed total, not the absolute one": [
        ("D,-5", 30.0, ["*OK", "*DONE,-5.00"]),
        ("TV,?", 0.31, ["?TV,-5.00", "*OK"]),
        ("ATV,?", 0.31, ["?ATV,5.00", "*OK"]),
        ("Clear", 0.31, ["*OK"]),
        ("ATV,?", 0.31, ["?ATV,0.00", "*OK"]),
    ],
}


@pytest.mark.parametrize("dialogue", DIALOGUES.values(), ids=DIALOGUES)
def test_it_talks_as_its_data_sheet_says(bench, dialogue):
    """Doses, their ends, rates, pauses and totals."""
    bench.assert_goes_as(dialogue)
    assert bench.wire.lines() == []


@pytest.mark.parametrize(("command", "dispensed"), [("D,10,2", 5.0), ("DC,6,10", 6.0)])
def test_rates(bench, command, dispensed):
    """A dose over time and a constant rate run as slowly as they are told."""
    bench.ask(command, 60.3)
    assert bench.pump.total_ml == pytest.approx(dispensed)


def test_pause_toggles(bench):
    """`P` stops the clock of a dose, a second `P` lets it finish."""
    bench.ask("D,9.75")
    bench.ask("P", 60.0)
    assert bench.pump.total_ml < 1.0
    assert bench.ask("P", 20.0) == ["*OK", "*DONE,9.75"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("i", ["?I,PMP,SIM1.06", "*OK"]),
        ("DC,?", ["?MAXRATE,58.5", "*OK"]),
        ("Dstart,?", ["?DSTART,0.00", "*OK"]),
        ("PV,?", ["?PV,12.00", "*OK"]),
        ("P,?", ["?P,0", "*OK"]),
        ("D,0.4", ["*MINVOL", "*ER"]),
        ("D,100,1", ["*TOOFAST", "*ER"]),
        ("DC,60,5", ["*TOOFAST", "*ER"]),
        ("D,much", ["*ER"]),
        ("D,0", ["*ER"]),
        ("D,5,0", ["*ER"]),
        ("DC,10,-1", ["*ER"]),
        ("TV", ["*ER"]),
        ("D,1,2,3", ["*ER"]),
    ],
)
def test_commands_and_their_answers(bench, command, answer):
    """Queries are answered, refusals give their reason, and nothing moves."""
    assert bench.ask(command) == answer
    assert bench.pump.testimony() == []


def test_a_reset_in_mid_dose_silences_the_counters(bench):
    """After a power cycle the pump stands still, knows nothing, and never reports the dose done."""
    bench.ask("D,19.5", 5.0)
    bench.face.power_cycle()
    assert bench.wire.lines() == ["*RS", "*RE"]
    bench.timer.run(60.0)
    assert bench.wire.lines() == []
    assert bench.ask("TV,?") == ["?TV,0.00", "*OK"]
    (entry,) = bench.pump.testimony()
    assert (entry["how"], entry["dispensed_ml"]) == ("power lost", pytest.approx(0.975 * 4.7, rel=1e-6))


def test_dstart_dispenses_at_power_up(bench):
    """A pump left with `Dstart` set doses by itself when it comes back."""
    assert bench.ask("Dstart,7.5") == ["*OK"]
    bench.face.power_cycle()
    bench.timer.run(30.0)
    assert bench.wire.lines() == ["*RS", "*RE", "*DONE,7.50"]


def test_without_motor_supply_nothing_runs(bench):
    """A dose is refused with the reason."""
    bench.pump.faults.unpowered = True
    assert bench.ask("PV,?") == ["?PV,0.00", "*OK"]
    assert bench.ask("D,5") == ["*UV,PUMPPWR,0.00", "*ER"]
    bench.pump.faults = PumpFaults()
    bench.pump.faults.weak = True
    assert bench.ask("PV,?") == ["?PV,12.00", "*OK"]
    assert bench.ask("D,5") == ["*UV,PUMPPWR,0.00", "*ER"]
    assert bench.pump.testimony() == []


def test_a_stuck_pump_never_reports_done_and_a_short_one_reports_less(bench):
    """`*DONE` tells what was dispensed; a pump that does not stop tells nothing until `X`."""
    bench.pump.faults.short = 0.5
    assert bench.ask("D,10", 60.0) == ["*OK", "*DONE,5.00"]
    bench.pump.faults.stuck = True
    assert bench.ask("D,10", 60.0) == ["*OK"]
    assert bench.ask("D,?")[0].endswith(",1")


def test_the_witness_knows_which_command_asked(bench):
    """Every dispense carries the number of the command that began it."""
    for command in ("i", "D,1", "D,?"):
        bench.ask(command)
    bench.timer.run(10.0)
    bench.ask("D,2", 10.0)
    assert [(d["number"], d["command"], d["target_ml"]) for d in bench.pump.testimony()] == [(1, 2, 1.0), (2, 4, 2.0)]
