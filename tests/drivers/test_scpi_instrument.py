"""SCPI instruments: identity, numbers, sentinels, the error queue."""

import math

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import Deadline, Identity, Severity
from rigctl.rig.testing import ScriptedLine
from rigctl_drivers.scpi_instrument import ScpiDriver
from tests.drivers.peers import Overdue, PtyPeer, cut_lines, over_once, soon


class Instrument:
    """Measures growth, keeps errors in a queue."""

    def __init__(self):
        self.identity = "Acme,GC-1,0042,1.7"
        self.value = ["+2.500000E+00"]
        self.errors = []

    def __call__(self, command):
        if command == "*IDN?":
            return [self.identity]
        if command == "MEAS:GROW?":
            return self.value
        if command == "SYST:ERR?":
            return [self.errors.pop(0) if self.errors else '0,"No error"']
        self.errors.append('-113,"Undefined header"')
        return []


@pytest.fixture
def instrument():
    return Instrument()


@pytest.fixture
def wire(instrument):
    return ScriptedLine(instrument, terminator=b"\n")


def camera(wire, **options):
    given = {"unit": "cm2/day", "query": "MEAS:GROW?", "model": "GC-1", **options}
    return ScpiDriver.connect(ScpiDriver.options.model_validate(given), wire)


def test_identity_is_taken_apart(wire):
    """`*IDN?` gives model, firmware and serial number."""
    assert camera(wire).identify(soon()) == Identity("GC-1", firmware="1.7", serial="0042")


def test_18_another_model_is_a_mismatch(wire, instrument, golden):
    """Another instrument on the port is named, with the one expected."""
    instrument.identity = "Acme,DMM-7,1,1"
    with golden.raises(IdentityMismatch):
        camera(wire).identify(soon())
    assert camera(wire, model=None).identify(soon()).model == "DMM-7"


def test_an_identity_without_model_is_garbled(wire, instrument, golden):
    """An answer that is no identity is not taken for one."""
    instrument.identity = "hello"
    with golden.raises(GarbledReply):
        camera(wire).identify(soon())


def test_a_reading_has_the_configured_unit(wire):
    """The query's number comes with the unit of the configuration; the error queue is looked at afterwards."""
    device = camera(wire)
    reading = device.read(soon())
    assert (reading.value, reading.unit, reading.severity) == (2.5, "cm2/day", Severity.NONE)
    assert device.read(soon()).valid
    assert wire.sent == ["SYST:ERR?", "MEAS:GROW?", "SYST:ERR?", "MEAS:GROW?", "SYST:ERR?"]


@pytest.mark.parametrize("value", ["9.91E37", "+9.900000E+37", "-9.9E37", "nan", "INF"])
def test_37_sentinels_are_invalid(wire, instrument, value):
    """Overflow, not-a-number and infinity are INVALID, and their value is NaN."""
    instrument.value = [value]
    reading = camera(wire).read(soon())
    assert reading.severity is Severity.INVALID
    assert math.isnan(reading.value)


def test_errors_from_before_are_told_not_blamed(wire, instrument):
    """What others left in the queue makes the first reading MINOR and is then gone."""
    instrument.errors = ['-350,"Queue overflow"', '-113,"Undefined header"']
    device = camera(wire)
    first = device.read(soon())
    assert (first.value, first.severity) == (2.5, Severity.MINOR)
    assert "Queue overflow" in first.detail
    assert device.read(soon()).severity is Severity.NONE


NO_ERROR = ("0", "+0", "0,No Error", "0 No Error", '0,"No error"', '+0,"No error"', "0 , 'No error'", '0,""')
UNDEFINED_HEADER = ('-113,"Undefined header"', "-113 Undefined header", "-113,Undefined header", "-113")


@pytest.mark.parametrize("entry", NO_ERROR)
def test_78_no_error_is_understood_however_it_is_written(wire, instrument, entry):
    """An empty queue is code 0, with text, with quotes, or bare."""
    wire.answer = lambda command: [entry] if command == "SYST:ERR?" else instrument(command)
    device = camera(wire)
    readings = [device.read(soon()) for _ in range(2)]
    assert [(r.value, r.severity) for r in readings] == [(2.5, Severity.NONE)] * 2


