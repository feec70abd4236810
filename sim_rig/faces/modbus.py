"""Modbus: what a slave answers (functions 01 to 06, 0F, 10, 2B/0E), and its two framings, TCP and RTU.

Written out here rather than taken from the library the controller uses: two ends that share code share its mistakes.
Source: MODBUS Application Protocol 1.1b3; MODBUS over Serial Line 1.02 (CRC-16, appendix B); Messaging on TCP/IP 1.0b.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from sim_rig.errors import Refusal
from sim_rig.faces.registers import ILLEGAL_ADDRESS, ILLEGAL_FUNCTION, ILLEGAL_VALUE, NO_SUCH_UNIT, Bank
from sim_rig.faults import MODBUS_FAULTS, WireFaults

Send = Callable[[bytes], None]

BROADCAST = 0
MBAP_BYTES = 7
RTU_SILENCE_S = 0.05
"""Wall seconds of silence after which an unfinished RTU request is forgotten; generous, as a pty has no baud rate."""
_WRITES = frozenset({5, 6, 15, 16})
_IDENTIFY = bytes([0x2B, 0x0E])
_OBJECTS = (b"sim_rig (simulated)", b"sim_rig", b"1.0")
"""Vendor name, product code, revision: what every unit here says of itself."""


@dataclass(slots=True)
class Station:
    """Holds the Modbus units on one wire, and a log of what was written to them."""

    units: dict[int, Bank]
    faults: WireFaults = field(default_factory=WireFaults)
    now_s: Callable[[], float] = field(default=lambda: 0.0)
    requests: int = 0
    writes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=4000))

    def handle(self, unit: int, pdu: bytes) -> tuple[int, bytes] | None:
        """Answer one request: the unit the answer claims to come from, and it; None if nobody there has that number."""
        if unit not in self.units and unit != BROADCAST:
            return None
        self.requests += 1
        self.faults.asked(pdu)
        fault = self.faults.take(MODBUS_FAULTS, unit)
        if fault is not None and fault.kind == "exception":
            return unit, bytes([pdu[0] | 0x80, fault.code])
        targets = list(self.units.values()) if unit == BROADCAST else [self.units[unit]]
        answers = [answer(bank, pdu) for bank in targets]
        if pdu[0] in _WRITES and not answers[0][0] & 0x80:
            self._log(unit, pdu)
        return (unit + 1 if fault is not None else unit), answers[0]

    def _log(self, unit: int, pdu: bytes) -> None:
        at = int.from_bytes(pdu[1:3], "big")
        self.writes.append({"time_s": self.now_s(), "unit": unit, "function": pdu[0], "at": at, "pdu": pdu.hex()})


def answer(bank: Bank, pdu: bytes) -> bytes:
    """Return the response PDU to a request PDU; a refusal becomes an exception response."""
    try:
        return _respond(bank, pdu)
    except Refusal as refusal:
        return bytes([pdu[0] | 0x80, refusal.code])


def _respond(bank: Bank, pdu: bytes) -> bytes:
    function = pdu[0]
    if function in (1, 2, 3, 4) and len(pdu) == 5:
        return _read(bank, function, *struct.unpack(">HH", pdu[1:5]))
    if function in (5, 6) and len(pdu) == 5:
        at, value = struct.unpack(">HH", pdu[1:5])
        if function == 6:
            bank.write_registers(at, [value])
        elif value in (0x0000, 0xFF00):
            bank.write_coils(at, [value == 0xFF00])
        else:
            raise Refusal(ILLEGAL_VALUE, f"coil value {value:#06x}")
        return pdu
    if function in (15, 16) and len(pdu) >= 6:
        return _write_many(bank, function, pdu)
    if pdu[:2] == _IDENTIFY and len(pdu) == 4:
        return _identification(pdu[2], pdu[3])
    raise Refusal(ILLEGAL_FUNCTION, f"function {function}, {len(pdu)} bytes")


def _read(bank: Bank, function: int, at: int, count: int) -> bytes:
    if at + count > 0x10000:
        raise Refusal(ILLEGAL_ADDRESS, f"{count} from {at} on")
    if function in (3, 4):
        table: Literal["input", "holding"] = "holding" if function == 3 else "input"
        body = b"".join(word.to_bytes(2, "big") for word in bank.read_registers(table, at, count))
    else:
        bits = bank.read_bits("coil" if function == 1 else "discrete", at, count)
        packed = sum(bit << i for i, bit in enumerate(bits))
        body = packed.to_bytes((len(bits) + 7) // 8, "little")
    return bytes([function, len(body)]) + body


def _write_many(bank: Bank, function: int, pdu: bytes) -> bytes:
    at, count, size = struct.unpack(">HHB", pdu[1:6])
    body = pdu[6:]
    expected = 2 * count if function == 16 else (count + 7) // 8
    if not 1 <= count <= (123 if function == 16 else 1968) or size != expected or len(body) != size:
        raise Refusal(ILLEGAL_VALUE, f"{count} items in {len(body)} bytes")
    if function == 16:
        bank.write_registers(at, [int.from_bytes(body[i : i + 2], "big") for i in range(0, size, 2)])
    else:
        packed = int.from_bytes(body, "little")
        bank.write_coils(at, [bool(packed >> i & 1) for i in range(count)])
    return pdu[:5]


def _identification(kind: int, first: int) -> bytes:
    """Tell the basic identification (application protocol, section 6.21) from object `first` on, or one object."""
    if kind not in (1, 4):
        raise Refusal(ILLEGAL_VALUE, f"identification of kind {kind}")
    if kind == 4 and first >= len(_OBJECTS):
        raise Refusal(ILLEGAL_ADDRESS, f"no identification object {first}")
    at = first if first < len(_OBJECTS) else 0
    told = range(at, at + 1 if kind == 4 else len(_OBJECTS))
    body = b"".join(bytes([i, len(_OBJECTS[i])]) + _OBJECTS[i] for i in told)
    conformity = 0x81  # basic, as a stream or one at a time
    return _IDENTIFY + bytes([kind, conformity, 0x00, 0x00, len(told)]) + body


# TCP --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TcpFraming:
    """Frames one connection by MBAP: transaction, protocol 0, length, unit."""

    station: Station
    send: Send
    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) > MBAP_BYTES:
            transaction, protocol, length, unit = struct.unpack(">HHHB", self._buffer[:MBAP_BYTES])
            if protocol != 0 or not 2 <= length <= 254:
                self._buffer.clear()  # not Modbus: nothing after it can be trusted either
                return
            if len(self._buffer) < 6 + length:
                return
            pdu = bytes(self._buffer[MBAP_BYTES : 6 + length])
            del self._buffer[: 6 + length]
            found = self.station.handle(unit, pdu)
            sender, reply = found if found is not None else (unit, bytes([pdu[0] | 0x80, NO_SUCH_UNIT]))
            self.send(struct.pack(">HHHB", transaction, 0, len(reply) + 1, sender) + reply)


# RTU --------------------------------------------------------------------------------------------------------------


def crc16(data: bytes) -> bytes:
    """Return CRC-16/MODBUS, low byte first as it goes over the wire."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc.to_bytes(2, "little")


