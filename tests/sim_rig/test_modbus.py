import pytest

from sim_rig.faces.modbus import RtuFraming, Station, TcpFraming, crc16
from sim_rig.faces.registers import Bank
from sim_rig.faults import WireFault


class Plc:
    """A little PLC on both framings."""

    def __init__(self):
        self.coils = [False] * 12
        self.setpoint = 0.0
        self.bank = Bank()
        self.bank.number("holding", 0, lambda: self.setpoint, self.set, kind="uint16")
        self.bank.number("input", 0, lambda: 1.5)
        for i in range(12):
            self.bank.bit("coil", i, lambda i=i: self.coils[i], lambda v, i=i: self.coils.__setitem__(i, v))
        self.station = Station({7: self.bank})
        self.sent = b""
        self.wall_s = 0.0
        self.rtu = RtuFraming(self.station, lambda: self.wall_s, self.send)
        self.tcp = TcpFraming(self.station, self.send)

    def set(self, value):
        self.setpoint = value

    def send(self, data):
        self.sent += data

    def taken(self):
        taken, self.sent = self.sent, b""
        return taken

    def ask_rtu(self, frame_hex):
        body = bytes.fromhex(frame_hex)
        self.rtu.feed(body + crc16(body))
        return self.taken().hex(" ")


@pytest.fixture
def plc():
    return Plc()


@pytest.mark.parametrize(
    ("request_hex", "reply_hex"),
    [
        ("07 06 0000 002a", "07 06 00 00 00 2a"),
        ("07 05 0003 ff00", "07 05 00 03 ff 00"),
        ("07 04 0000 0002", "07 04 04 3f c0 00 00"),
        ("07 10 0000 0001 02 0102", "07 10 00 00 00 01"),
        ("07 0f 0000 000a 02 cd01", "07 0f 00 00 00 0a"),
        ("07 04 0005 0001", "07 84 02"),
        ("07 04 0000 0000", "07 84 03"),
        ("07 05 0003 1234", "07 85 03"),
        ("07 10 0000 0001 04 01020304", "07 90 03"),
        ("07 2b 0d0100", "07 ab 01"),
        ("07 2b 0e0200", "07 ab 03"),
        ("07 2b 0e0409", "07 ab 02"),
        ("07 2b 0e0400", "07 2b 0e 04 81 00 00 01 00 13 73 69 6d 5f 72 69 67 20 28 73 69 6d"),
        ("07 18 0000", "07 98 01"),
    ],
)
def test_functions_and_exceptions(plc, request_hex, reply_hex):
    """Each function is answered as the application protocol says, and what is wrong with its exception code."""
    assert plc.ask_rtu(request_hex)[: len(reply_hex)] == reply_hex


def test_coils_are_packed_from_the_lowest_bit(plc):
    """The specification's example: 10 coils from CD 01 hex, read back."""
    plc.ask_rtu("07 0f 0000 000a 02 cd01")
    assert plc.coils[:10] == [True, False, True, True, False, False, True, True, True, False]
    assert plc.ask_rtu("07 01 0000 000a").startswith("07 01 02 cd 01")


def test_a_request_may_come_byte_by_byte(plc):
    """Framing does not depend on how bytes are grouped, RTU or TCP."""
    body = bytes.fromhex("07 04 0000 0002")
    for byte in body + crc16(body):
        plc.rtu.feed(bytes([byte]))
    assert plc.taken().startswith(bytes.fromhex("07 04 04 3fc00000"))
    for byte in bytes.fromhex("0009 0000 0006 07 04 0000 0002"):
        plc.tcp.feed(bytes([byte]))
    assert plc.taken() == bytes.fromhex("0009 0000 0007 07 04 04 3fc00000")


def test_a_bad_crc_is_answered_with_silence(plc):
    """Nothing is done and nothing is said; after a silence the next request is understood."""
    plc.rtu.feed(bytes.fromhex("07 06 0000 002a 0000"))
    assert (plc.taken(), plc.setpoint) == (b"", 0.0)
    plc.rtu.feed(bytes.fromhex("07 06 00"))
    plc.wall_s += 1.0
    assert plc.ask_rtu("07 06 0000 002a").startswith("07 06 00 00 00 2a")


def test_other_units_stay_silent_on_rtu_and_are_refused_on_tcp(plc):
    """On a serial line only the addressed unit speaks; a TCP gateway says that there is no such unit."""
    assert plc.ask_rtu("08 04 0000 0002") == ""
    plc.tcp.feed(bytes.fromhex("0001 0000 0006 08 04 0000 0002"))
    assert plc.taken() == bytes.fromhex("0001 0000 0003 08 84 0b")


def test_a_broadcast_is_done_by_all_and_answered_by_none(plc):
    """Unit 0 writes everywhere, silently."""
    assert plc.ask_rtu("00 06 0000 0011") == ""
    assert plc.setpoint == 0x11


def test_injected_exceptions_and_wrong_units(plc):
    """A fault answers in place of the device, for as many requests as it was asked for; a write is not carried out."""
    plc.station.faults.add(WireFault("exception", count=1, code=6))
    plc.station.faults.add(WireFault("wrong_unit", count=1))
    assert plc.ask_rtu("07 06 0000 002a").startswith("07 86 06")
    assert plc.setpoint == 0.0
    assert plc.ask_rtu("07 06 0000 002a").startswith("08 06 00 00 00 2a")
    assert plc.ask_rtu("07 06 0000 002a").startswith("07 06 00 00 00 2a")


def test_writes_are_on_record(plc):
    """The station remembers every write it carried out, and none it refused."""
    plc.ask_rtu("07 06 0000 002a")
    plc.ask_rtu("07 06 0009 002a")
    plc.ask_rtu("07 04 0000 0002")
    assert [(w["function"], w["at"]) for w in plc.station.writes] == [(6, 0)]
    assert plc.station.requests == 3


def test_what_is_not_modbus_is_dropped(plc):
    """A connection that talks something else gets no answer, and the next proper request does."""
    plc.tcp.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert plc.taken() == b""
    plc.tcp.feed(bytes.fromhex("0001 0000 0006 07 04 0000 0002"))
    assert plc.taken() != b""
