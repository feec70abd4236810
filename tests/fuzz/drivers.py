"""What instruments answer, changed, through the real lines and drivers; only the port is made up, and time is virtual.

The wire takes a request, has the instrument of the tests answer it, and hands over the answer changed. A read takes a
millisecond of virtual time, or all that is left of it if nothing comes; so a loop that does not look at its deadline is
found by the number of its reads, not by a clock on the wall.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import Any

from rigctl.errors import DeviceError
from rigctl.printable import LONGEST, printable
from rigctl.rig import protocols
from rigctl.rig.protocols import ActuatorState, Deadline, DoseStatus, Identity, Reading
from rigctl.rig.testing import ManualClock
from rigctl_drivers import modbus_line
from rigctl_drivers.ascii_instrument import AsciiDriver
from rigctl_drivers.byte_line import TextLine
from rigctl_drivers.ezo_pump import EzoPumpDriver
from rigctl_drivers.ezo_sensor import EzoSensorDriver
from rigctl_drivers.modbus_frames import Framing
from rigctl_drivers.modbus_line import Echo, Exchanger, Timing
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from rigctl_drivers.scpi_instrument import ScpiDriver
from rigctl_drivers.sdm_meter import Sdm120Driver, Sdm630Driver
from rigctl_drivers.searching import search_ezo, search_modbus, search_scpi
from rigctl_drivers.urls import LineUrl
from rigctl_drivers.wire import LineLost, Silence
from tests.drivers.circuits import Pump
from tests.drivers.pairs import player, profiles, quantities
from tests.drivers.peers import ModbusUnit, crc16
from tests.fuzz.mutation import changed

CALLS = 20
"""Of one device, before the next one is made."""
MOST_READS = 5000
"""Of one call; a call of a second has a thousand, at most."""
SPEAKS_ON = 0.0005
"""Share of answers after which the instrument does not stop talking."""
LONGEST_FRAME = 300
"""Bytes that a checksum is worked out of; what is longer is refused before anybody looks at one."""
LOST = 0.02
"""Share after which the connection is lost."""


class Stuck(BaseException):
    """A call does not end."""


class VirtualTime:
    """The wall's clock, as the drivers see it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@contextmanager
def virtual_time() -> Iterator[VirtualTime]:
    """Let deadlines be of virtual time while the block runs."""
    time, before = VirtualTime(), protocols.time
    protocols.time = SimpleNamespace(monotonic=time.monotonic)
    try:
        yield time
    finally:
        protocols.time = before


