"""Looking who is on a line that nobody has described: questions only, none that another instrument could obey.

Whoever is asked in a language it does not speak hears noise, and what is noise to one may be a command to another. So
each protocol has its turn on its own, the most cautious first, and ends the search when it finds somebody:

1. Nothing is sent before somebody has listened (`rigctl.rig.finding`): a line on which binary traffic is heard has a
   master already.
2. `*IDN?` (IEEE 488.2), with each line end: six or seven bytes. A Modbus write takes eight and a checksum, so no unit
   can take them for one; an EZO circuit has no command that begins with `*ID`, and refuses it.
3. `i` and a carriage return, the EZO question for the model. SCPI instruments file it as an unknown header (an entry
   in their error queue), Modbus units drop two bytes without checksum. Never a bare carriage return, which would end
   whatever stands in a circuit's buffer, and never another letter: pumps stop at `X`, pause at `P`, dose at `D,...`.
   Only who has answered as an EZO circuit is asked `Name,?`. On I2C an address is read before anything is sent to it,
   and only addresses that circuits are shipped with: a circuit that was asked nothing answers 255, others hardly.
4. Modbus, on serial lines only where nobody has answered in text: functions 01 to 04 and 2B/0E, which read; never 05,
   06, 0F, 10. Until a unit has answered, no frame has a byte that ends a line of text (CR, LF), begins an escape (ESC),
   or that motion controllers obey at once (`!`, `~`, 18h): a unit whose every question has one is left out. Unit 0, the
   broadcast, is never asked. Some instruments clear a register when it is read; only the first few are.

What cannot be ruled out: opening a serial port raises DTR, which restarts some boards (Arduino); a master that
speaks but every few seconds may not be heard, and a question meets its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply
from rigctl.rig.protocols import AddressedLine, ByteLine, Deadline, Found, Identity, Line, RegisterKind, RegisterLine
from rigctl_drivers.ezo import ATTEMPTS, NO_DATA, UNITS, EzoChannel, EzoI2c, Talk
from rigctl_drivers.registers import ORDERS, WordOrder, decode
from rigctl_drivers.scpi import ScpiChannel

SCPI_S: Final = 0.5
"""Rig seconds for an answer to `*IDN?`."""
EZO_S: Final = 1.2
"""The same for `i`: a circuit that measures continuously ends its reading first."""
LEAST_S: Final = 0.25
"""Wall seconds that every answer gets, however fast rig time runs."""
EZO_LATE_S: Final = 1.0
EZO_ADDRESSES: Final = (0x61, 0x62, 0x63, 0x64, 0x66, 0x67, 0x69, 0x6F)
LONGEST_MODEL: Final = 20
LONGEST_IDENTITY: Final = 200
"""Characters; IEEE 488.2 allows an answer to `*IDN?` no more than 72."""
TERMINATORS: Final = ("\n", "\r\n", "\r")

UNIT_S: Final = 0.35
"""Wall seconds that a unit gets for an answer, besides what the frames take on the wire."""
NOBODY: Final = 247
"""A unit address that hardly anybody has: who answers to it over TCP answers to all."""
OBEYED: Final = frozenset(b"\r\n\x1b\x18!~")
QUESTIONS: Final[Sequence[tuple[RegisterKind, int, int]]] = (
    ("input", 0, 2), ("holding", 0, 2), ("input", 0, 1), ("holding", 0, 1), ("input", 1, 1), ("input", 2, 2),
)  # fmt: skip
"""Any of these shows whether a unit is there: a refusal is an answer, too."""
METER_AT, METER_CODES = 0xFC00, {0x0020: "sdm120", 0x0070: "sdm630"}
FIRST_REGISTERS: Final = 20
FIRST_BITS: Final = 16
LIKELY: Final = (1e-3, 1e6)
"""Readings are mostly of such a size; words in a wrong order hardly ever are."""


def search_scpi(line: Line, _units: Sequence[int], deadline: Deadline) -> Sequence[Found]:
    """Ask `*IDN?`, twice: a logger that streams such a line by itself does not say it the same way again."""
    if not isinstance(line, ByteLine):
        return ()
    for end in TERMINATORS:
        channel = ScpiChannel(line, end, check_errors=False, model=None)
        try:
            told = [channel.ask("*IDN?", _within(line, SCPI_S, deadline)) for _ in range(2)]
        except (DeviceTimeout, GarbledReply):
            continue
        fields = [field.strip() for field in told[0].split(",")]
        if told[0] == told[1] and len(fields) >= 3 and fields[0][:1].isalpha() and len(told[0]) <= LONGEST_IDENTITY:
            maker, model, serial, firmware = (*fields, "")[:4]
            options = {"model": model} | ({} if end == "\n" else {"terminator": end})
            return (Found("scpi", options, Identity(f"{maker} {model}", firmware, serial), name=model),)
    return ()


def search_ezo(line: Line, _units: Sequence[int], deadline: Deadline) -> Sequence[Found]:
    """Ask `i`; who answers as an EZO circuit is asked its name, too. On I2C each circuit is found."""
    if isinstance(line, ByteLine):
        return _circuit(line, {}, deadline)
    if not isinstance(line, AddressedLine):
        return ()
    there = [address for address in EZO_ADDRESSES if _says_nothing(line, address, deadline)]
    return [found for a in there for found in _circuit(EzoI2c(line, a, ""), {"address": a}, deadline)]


def _says_nothing(line: AddressedLine, address: int, deadline: Deadline) -> bool:
    """Read twice, as an answer that nobody has fetched may come first; nothing is sent."""
    with suppress(DeviceTimeout):
        return any(line.transfer(address, b"", 1, deadline) == bytes([NO_DATA]) for _ in range(2))
    return False


def _circuit(line: ByteLine, where: Mapping[str, Any], deadline: Deadline) -> Sequence[Found]:
    fields = _ezo_fields(line, deadline)
    if not fields or not 0 < len(fields[0]) <= LONGEST_MODEL:
        return ()
    model, firmware = (*fields, "")[:2]
    channels: tuple[tuple[dict[str, Any], str], ...] = ()
    name = ""
    try:
        name = EzoChannel(line, model, late_s=EZO_LATE_S).identify(_within(line, 4 * EZO_S, deadline)).serial
    except DeviceError as problem:
        channels = (({}, f"answers to `i`, but then: {problem.what}"),)
    known = {"pmp": "ezo-pmp", "ph": "ezo-ph"}.get(model.casefold())
    options = {} if known else {"model": model} if model.casefold() in UNITS else {"model": model, "unit": "?"}
    options = {**where, **options}
    return (Found(known or "ezo", options, Identity(f"EZO {model}", firmware, name), name or f"ezo-{model}", channels),)


def _ezo_fields(line: ByteLine, deadline: Deadline) -> list[str]:
    talk, silent = Talk(line, EZO_LATE_S), 0
    for _ in range(ATTEMPTS):
        try:
            talk.write("i", deadline)
            until = _within(line, EZO_S, deadline)
            while not (answer := talk.next("i", until)).casefold().startswith("?i,"):
                until.check("i")
            talk.listen(_within(line, EZO_S, deadline))  # answers to what others asked before may still come
            return [field.strip() for field in answer.split(",")[1:]]
        except DeviceFault:  # what another question left in its buffer has spoilt this one
            continue
        except DeviceTimeout:
            silent += 1
            if silent == 2:  # once it may have slept
                break
    return []


def _within(line: Line, rig_s: float, deadline: Deadline) -> Deadline:
    return deadline.within(max(rig_s / line.clock.speedup, LEAST_S))


# Modbus -----------------------------------------------------------------------------------------------------------


def search_modbus(line: Line, units: Sequence[int], deadline: Deadline) -> Sequence[Found]:
    """Ask each unit for a register; who answers is asked who made it, and what its first registers hold."""
    if not isinstance(line, RegisterLine):
        return ()
    rtu = not line.url.startswith("modbus_tcp")
    if not rtu and _there(line, NOBODY, rtu, deadline):
        units = units[:1]  # it does not look at the address
    there = (unit for unit in units if deadline.remaining_s > 0 and _there(line, unit, rtu, deadline))
    return [_meter(line, unit, deadline) or _any_unit(line, unit, deadline) for unit in there]


def spoken(unit: int, question: tuple[RegisterKind, int, int]) -> bytes:
    """Return the frame that asks it over RTU."""
    from rigctl_drivers import modbus_frames as frames  # noqa: PLC0415 - loads pymodbus

    kind, at, count = question
    return frames.Framing(rtu=True).pack(frames.reading(unit, kind, at, count))


def harmless(unit: int) -> tuple[RegisterKind, int, int] | None:
    """Return a question whose frame has no byte that others would obey; None: this unit has none."""
    return next((q for q in QUESTIONS if not OBEYED & set(spoken(unit, q))), None)


def _there(line: RegisterLine, unit: int, rtu: bool, deadline: Deadline) -> bool:
    question = harmless(unit) if rtu else QUESTIONS[0]
    if question is None:
        return False
    try:
        line.read_registers(unit, *question, _soon(line, deadline))
    except (DeviceBusy, DeviceFault):
        return True
    except (DeviceTimeout, GarbledReply):  # nobody, or another baud rate
        return False
    return True


def _soon(line: RegisterLine, deadline: Deadline) -> Deadline:
    return deadline.within(UNIT_S + line.exchange_s(8, 16))


def _meter(line: RegisterLine, unit: int, deadline: Deadline) -> Found | None:
    """Recognise an Eastron meter by its code."""
    try:
        high, low, code = line.read_registers(unit, "holding", METER_AT, 3, _soon(line, deadline))
    except DeviceError:
        return None
    driver = METER_CODES.get(code)
    if driver is None:
        return None
    return Found(driver, {"address": unit}, Identity(driver.upper(), "", str(high << 16 | low)), "meter")


def _any_unit(line: RegisterLine, unit: int, deadline: Deadline) -> Found:
    vendor = ""
    with suppress(DeviceError):
        vendor = line.vendor(unit, _soon(line, deadline))
    channels = (*_numbers(line, unit, deadline), *_coils(line, unit, deadline))
    return Found("modbus", {"address": unit}, Identity(vendor or f"Modbus unit {unit}"), "plc", channels)


def _numbers(line: RegisterLine, unit: int, deadline: Deadline) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what the first registers seem to hold, as options of a device; the guess must be checked by a person."""
    tables: tuple[Literal["input", "holding"], ...] = ("input", "holding")
    for table in tables:
        at = 0
        while at < FIRST_REGISTERS and deadline.remaining_s > 0:
            words = _words(line, unit, table, at, deadline)
            if not words:
                break
            order = _order(words) if len(words) == 2 else None
            if order is not None:
                number = {"at": at, "type": "float32", "order": order}
                said = f"{decode(words, 'float32', order):.5g} now, if {order} is its order"
            else:
                words = words[:1]
                number = {"at": at, "type": "int16"}
                said = f"{words[0]} now"
            if any(words):
                yield {"read": {"register": table, **number}}, said
            at += len(words)


def _words(
    line: RegisterLine, unit: int, table: Literal["input", "holding"], at: int, deadline: Deadline
) -> Sequence[int]:
    """Return two registers, or one where there is no second; none where there is none."""
    for count in (2, 1):
        try:
            return line.read_registers(unit, table, at, count, _soon(line, deadline))
        except DeviceFault:
            continue
        except DeviceError:
            return ()
    return ()


def _order(words: Sequence[int]) -> WordOrder | None:
    least, most = LIKELY
    values = {order: decode(words, "float32", order) for order in ORDERS}
    return next((o for o, v in values.items() if math.isfinite(v) and least <= abs(v) <= most), None)


def _coils(line: RegisterLine, unit: int, deadline: Deadline) -> Iterator[tuple[dict[str, Any], str]]:
    for at in range(FIRST_BITS):
        try:
            (on,) = line.read_bits(unit, "coil", at, 1, _soon(line, deadline))
        except DeviceError:
            return
        yield {"enable": {"coil": at}}, f"{'on' if on else 'off'} now; as a switch"
