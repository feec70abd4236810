import math

import pytest

from sim_rig.faces.scpi import Output, ScpiInstrument
from tests.sim_rig.fakes import FakeTimer, Talk, Wire


class Bench(Talk):
    """A growth instrument."""

    def __init__(self):
        self.value, timer = 12.345678, FakeTimer()
        face = ScpiInstrument(timer, "Maker,GC-1,7,1.0", "MEASure:GROWth", lambda: self.value)
        super().__init__(face, timer, Wire(b"\n"))

    def ask(self, command, seconds=1.0):
        return super().ask(command, seconds)


@pytest.fixture
def bench():
    return Bench()


@pytest.mark.parametrize("query", ["MEAS:GROW?", "measure:growth?", ":MEASure:GROW?", "  MEAS:GROWTH?  \r"])
def test_long_and_short_forms_measure(bench, query):
    """Each word of the header may be in its short or its long form, in any case."""
    assert bench.ask(query) == ["+1.234568E+01"]


def test_nothing_between_long_and_short(bench, golden):
    """A half-spelt word is an undefined header."""
    assert bench.ask("MEASU:GROW?") == []
    golden(bench.ask("SYST:ERR?"))


def test_a_missing_value_is_scpis_nan(bench):
    """NaN is sent as 9.91E37."""
    bench.value = math.nan
    assert [float(v) for v in bench.ask("MEAS:GROW?")] == [9.91e37]


@pytest.mark.parametrize(
    ("command", "answer"),
    [("*IDN?", ["Maker,GC-1,7,1.0"]), ("*opc?", ["1"]), ("*RST;*TST?", ["0"]), ("*CLS;*OPC;*ESR?", ["1"])],
)
def test_common_commands(bench, command, answer):
    """Identity, completion, self test."""
    assert bench.ask(command) == answer


def test_event_status_tells_power_on_once(bench):
    """The power-on bit is there until it is read, and comes back with a restart."""
    assert bench.ask("*ESR?") == ["128"]
    assert bench.ask("*ESR?") == ["0"]
    bench.face.power_cycle()
    assert bench.ask("*ESR?") == ["128"]


def test_the_error_queue_is_first_in_first_out_and_bounded(bench, golden):
    """Errors come out one at a time; past ten the last says so; `*CLS` empties it."""
    for _ in range(12):
        bench.ask("NONSENSE")
    assert bench.ask("*STB?") == ["36"]
    answers = [bench.ask("SYSTem:ERRor?")[0] for _ in range(11)]
    golden((answers[0], answers[9:]))
    bench.ask("NONSENSE")
    bench.ask("*CLS")
    golden(bench.ask("SYST:ERR?;*ESR?"))


def test_an_output_is_set_switched_and_asked(bench):
    """A level within its range, on and off, in long and short forms; a restart switches it off."""
    bench.face.output = Output("SOURce:VOLTage", 30.0)
    assert bench.ask("SOUR:VOLT 12.5;:OUTP ON") == []
    assert bench.ask("source:voltage?;OUTPut?;OUTP:STAT?") == ["+1.250000E+01;1;1"]
    assert bench.ask("OUTP OFF;OUTP?") == ["0"]
    bench.ask("OUTP 1")
    bench.face.power_cycle()
    assert bench.ask("SOUR:VOLT?;OUTP?") == ["+0.000000E+00;0"]
    assert bench.ask("SYST:ERR?") == ['0,"No error"']


@pytest.mark.parametrize("command", ["SOUR:VOLT 31", "SOUR:VOLT -1", "SOUR:VOLT", "SOUR:VOLT nan", "OUTP MAYBE"])
def test_an_output_refuses_what_it_cannot_do(bench, command, golden):
    """A value out of range changes nothing and queues an error."""
    bench.face.output = Output("SOURce:VOLTage", 30.0, level=5.0, on=True)
    assert bench.ask(command) == []
    golden(bench.ask("SYST:ERR?"))
    assert (bench.face.output.level, bench.face.output.on) == (5.0, True)