@pytest.mark.parametrize(("entry", "empty"), list(zip(UNDEFINED_HEADER, NO_ERROR, strict=False)))
def test_78_an_error_is_an_error_however_it_is_written(wire, instrument, entry, empty):
    """Another code than 0 fails the reading, in the instrument's own words."""
    device = camera(wire)
    device.read(soon())
    queue = [entry]
    wire.answer = lambda c: [queue.pop() if queue else empty] if c == "SYST:ERR?" else instrument(c)
    with pytest.raises(DeviceFault, match=entry):
        device.read(soon())
    assert device.read(soon()).valid


def test_78_a_bare_number_may_be_a_late_reading(wire, instrument, golden):
    """After a query without answer a number alone is not taken for an error code, nor for an empty queue."""
    device = camera(wire)
    device.read(soon())
    instrument.value = []
    wire.answer = lambda c: ["42", '0,"No error"'] if c == "SYST:ERR?" else instrument(c)
    with golden.raises(DeviceTimeout):
        device.read(Deadline.after(0.1))


def test_it_says_whether_it_is_simulated(wire, instrument):
    """The maker's field of a simulated instrument says so; no other field counts."""
    assert not camera(wire).simulated(soon())
    instrument.identity = "Acme,SIMULATED GC-1,1,1"
    assert not camera(wire).simulated(soon())
    instrument.identity = "SIMULATED,GC-1,1,1"
    assert camera(wire).simulated(soon())


def test_a_query_the_instrument_does_not_know_is_a_fault(wire, golden):
    """A mistyped query gets no answer; the error queue says why, so the user reads that instead of a timeout."""
    with golden.raises(DeviceFault):
        camera(wire, query="MEAS:GROWL?").read(soon())


def test_without_error_queue_silence_is_a_timeout(wire, golden):
    """Instruments that do not know `SYST:ERR?` are not asked for it."""
    with golden.raises(DeviceTimeout):
        camera(wire, query="MEAS:GROWL?", check_errors=False).read(soon())
    assert wire.sent == ["MEAS:GROWL?"]


@pytest.mark.parametrize("value", ["", "2.5 cm2", "1,2"])
def test_what_is_no_number_is_garbled(wire, instrument, value, golden):
    """Only a number is a reading."""
    instrument.value = [value]
    with golden.raises(GarbledReply):
        camera(wire).read(soon())


def test_an_endless_error_queue_ends(wire, instrument):
    """A queue that never empties is a fault after a bounded number of questions."""
    device = camera(wire)
    device.read(soon())
    instrument.errors = ['-350,"Queue overflow"'] * 1000
    with pytest.raises(DeviceFault):
        device.read(soon())
    assert wire.sent.count("SYST:ERR?") < 60


def test_a_late_answer_is_not_taken_for_the_next_one(line, peer, instrument):
    """A value that comes after its deadline answers neither the error question nor the next query."""
    overdue = Overdue()
    faults = [overdue]

    def answer(request):
        if request == b"MEAS:GROW?\n" and faults:
            return faults.pop()(b"9.9\n")
        return [f"{text}\n".encode() for text in instrument(request[:-1].decode())]

    end = peer(PtyPeer, cut_lines(b"\n"), answer)
    device = camera(line(f"serial://{end.path}?quiet=0.4"))
    with pytest.raises(DeviceTimeout):
        device.read(over_once(lambda: not faults))
    overdue.come()
    assert device.read(Deadline.after(60.0)).value == 2.5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"query": "MEAS:VOLT"}, "String should match pattern"),
        ({"query": "A?\nB?"}, "String should match pattern"),
        ({}, "nothing to do: give `query`, `set` or `enable`"),
        ({"query": "A?", "terminator": "x"}, "String should match pattern"),
    ],
)
def test_options_that_do_not_hold_are_refused(options, says):
    """A query without a question mark, with a line end, or none at all is refused."""
    with pytest.raises(ValidationError, match=says):
        ScpiDriver.options.model_validate(options)


def test_3_the_second_answer_to_one_that_was_asked_twice_is_not_the_next_reading(wire, instrument):
    """Where both come late and at once, the one left over is dropped, or all that follow would be off by one."""
    sensor = camera(wire)
    sensor.identify(soon())
    wire.pending.append(instrument.identity.encode())
    assert sensor.read(soon()).value == 2.5
    wire.pending.append(b"+9.900000E+00")
    assert sensor.read(soon()).value == 2.5
