"""Looking who is there, at lines whose other ends nobody of ours wrote: who is found, and what was sent."""

import threading
from contextlib import contextmanager

import pytest

from rigctl.rig.finding import search, urls_of
from rigctl.rig.registry import Registry
from rigctl.rig.testing import ManualClock
from rigctl_drivers import i2c_line, searching
from rigctl_drivers import modbus_frames as frames
from rigctl_drivers.searching import OBEYED, QUESTIONS, harmless, spoken
from tests.drivers.circuits import Pump, Sleeper
from tests.drivers.i2c_parts import Adc, Bus, Circuit, sensor
from tests.drivers.peers import ModbusUnit, PtyPeer, TcpPeer, crc16, cut_lines, cut_mbap, cut_rtu, foreign_slave

UNITS = tuple(range(1, 5))
READS = {1, 2, 3, 4, 0x2B}
TEXT = (b"*IDN?\n", b"*IDN?\r\n", b"*IDN?\r", b"i\r", b"Name,?\r")
"""All that may ever be sent in text."""


@contextmanager
def chattering(peer, said):
    """It says this over and over."""
    over = threading.Event()

    def chatter():
        while not over.wait(0.05):
            peer.say(said)

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def seen(clock):
    """Looks at a place as `rigctl init --probe` does."""
    return lambda place, units=UNITS: search(str(place), urls_of(str(place)), units, Registry.installed(), clock)


def ezo(circuit):
    """An EZO circuit's end of a line: CR ends commands, and whatever came before it is part of them."""
    rest = bytearray()

    def answer(data):
        rest.extend(data)
        while b"\r" in rest:
            command, _, after = bytes(rest).partition(b"\r")
            rest[:] = after
            for line in circuit(command.decode("latin-1")):
                yield (line if isinstance(line, bytes) else line.encode()) + b"\r"

    return answer


def probe(command):
    known = {"i": ["?I,pH,2.14", "*OK"], "Name,?": ["?NAME,north", "*OK"], "name,?": ["?NAME,north", "*OK"]}
    return known.get(command, ["*ER"])


def test_an_ezo_circuit_is_found_by_questions_alone(seen, peer):
    """Model, firmware and name; nothing that it could obey reached it."""
    circuit = peer(PtyPeer, len, ezo(probe))
    found = seen(circuit.path)
    (one,) = found.found
    assert (one.driver, one.identity.firmware, one.identity.serial, one.name) == ("ezo-ph", "2.14", "north", "north")
    assert found.url.endswith("?baud=9600")
    sent = b"".join(circuit.requests)
    for text in TEXT:
        sent = sent.replace(text, b"")
    assert sent == b""


def test_a_pump_is_found_and_does_not_move(seen, peer):
    """It is asked who it is, and nothing else: no dose, no stop, no pause."""
    pump, heard = Pump(), []

    def circuit(command):
        heard.append(command)
        return pump(command)

    (one,) = seen(peer(PtyPeer, len, ezo(circuit)).path).found
    assert one.driver == "ezo-pmp"
    assert {command.lstrip("\n") for command in heard} <= {"i", "Name,?", "*IDN?", "*IDN?\n*IDN?"}
    assert (pump.total_ml, pump.running) == (0.0, False)


def test_a_circuit_that_sleeps_is_woken_and_found(seen, peer):
    """What wakes it is lost, so it is asked again."""
    (one,) = seen(peer(PtyPeer, len, ezo(Sleeper(probe))).path).found
    assert one.driver == "ezo-ph"


def test_a_circuit_whose_codes_are_off_is_found_and_said_to_be_mute(seen, peer):
    """Without `*OK` the driver cannot work with it, which is said beside it."""
    mute = peer(PtyPeer, len, ezo(lambda command: [x for x in probe(command) if x != "*OK"]))
    (one,) = seen(mute.path).found
    assert one.driver == "ezo-ph"
    assert "then" in one.channels[0][1]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_scpi_instrument_is_found_with_its_line_end(seen, peer, end):
    """Maker, model, serial; asked nothing but who it is."""
    known = {b"*IDN?" + end: b"ACME,PS-3,4711,1.2" + end}
    supply = peer(PtyPeer, cut_lines(b"\n"), lambda request: [known.get(request, b"")])
    (one,) = seen(supply.path).found
    assert (one.driver, one.options["model"], one.identity.serial) == ("scpi", "PS-3", "4711")
    assert one.options.get("terminator", "\n") == end.decode()
    assert set(supply.requests) <= {b"*IDN?\n", b"*IDN?\r\n"}


