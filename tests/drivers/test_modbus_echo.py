"""RS-485 adapters that send back what they are given: no echo is ever taken for a confirmation."""

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply
from rigctl.rig.conformance import check_driver
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import PtyPeer, cut_rtu, dribbled, exception, foreign_slave, patient, soon


@pytest.fixture
def adapter(peer, line, unit):
    """Makes a line behind an adapter that echoes, `unit` or a cut cable at its end."""

    def make(echo="auto", *, cut=False, spoil=lambda echo: [echo]):
        def answer(request):
            return [*spoil(request), *(() if cut else unit.rtu(request))]

        return line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, answer).path}?baud=115200&quiet=0.05&echo={echo}")

    return make


WRITES = {
    "05": lambda line, until: line.write_coils(1, 6, [True], until),
    "06": lambda line, until: line.write_registers(1, 20, [9], until),
    "0F": lambda line, until: line.write_coils(1, 6, [True, False], until),
    "10": lambda line, until: line.write_registers(1, 30, [1, 2], until),
}
READS = {
    "01": lambda line, until: line.read_bits(1, "coil", 5, 1, until) == [True],
    "02": lambda line, until: line.read_bits(1, "discrete", 4, 2, until) == [False, True],
    "03": lambda line, until: line.read_registers(1, "holding", 7, 1, until) == [700],
    "04": lambda line, until: line.read_registers(1, "input", 2, 1, until) == [42],
}


@pytest.mark.parametrize("echo", ["auto", "yes"])
@pytest.mark.parametrize("first", [*READS, *WRITES])
def test_77_behind_an_echo_everything_works(adapter, unit, echo, first):
    """Whatever is asked first, each function gives its value or is carried out once, and nothing is asked twice."""
    line = adapter(echo)
    for name in (first, *READS, *WRITES):
        if name in READS:
            assert READS[name](line, patient())
        else:
            WRITES[name](line, patient())
    assert (unit.words[(3, 20)], unit.words[(3, 31)], unit.coils[6], unit.coils[7]) == (9, 2, True, False)
    assert line.read_retries == 0


@pytest.mark.parametrize("echo", ["auto", pytest.param("yes", marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", ["05", *(pytest.param(f, marks=pytest.mark.slow) for f in WRITES if f != "05")])
def test_77_with_the_cable_cut_no_write_is_confirmed(adapter, echo, function, golden):
    """Only the echo comes back, and that is a timeout that says so, be it the first thing that is ever sent."""
    line = adapter(echo, cut=True)
    for _ in range(2):
        with pytest.raises(DeviceTimeout) as refused:
            WRITES[function](line, soon())
        if echo == "yes":  # else it takes an echo to know of one, and what is said depends on how soon it comes
            golden(refused.value)


@pytest.mark.parametrize("function", READS)
def test_77_with_the_cable_cut_no_read_has_a_value(adapter, function):
    """A question that comes back is no answer."""
    with pytest.raises(DeviceTimeout):
        READS[function](adapter(cut=True), soon())


def test_an_echo_that_dribbles_is_put_together(adapter, unit):
    """An echo in pieces is waited for and dropped."""
    line = adapter(spoil=dribbled)
    assert READS["04"](line, patient())
    WRITES["05"](line, patient())
    assert (unit.coils[6], line.read_retries) == (True, 0)


def test_a_damaged_echo_is_garbled(adapter):
    """On a line that echoes, anything else than what was sent means that two spoke at once."""
    line = adapter("yes", spoil=lambda echo: [b"\x00" + echo[1:]])
    with pytest.raises(GarbledReply, match=r"echo .* 00 05"):
        WRITES["05"](line, soon())


def test_a_refusal_behind_an_echo_is_a_refusal(adapter, unit):
    """An exception is told from the echo before it."""
    unit.faults = [exception(2)]
    with pytest.raises(DeviceFault, match="exception 02"):
        READS["04"](adapter(), soon())


@pytest.fixture
def plain(peer, line, unit):
    """A line without echo, which nobody has declared to be one."""
    return line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, unit.rtu).path}?baud=115200&quiet=0.05")


@pytest.mark.parametrize(("function", "asked"), [("05", 1), ("06", 3)])
def test_without_echo_one_harmless_question_comes_before_the_first_write(plain, unit, function, asked):
    """Before the first 05 or 06 what it writes is read once, to learn that the line does not echo; never again."""
    for _ in range(2):
        WRITES[function](plain, patient())
    assert [pdu[0] for pdu in unit.pdus] == [asked, int(function, 16), int(function, 16)]


def test_a_unit_that_refuses_that_question_is_written_to(plain, unit):
    """A refusal tells as much as a value."""
    unit.faults = [exception(1)]
    WRITES["05"](plain, patient())
    assert unit.coils[6] is True


def test_77_a_write_that_may_be_an_echo_is_not_confirmed(plain, unit, golden):
    """If the unit leaves the question unanswered, the write goes out at once, but only a read-back can tell."""
    unit.deaf_to = {1}
    with golden.raises(DeviceTimeout):
        WRITES["05"](plain, patient())
    assert [pdu[0] for pdu in unit.pdus] == [1, 5]
    assert unit.coils[6] is True


def test_77_a_foreign_slave_behind_an_echo_conforms_until_the_cable_is_cut(line, clock):
    """modbus_tk's RTU slave behind an echoing wire passes every check; cut off, it confirms nothing."""
    with foreign_slave("holding", "coils", echo=True) as (wire, slave):
        url = f"modbus_rtu://{wire.paths[1]}?baud=115200&quiet=0.1"
        valve = {"address": 4, "write": {"at": 20, "type": "float32", "order": "CDAB"}, "enable": {"coil": 3}}
        report = check_driver(ModbusRegisterDriver, valve, url, clock, setpoint=31.5)
        assert report.abilities == ("Actuator",)
        wire.cut = True
        with pytest.raises((DeviceTimeout, GarbledReply)):  # two echoes at once, where the echo took its time
            line(url).write_coils(4, 3, [True], soon())
        assert slave.get_values("coils", 3, 1) == (0,)