class Wire:
    """Takes the place of `rigctl_drivers.wire.Wire`."""

    def __init__(self, answer: Callable[[bytes], bytes], rng: random.Random, time: VirtualTime) -> None:
        self.url, self.is_open, self.silence = "fuzz://nonsense", True, Silence()
        self.strings, self.reads = 0, 0
        self._answer, self._rng, self._time = answer, rng, time
        self._pending, self._flood = bytearray(), b""

    def is_lost(self) -> bool:
        return not self.is_open

    def stay(self) -> None:
        """Nobody swaps it."""

    def open(self) -> None:
        self.is_open = True

    def ensure_open(self, deadline: Deadline) -> None:
        self.open()

    def close(self) -> None:
        self.is_open, self._pending, self._flood = False, bytearray(), b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        sound = self._answer(data)
        answer = changed(sound, self._rng)
        self.strings += answer != sound
        self._pending += answer
        if self._rng.random() < SPEAKS_ON:
            self._flood = answer or b"*RE\r"
        if self._rng.random() < LOST:
            self.is_open = False
            raise LineLost("connection lost", bus=self.url)

    def read_some(self, until: Deadline) -> bytes:
        self.reads += 1
        if self.reads > MOST_READS:
            raise Stuck(f"{self.reads} reads in one call")
        self._time.now_s += 0.001
        size = self._rng.choice((3, 4096, 4096, 4096))
        data = bytes(self._pending[:size])
        del self._pending[:size]
        if not data and self._flood:
            data = (self._flood * (1 + 64 // len(self._flood)))[:64]
        if not data:
            self._time.now_s = max(self._time.now_s, min(until.at_s, self._time.now_s + 60.0))
        return data

    def press_on(self) -> None:
        self._pending = bytearray()

    def settle(self, deadline: Deadline | None = None, *, command: bool = False) -> bytes:
        found, self._pending, self._flood = bytes(self._pending), bytearray(), b""
        self.silence = Silence()
        return found


# instruments -----------------------------------------------------------------------------------------------------


def _lines(answers: Callable[[str], Sequence[str]], end: str) -> Callable[[bytes], bytes]:
    def answer(request: bytes) -> bytes:
        told = (answers(one) for one in request.decode("ascii").split(end)[:-1])
        return "".join(f"{line}{end}" for lines in told for line in lines).encode()

    return answer


def _circuit(command: str) -> Sequence[str]:
    known = {"i": "?I,pH,2.14", "R": "6.021", "Name,?": "?NAME,north_ph"}
    return [known[command], "*OK"] if command in known else ["*OK"]


def _instrument(command: str) -> Sequence[str]:
    known = {"*IDN?": "Maker,GC-1,1234,1.0", "MEAS?": "2.5", "VOLT?": "1.5", "OUTP?": "1", "SYST:ERR?": '0,"No error"'}
    return [known[command]] if command in known else []


_WORDS = MappingProxyType(
    {
        **{(4, at): word for at in (0x00, 0x0C, 0x34) for at, word in ((at, 0x4366), (at + 1, 0x3334))},
        (4, 0x46): 0x4248,
        (4, 0x48): 0x42F6,
        (4, 0x49): 0xE979,
        (4, 0x0156): 0x42F6,
        (3, 0xFC00): 1,
        (3, 0xFC01): 2,
        (3, 0xFC02): 0x20,
        (3, 2): 0x3FC0,
        (3, 3): 0,
        (3, 4): 7,
    }
)


def _unit(rng: random.Random, *, rtu: bool) -> Callable[[bytes], bytes]:
    """Answer as a unit; half of what is changed is framed soundly, else no more than checksums were tried."""
    unit = ModbusUnit(words=dict(_WORDS), coils={0: True})

    def answer(request: bytes) -> bytes:
        if not rtu:
            (sound,) = unit.tcp(request)
            body = changed(sound[6:], rng) if rng.random() < 0.5 else sound[6:]
            return sound[:4] + (len(body) & 0xFFFF).to_bytes(2, "big") + body
        if request[0] != unit.number or crc16(request[:-2]) != request[-2:]:
            return b""
        (sound,) = unit.rtu(request)
        body = changed(sound[:-2], rng) if rng.random() < 0.5 else sound[:-2]
        return body + (crc16(body) if len(body) <= LONGEST_FRAME else b"\0\0")

    return answer


# devices ---------------------------------------------------------------------------------------------------------

Make = Callable[[random.Random, VirtualTime], tuple[Wire, Sequence[Callable[[Deadline], Any]]]]
"""Makes a wire, and what can be asked of the device at its end."""


def _text(answers: Callable[[str], Sequence[str]], end: str, rng: random.Random, time: VirtualTime) -> tuple[Wire, Any]:
    wire = Wire(_lines(answers, end), rng, time)
    line: Any = TextLine(LineUrl.parse("tcp://nonsense:1", {}), ManualClock(), lambda _: None)  # type: ignore[arg-type]
    line._wire = wire
    return wire, line


def _registers(rng: random.Random, time: VirtualTime, *, rtu: bool) -> tuple[Wire, Any]:
    wire: Any = Wire(_unit(rng, rtu=rtu), rng, time)
    timing = Timing(0.5, 0.0, 0.0, 0.1) if rtu else Timing(0.0, 0.0, 0.0, None)
    exchanger = Exchanger(ManualClock(), wire, Framing(rtu=rtu), timing, Echo(None if rtu else False))
    return wire, modbus_line.ModbusLine(ManualClock(), wire, exchanger)


def _ezo(rng: random.Random, time: VirtualTime) -> Any:
    wire, line = _text(_circuit, "\r", rng, time)
    device: Any = EzoSensorDriver.connect(EzoSensorDriver.options.model_validate({"model": "pH"}), line)
    return wire, (device.identify, device.read, device.read, device.simulated, lambda d: search_ezo(line, (), d))


def _pump(rng: random.Random, time: VirtualTime) -> Any:
    wire, line = _text(Pump(), "\r", rng, time)
    device: Any = EzoPumpDriver.connect(EzoPumpDriver.options(), line)
    asked = (device.dose_status, device.total_volume_ml, device.total, device.identify, device.ready, device.stop)
    return wire, (*asked, lambda d: device.start_dose(2.0, d))


def _scpi(rng: random.Random, time: VirtualTime) -> Any:
    wire, line = _text(_instrument, "\n", rng, time)
    given = {"query": "MEAS?", "set": "VOLT {value}", "confirm": "VOLT?", "model": "GC-1"}
    options = ScpiDriver.options.model_validate(
        {**given, "enable": {"on": "OUTP 1", "off": "OUTP 0", "state": "OUTP?"}}
    )
    device: Any = ScpiDriver.connect(options, line)
    asked = (device.identify, device.simulated, device.read, device.read, device.read_back, device.release, device.safe)
    return wire, (*asked, lambda d: device.apply(1.5, d), lambda d: search_scpi(line, (), d))


def _ascii(rng: random.Random, time: VirtualTime) -> Any:
    name, quantity = rng.choice(quantities())
    played, given = player(name), profiles(name)[quantity].options
    wire, line = _text(lambda _: (), "\r", rng, time)
    wire._answer = lambda request: b"".join(played(request))
    device: Any = AsciiDriver.connect(AsciiDriver.options.model_validate(given), line)
    calls = [getattr(device, call) for call in ("read", "read_back", "release", "safe") if hasattr(device, call)]
    applies = [lambda d: device.apply(2.5, d)] if hasattr(device, "apply") else []
    return wire, (device.identify, *calls, *applies)


def _modbus(rng: random.Random, time: VirtualTime, *, rtu: bool) -> Any:
    wire, line = _registers(rng, time, rtu=rtu)
    place = {"at": 2, "type": rng.choice(("float32", "int16", "uint64"))}
    given = {"read": {**place, "register": "holding"}, "write": {"at": 2, "type": "float32"}, "enable": {"coil": 0}}
    device: Any = ModbusRegisterDriver.connect(ModbusRegisterDriver.options.model_validate(given), line)
    asked = (device.identify, device.simulated, device.read, device.read_back, device.release, device.safe)
    return wire, (*asked, lambda d: device.apply(1.5, d), lambda d: search_modbus(line, (1,), d))


def _sdm(rng: random.Random, time: VirtualTime) -> Any:
    wire, line = _registers(rng, time, rtu=rng.random() < 0.5)
    driver = rng.choice((Sdm120Driver, Sdm630Driver))
    device: Any = driver.connect(driver.options.model_validate({}), line)
    return wire, (device.identify, device.read, device.total, device.simulated)


TARGETS: MappingProxyType[str, Make] = MappingProxyType(
    {
        "scpi": _scpi,
        "modbus-tcp": lambda rng, time: _modbus(rng, time, rtu=False),
        "sdm": _sdm,
        "modbus-rtu": lambda rng, time: _modbus(rng, time, rtu=True),
        "ezo": _ezo,
        "ezo-pmp": _pump,
        "ascii": _ascii,
    }
)


def block(target: str, rng: random.Random) -> Counter[str]:
    """Give one device its share of nonsense; return how many answers it was given (`cases`), and what came of them."""
    with virtual_time() as time:
        wire, asked = TARGETS[target](rng, time)
        came: Counter[str] = Counter()
        for _ in range(CALLS):
            wire.reads = 0
            try:
                _check(rng.choice(asked)(Deadline.after(1.0)))
                came["answers taken"] += 1
            except DeviceError as error:
                came[type(error).__name__] += 1
                _fit_to_be_told(str(error))
        return came + Counter(cases=wire.strings)


def _check(answer: Any) -> None:
    """Hold what came of it against what every driver promises."""
    match answer:
        case Reading():
            assert not answer.valid or math.isfinite(answer.value), answer
            _fit_to_be_told(answer.detail)
        case DoseStatus():
            assert math.isfinite(answer.dispensed_ml), answer
            _fit_to_be_told(answer.fault)
        case ActuatorState():
            assert answer.setpoint is None or not math.isinf(answer.setpoint), answer
        case Identity():
            _fit_to_be_told(f"{answer.model}{answer.firmware}{answer.serial}")
        case list() | tuple():
            for one in answer:
                _fit_to_be_told(f"{one}")
        case _:
            assert answer is None or isinstance(answer, bool), answer


def _fit_to_be_told(text: str) -> None:
    assert printable(text) == text, text
    assert len(text) <= 2 * LONGEST, f"{len(text)} characters"