def test_a_logger_that_streams_lines_is_nobody(seen, peer):
    """Four fields with commas are no identity if they are numbers, or another line every time; no Modbus follows."""
    count = iter(range(1000))
    logger = peer(PtyPeer, len, lambda _: [f"T{next(count)},12.1,0.4,7\n".encode()])
    with chattering(logger, b"12.1,0.4,7,8\n"):
        found = seen(logger.path)
    assert found.found == ()
    assert "12.1,0.4,7,8" in found.remark
    assert set(b"".join(logger.requests)) == set(b"*IDN?i\r\n")


def test_where_somebody_speaks_binary_nothing_is_sent(seen, peer):
    """A line that has a master already is left alone."""
    master = peer(PtyPeer, len, lambda _: [])
    with chattering(master, bytes.fromhex("010300000002c40b010304000200")):
        found = seen(master.path)
    assert found.found == ()
    assert "nothing" in found.remark
    assert master.requests == []


def test_an_rtu_unit_is_found_by_reads_alone(seen, peer):
    """After text has had no answer; a float among its registers is offered with its order."""
    unit = ModbusUnit(3, words={(4, 0): 0x42F6, (4, 1): 0xE979})
    tail = []

    def cut(buffer):
        skipped = next((len(text) for text in TEXT if buffer.startswith(text)), 0)
        return skipped or cut_rtu(buffer)

    def answer(request):
        tail.append(request)
        return [] if request in TEXT else unit.rtu(request)

    found = seen(peer(PtyPeer, cut, answer).path)
    (one,) = found.found
    assert (one.driver, one.options) == ("modbus", {"address": 3})
    assert found.url.startswith("modbus_rtu://")
    assert {pdu[0] for pdu in unit.pdus} <= READS
    assert all(request in TEXT or request[1] in READS for request in tail)
    options, said = one.channels[0]
    assert options == {"read": {"register": "input", "at": 0, "type": "float32", "order": "ABCD"}}
    assert said.startswith("123.46 now")


@pytest.mark.parametrize(("code", "driver"), [(0x0020, "sdm120"), (0x0070, "sdm630")])
def test_an_energy_meter_is_told_by_its_code(seen, peer, code, driver):
    """Serial number and code stand in its holding registers."""
    unit = ModbusUnit(2, words={(3, 0xFC00): 321, (3, 0xFC01): 7, (3, 0xFC02): code})
    place = f"127.0.0.1:{peer(TcpPeer, cut_mbap, unit.tcp).port}"
    unit_2_only = seen(f"modbus_tcp://{place}", (2,)).found
    assert [(one.driver, one.identity.serial) for one in unit_2_only] == [(driver, str(321 << 16 | 7))]
    assert {pdu[0] for pdu in unit.pdus} <= READS


def test_a_foreign_rtu_server_is_found_at_its_address(seen, monkeypatch):
    """modbus_tk's slave number 4, the only one of its line."""
    monkeypatch.setattr(searching, "UNIT_S", 1.0)  # its thread may be kept waiting
    with foreign_slave("holding", baud=9600) as (wire, slave):
        slave.set_values("holding", 0, [0x42F6, 0xE979, 17])
        found = seen(f"modbus_rtu://{wire.paths[1]}?baud=9600")
        assert slave.get_values("holding", 0, 10) == (0x42F6, 0xE979, 17, *[0] * 7)
    assert [one.options for one in found.found] == [{"address": 4}]
    assert [options["read"]["at"] for options, _ in found.found[0].channels] == [0, 2]


def test_a_foreign_server_that_answers_to_all_is_one_unit(seen):
    """PyModbusTCP does not look at the address; it is found once, and written to never."""
    from pyModbusTCP.server import DataBank, ModbusServer

    written = []

    class Witness(DataBank):
        def set_coils(self, *more, **named):
            written.append(more)
            return super().set_coils(*more, **named)

        def set_holding_registers(self, *more, **named):
            written.append(more)
            return super().set_holding_registers(*more, **named)

    server = ModbusServer("127.0.0.1", 0, no_block=True, data_bank=Witness())
    server.start()
    try:
        found = seen(f"127.0.0.1:{server._service.server_address[1]}")
    finally:
        server.stop()
    assert [one.options for one in found.found] == [{"address": 1}]
    assert written == []


