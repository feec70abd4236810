"""Modbus requests and answers as frames, by pymodbus, which only this module knows.

pymodbus encodes, frames, checks and matches; when to send, how long to wait and what to repeat is decided elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pymodbus import ModbusException
from pymodbus.framer import FramerBase, FramerRTU, FramerSocket
from pymodbus.pdu import DecodePDU, ModbusPDU
from pymodbus.pdu.bit_message import (
    ReadCoilsRequest,
    ReadDiscreteInputsRequest,
    WriteMultipleCoilsRequest,
    WriteSingleCoilRequest,
)
from pymodbus.pdu.mei_message import ReadDeviceInformationRequest
from pymodbus.pdu.register_message import (
    ReadHoldingRegistersRequest,
    ReadInputRegistersRequest,
    WriteMultipleRegistersRequest,
    WriteSingleRegisterRequest,
)

from rigctl.errors import GarbledReply
from rigctl.printable import one_line
from rigctl.rig.protocols import BitKind, RegisterKind

Answer = ModbusPDU
_VENDOR: Final = 0x00
_BASIC: Final = 0x01
_READS: Final = MappingProxyType(
    {
        "coil": ReadCoilsRequest,
        "discrete": ReadDiscreteInputsRequest,
        "holding": ReadHoldingRegistersRequest,
        "input": ReadInputRegistersRequest,
    }
)


@dataclass(frozen=True, slots=True)
class ModbusRequest:
    """What is asked of whom."""

    pdu: ModbusPDU
    register: str
    answer_bytes: int = 8
    """Length of a sound answer, RTU."""

    @property
    def unit(self) -> int:
        return self.pdu.dev_id

    @property
    def function(self) -> int:
        return self.pdu.function_code

    @property
    def writes(self) -> bool:
        return self.function in (0x05, 0x06, 0x0F, 0x10)

    @property
    def is_its_own_answer(self) -> bool:
        """Tell whether the answer to it is the request once more, to the last bit."""
        return self.function in (0x05, 0x06)

    def question(self) -> ModbusRequest:
        """Make the read of what this writes, one coil or register."""
        if self.function in (0x05, 0x0F):
            return reading(self.unit, "coil", self.pdu.address, 1)
        return reading(self.unit, "holding", self.pdu.address, 1)

    def __str__(self) -> str:
        return f"unit {self.unit}, function {self.function:02X}, {self.register}"


def reading(unit: int, kind: RegisterKind | BitKind, address: int, count: int) -> ModbusRequest:
    """Ask with functions 01 to 04."""
    pdu = _READS[kind](address=address, count=count, dev_id=unit)
    if kind in ("coil", "discrete"):
        return ModbusRequest(pdu, f"{kind} {address}", 5 + (count + 7) // 8)
    return ModbusRequest(pdu, f"{kind} register {address}", 5 + 2 * count)


def writing_registers(unit: int, address: int, words: Sequence[int], *, multiple: bool) -> ModbusRequest:
    """Write with function 06 for one register unless `multiple`, else 10."""
    asked = WriteMultipleRegistersRequest if multiple or len(words) > 1 else WriteSingleRegisterRequest
    pdu = asked(address=address, registers=list(words), dev_id=unit)
    return ModbusRequest(pdu, _span("holding register", address, len(words)))


def writing_coils(unit: int, address: int, values: Sequence[bool], *, multiple: bool) -> ModbusRequest:
    """Write with function 05 for one coil unless `multiple`, else 0F."""
    asked = WriteMultipleCoilsRequest if multiple or len(values) > 1 else WriteSingleCoilRequest
    pdu = asked(address=address, bits=list(values), dev_id=unit)
    return ModbusRequest(pdu, _span("coil", address, len(values)))


def asking_vendor(unit: int) -> ModbusRequest:
    """Ask for the basic identification, from the vendor's name on (function 2B, interface 0E)."""
    pdu = ReadDeviceInformationRequest(read_code=_BASIC, object_id=_VENDOR, dev_id=unit)
    return ModbusRequest(pdu, "device identification", 64)


def vendor_of(answer: Answer) -> str:
    name = getattr(answer, "information", {}).get(_VENDOR, b"")
    return one_line(name.decode("ascii", "replace")) if isinstance(name, bytes) else ""


class Framing:
    """Packs requests and unpacks answers, RTU or MBAP (TCP)."""

    def __init__(self, *, rtu: bool) -> None:
        self.rtu = rtu
        decoder = DecodePDU(False)
        self._framer: FramerBase = FramerRTU(decoder) if rtu else FramerSocket(decoder)
        self._number = 0
        self._rest = b""
        self._asked: ModbusPDU | None = None
        logger = logging.getLogger("pymodbus")
        if not logger.handlers:  # else its remarks on bad frames land on the terminal; we raise errors instead
            logger.addHandler(logging.NullHandler())

    def pack(self, request: ModbusRequest) -> bytes:
        """Return the bytes that ask it; answers to what was asked before are no answers any more."""
        self._number = self._number % 0xFFFF + 1
        self._rest = b""
        self._asked = request.pdu
        request.pdu.transaction_id = self._number
        return self._framer.buildFrame(request.pdu)

    def unpack(self, data: bytes) -> Answer | None:
        """Take some more bytes of an answer; return it once it is whole. Raises `GarbledReply` if it makes no sense."""
        asked = self._asked
        if asked is None:
            return None
        self._rest += data
        try:
            used, answer = self._framer.handleFrame(self._rest, asked.dev_id, asked.transaction_id)
        except ModbusException as problem:
            raise GarbledReply(str(problem)) from problem
        self._rest = self._rest[used:]
        return answer

    def sender(self, received: bytes) -> int | None:
        at = 0 if self.rtu else 6
        return received[at] if len(received) > at else None


def _span(what: str, address: int, count: int) -> str:
    return f"{what} {address}" if count == 1 else f"{what}s {address} to {address + count - 1}"
