"""Relay boards and a pump with the latencies such things have; they keep their own log of what was written when.

The Modbus servers are modbus_tk's; only the time that bytes, turnaround and distance take is added.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import serial
from modbus_tk import defines, hooks, modbus_rtu, modbus_tcp

from rigctl.rig.clocks import RealClock
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.spec import DeviceSpec, DosingSpec, MeasureSpec, OutcomeSpec, RigSpec, TrialTiming, VariableWiring
from rigctl.rig.values import News
from tests.drivers.circuits import Pump
from tests.drivers.peers import Played, PtyPair, unwarned

COILS = 32
BITS_PER_BYTE = 11


@dataclass
class Witness:
    """What a server saw."""

    block: Any
    offs: dict[int, float] = field(default_factory=dict)
    """When each coil was last switched off, monotonic seconds."""
    requests: list[bytes] = field(default_factory=list)
    dead_asked: threading.Event = field(default_factory=threading.Event)
    """Another unit than 1 has been asked (RTU)."""

    def asked(self, request: bytes) -> None:
        """Called for each request."""
        self.requests.append(request)
        if request[0] != 1:
            self.dead_asked.set()

    def note(self, arguments: tuple[Any, Any, Any]) -> None:
        """Called by modbus_tk for each write into a block."""
        block, item, value = arguments
        if block is not self.block:
            return
        first = item.start if isinstance(item, slice) else item
        for i, bit in enumerate(value if isinstance(item, slice) else [value]):
            if not bit:
                self.offs[first + i] = time.monotonic()

    def on(self, coils: int) -> list[int]:
        """Which of the first so many coils are on."""
        return [i for i in range(coils) if self.block[i]]


@contextmanager
def watched(server: Any, unit: int, *, multiple: bool = True) -> Iterator[Witness]:
    """A unit with all its coils on, and what it sees."""
    slave = server.add_slave(unit)
    slave.add_block("coils", defines.COILS, 0, COILS)
    slave.add_block("input", defines.ANALOG_INPUTS, 0, COILS)
    slave.set_values("coils", 0, [1] * COILS)
    if not multiple:
        del slave._fn_code_map[defines.WRITE_MULTIPLE_COILS]
    witness = Witness(slave._get_block("coils"))
    note = witness.note
    hooks.install_hook("modbus.ModbusBlock.setitem", note)
    try:
        yield witness
    finally:
        hooks.uninstall_hook("modbus.ModbusBlock.setitem", note)


def slowed(handle: Callable[[bytes], bytes], before_s: Callable[[bytes], float], witness: Witness) -> Any:
    """A server's answer after the time its request and its own turnaround take, and then that of the answer."""

    def answer(request: bytes) -> bytes:
        witness.asked(request)
        time.sleep(before_s(request))
        return handle(request)

    return answer


@contextmanager
def rtu_board(turnaround_s: float, *, baud: int = 9600, multiple: bool = True) -> Iterator[tuple[str, Witness]]:
    """A relay board, unit 1, on a serial line of its own; other units stay silent."""
    wire = PtyPair()
    port = serial.Serial(wire.paths[0], baudrate=115200, timeout=0.05)
    server = unwarned(modbus_rtu.RtuServer(port, error_on_missing_slave=False))
    byte_s = BITS_PER_BYTE / baud
    with watched(server, 1, multiple=multiple) as witness:
        handle = slowed(server._handle, lambda request: len(request) * byte_s + turnaround_s, witness)

        def answer(request: bytes) -> bytes:
            reply = handle(request)
            time.sleep(len(reply) * byte_s)
            return reply

        server._handle = answer
        server.start()
        try:
            yield f"modbus_rtu://{wire.paths[1]}?baud={baud}", witness
        finally:
            server.stop()
            port.close()
            wire.close()


@contextmanager
def distant_plc(away_s: float) -> Iterator[tuple[str, Witness]]:
    """A PLC, unit 1, at the other end of a network that takes its time."""
    server = unwarned(modbus_tcp.TcpServer(port=0, address="127.0.0.1", error_on_missing_slave=False))
    with watched(server, 1) as witness:
        server._handle = slowed(server._handle, lambda _: away_s, witness)
        server._do_init()  # else it does so in its thread, and its port is not known yet
        server._do_init = lambda: None
        server.start()
        try:
            yield f"modbus_tcp://127.0.0.1:{server._sock.getsockname()[1]}", witness
        finally:
            server.stop()


class SlowPump(Pump):
    """An EZO-PMP that takes 300 ms over each answer, and is dispensing."""

    def __init__(self) -> None:
        super().__init__()
        self.running = True
        self.stopped_s = math.inf

    def answer(self, request: bytes) -> list[Played]:
        """What it says to one line, `*OK` included."""
        said = self(request[:-1].decode("ascii"))
        if not self.running:
            self.stopped_s = min(self.stopped_s, time.monotonic())
        return [0.3, b"".join(line.encode() + b"\r" for line in said)]


Section = tuple[str, str, Mapping[str, Any], float]
"""Driver, URL, options and timeout (wall seconds) of a device."""


def relay(url: str, coil: int, *, unit: int = 1, timeout_s: float = 1.0, **more: Any) -> Section:
    """One channel of a board."""
    return "modbus", url, {"address": unit, "enable": {"coil": coil}, **more}, timeout_s


def reading(url: str, *, unit: int = 1, timeout_s: float = 1.0) -> Section:
    """A sensor in an input register."""
    return "modbus", url, {"address": unit, "unit": "cm", "read": {"at": 0}}, timeout_s


def rig_of(
    actuators: Mapping[str, Section], sensor: Section, doses: Any, *, pumps: Mapping[str, Section] | None = None
) -> Rig:
    """A rig of these, with the installed drivers, at speed 1; each actuator serves a variable of its own name."""
    registry, pumps = Registry.installed(), pumps or {}
    devices = {
        name: DeviceSpec(name, driver, url, registry.driver(driver).options.model_validate(options), timeout_s)
        for name, (driver, url, options, timeout_s) in {**actuators, **pumps, "sensor": sensor}.items()
    }
    spec = RigSpec(
        name="bench",
        devices=devices,
        variables=tuple(VariableWiring(n, "sensor", n, 0.01) for n in actuators),
        outcomes=(OutcomeSpec(name="level", unit="1", sensor="sensor"),),
        timing=TrialTiming(0.0, MeasureSpec(0.0, 1.0)),
        meters=(),
        limits={
            n: ActuatorLimits(low=0.0, high=1.0, safe_state="off", per_dose_ml=50.0, per_day_ml=500.0)
            for n in (*actuators, *pumps)
        },
        dosing={n: DosingSpec("sensor", 0.1, 0.1, 1.0, 3) for n in pumps},
    )
    return Rig(spec, registry, RealClock(), doses, News())