def test_no_first_frame_has_a_byte_that_others_obey():
    """Whatever unit is asked, its frame reads, and ends no line; units of which none does are not asked at all."""
    asked = {unit: question for unit in range(1, 248) if (question := harmless(unit)) is not None}
    for unit, question in asked.items():
        frame = spoken(unit, question)
        assert not OBEYED & set(frame)
        assert frame[0] == unit
        assert frame[1] in READS
        assert crc16(frame[:-2]) == frame[-2:]
    assert set(range(1, 248)) - set(asked) == OBEYED
    assert {ord("\r"), ord("\n"), ord("~"), ord("!")} <= OBEYED


def test_no_tcp_frame_is_one_to_a_serial_bus():
    """Behind a device server a question in TCP framing must be noise to every RTU unit: it has no sound checksum."""
    framing = frames.Framing(rtu=False)
    sent = [framing.pack(frames.reading(unit, *QUESTIONS[0])) for _ in range(4) for unit in range(1, 248)]
    assert [frame.hex() for frame in sent if crc16(frame[:-2]) == frame[-2:]] == []


def test_no_question_in_text_is_long_enough_for_a_modbus_write():
    """A write takes eight bytes at least, checksum included."""
    assert max(len(text) for text in TEXT if text != b"Name,?\r") < 8


@pytest.mark.parametrize(
    ("place", "urls"),
    [
        ("10.0.0.7", ["modbus_tcp://10.0.0.7:502", "tcp://10.0.0.7:5025"]),
        ("plc.local:502", ["modbus_tcp://plc.local:502"]),
        ("10.0.0.7:5025", ["tcp://10.0.0.7:5025"]),
        ("10.0.0.7:4001", [f"{scheme}://10.0.0.7:4001" for scheme in ("modbus_tcp", "tcp", "rtu_tcp")]),
        ("tcp://10.0.0.7:99", ["tcp://10.0.0.7:99"]),
    ],
)
def test_a_place_is_looked_at_in_a_stated_order(place, urls):
    """Known ports in their protocol, others in all; a URL as it stands."""
    assert list(urls_of(place)) == urls


def test_a_serial_port_is_asked_in_text_first_and_then_at_the_usual_settings():
    """Text before Modbus, 9600 8N1 before the others."""
    assert urls_of("/dev/ttyNONE") == (
        "serial:///dev/ttyNONE?baud=9600",
        "serial:///dev/ttyNONE?baud=115200",
        "modbus_rtu:///dev/ttyNONE?baud=9600",
        "modbus_rtu:///dev/ttyNONE?baud=19200&parity=E",
        "modbus_rtu:///dev/ttyNONE?baud=2400",
        "modbus_rtu:///dev/ttyNONE?baud=19200",
    )


def test_what_is_no_place_is_refused(golden):
    """It says what a place can be."""
    with golden.raises(ValueError):
        urls_of("10.0.0.7:http")


def test_a_port_that_is_not_there_is_told_once(seen, golden):
    """Not once per setting."""
    remark = seen("/dev/ttyNONE").remark
    golden(remark)
    assert remark.count("plugged") == 1


def test_every_circuit_on_i2c_is_found_and_others_are_sent_nothing(monkeypatch):
    """A converter at an address of circuits answers a read in its own way, and is left alone."""
    clock = ManualClock()
    converter = Adc(clock, in0=1.0)
    converter.take = None
    bus = Bus(
        at_61=converter, at_63=Circuit(sensor("pH", "7.02"), clock), at_64=Circuit(sensor("EC", "1413"), clock),
        at_67=Circuit(Pump(), clock), at_50=Circuit(sensor("pH", "7.02"), clock),
    )  # fmt: skip
    monkeypatch.setattr(i2c_line, "KernelAdapter", bus)
    sighting = search("/dev/i2c-1", urls_of("/dev/i2c-1"), UNITS, Registry.installed(), clock)
    assert sighting.url == "i2c:///dev/i2c-1"
    assert [(found.driver, found.options) for found in sighting.found] == [
        ("ezo-ph", {"address": 0x63}), ("ezo", {"address": 0x64, "model": "EC"}), ("ezo-pmp", {"address": 0x67}),
    ]  # fmt: skip
    assert [found.name for found in sighting.found] == ["north", "north", "ezo-PMP"]
    assert {command for address in (0x63, 0x64, 0x67) for command in bus.parties[address].heard} <= {"i", "Name,?"}
    assert bus.parties[0x50].heard == []


def test_an_i2c_bus_without_circuits_has_nobody(monkeypatch):
    """Nothing is sent at all."""
    monkeypatch.setattr(i2c_line, "KernelAdapter", Bus())
    assert search("i2c-1", urls_of("/dev/i2c-1"), UNITS, Registry.installed(), ManualClock()).found == ()