def _request_bytes(frame: bytes | bytearray) -> int | None:
    """Return the length of the RTU request that starts here; None while it cannot be known, 0 if it cannot be one."""
    if len(frame) < 2:
        return None
    if frame[1] in (1, 2, 3, 4, 5, 6):
        return 8
    if frame[1] in (15, 16):
        return None if len(frame) < 7 else 9 + frame[6]
    if frame[1] == _IDENTIFY[0]:
        return 7
    return 0


@dataclass(slots=True)
class RtuFraming:
    """Frames requests on a serial wire. They end by their length; a bad CRC is answered with silence."""

    station: Station
    wall_s: Callable[[], float]
    """Wall seconds, to notice silence on the wire."""
    send: Send = field(default=lambda _: None)
    _buffer: bytearray = field(default_factory=bytearray)
    _last_s: float = 0.0

    def feed(self, data: bytes) -> None:
        now_s = self.wall_s()
        if now_s - self._last_s > RTU_SILENCE_S:
            self._buffer.clear()
        self._last_s = now_s
        self._buffer += data
        while (length := _request_bytes(self._buffer)) is not None:
            if length == 0:
                self._unknown()
                return
            if len(self._buffer) < length:
                return
            frame = bytes(self._buffer[:length])
            if crc16(frame[:-2]) != frame[-2:]:
                self._buffer.clear()  # a slave cannot tell where the next frame starts: it waits for silence
                return
            del self._buffer[:length]
            self._reply(frame)

    def _unknown(self) -> None:
        # a function this slave does not know: if the bytes so far are a whole frame, it says so
        frame = bytes(self._buffer)
        if len(frame) >= 4 and crc16(frame[:-2]) == frame[-2:]:
            self._buffer.clear()
            self._reply(frame)
        elif len(frame) > 256:
            self._buffer.clear()

    def _reply(self, frame: bytes) -> None:
        found = self.station.handle(frame[0], frame[1:-2])
        if found is not None and frame[0] != BROADCAST:
            body = bytes([found[0]]) + found[1]
            self.send(body + crc16(body))
