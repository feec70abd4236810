"""Faults that can be switched on while the rig runs: on a wire, in a sensor, in a device.

A wire fault shapes the next replies of one bus. Faults are consumed in the order they were asked for, one per reply,
each `count` times; `count: -1` stays until cleared.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Literal

from sim_rig.errors import ControlError

BYTE_FAULTS: Final = ("drop_reply", "delay", "corrupt", "truncate", "garbage", "dribble", "stale")
"""On the bytes of a reply, whatever the protocol."""
MODBUS_FAULTS: Final = ("exception", "wrong_unit")
TCP_FAULTS: Final = ("reset",)

Chunk = tuple[float, bytes]
"""Wall seconds to wait after the previous chunk, and what is sent then."""


@dataclass(slots=True)
class WireFault:
    """Describes one fault of one bus."""

    kind: str
    count: int = 1
    """Replies it still applies to; -1 for all."""
    seconds: float = 0.5
    """`delay`: wall seconds until the reply leaves; `dribble`: wall seconds between bytes."""
    code: int = 4
    """`exception`: the Modbus exception code."""
    data: bytes = b"\xff\x00\x55"
    """`garbage`: what precedes the reply."""
    unit: int | None = None
    """`exception`, `wrong_unit`: only requests to this unit; all when None."""
    after: list[bytes] = field(default_factory=list)
    """Modbus requests (PDU) that it still waits for, one after the other; it strikes the reply to the last of them."""


@dataclass(slots=True)
class WireFaults:
    """Holds the faults of one bus."""

    pending: list[WireFault] = field(default_factory=list)
    last_reply: bytes = b""

    def add(self, fault: WireFault) -> None:
        """Apply it to the next replies, after those already asked for."""
        if fault.count == 0:
            raise ControlError("count: got 0, must be a number of replies, or -1 for all until cleared")
        self.pending.append(fault)

    def clear(self) -> None:
        self.pending.clear()

    def asked(self, pdu: bytes) -> None:
        """Let the faults that wait for this request wait for it no longer."""
        for fault in self.pending:
            if fault.after and fault.after[0] == pdu:
                del fault.after[0]

    def take(self, kinds: Collection[str], unit: int | None = None) -> WireFault | None:
        """Return the first fault of these kinds that applies, its count lowered."""
        for fault in self.pending:
            if fault.kind in kinds and not fault.after and (fault.unit is None or unit is None or fault.unit == unit):
                if fault.count > 0:
                    fault.count -= 1
                if fault.count == 0:
                    self.pending.remove(fault)
                return fault
        return None

    def transmit(self, reply: bytes, write: Callable[[bytes], None]) -> None:
        """Write what really goes over the wire in place of this reply, when it does; on the running asyncio loop."""
        delay_s = 0.0
        for wait_s, data in self.shape(reply):
            delay_s += wait_s
            if delay_s == 0.0:
                write(data)
            else:
                asyncio.get_running_loop().call_later(delay_s, write, data)

    def shape(self, reply: bytes) -> list[Chunk]:
        """Return what really goes over the wire in place of this reply."""
        if not self.pending:
            self.last_reply = reply
            return [(0.0, reply)]
        previous, self.last_reply = self.last_reply, reply
        fault = self.take(BYTE_FAULTS)
        return [(0.0, reply)] if fault is None else _shaped(fault, reply, previous)


def _shaped(fault: WireFault, reply: bytes, previous: bytes) -> list[Chunk]:
    middle = len(reply) // 2
    flipped = reply[:middle] + bytes([reply[middle] ^ 0x04]) + reply[middle + 1 :] if reply else reply
    shapes: dict[str, Callable[[], list[Chunk]]] = {
        "drop_reply": list,
        "delay": lambda: [(fault.seconds, reply)],
        "corrupt": lambda: [(0.0, flipped)],
        "truncate": lambda: [(0.0, reply[: max(1, middle)])],
        "garbage": lambda: [(0.0, fault.data + reply)],
        "dribble": lambda: [(fault.seconds, reply[i : i + 1]) for i in range(len(reply))],
        "stale": lambda: [(0.0, previous)] if previous else [],
    }
    return shapes[fault.kind]()


SensorMode = Literal["ok", "nan", "frozen", "zero", "fullscale", "offset"]
SENSOR_MODES: Final[tuple[SensorMode, ...]] = ("ok", "nan", "frozen", "zero", "fullscale", "offset")


@dataclass(slots=True)
class SensorTap:
    """Gives a sensor's output, as it is or as a fault makes it."""

    read: Callable[[], float]
    full_scale: float
    mode: SensorMode = "ok"
    offset: float = 0.0
    last: float = math.nan

    def __call__(self) -> float:
        """Return the value at the instrument's output, engineering units."""
        match self.mode:
            case "ok" | "offset":
                self.last = self.read()
                return self.last + (self.offset if self.mode == "offset" else 0.0)
            case "frozen":
                if math.isnan(self.last):
                    self.last = self.read()
                return self.last
            case "nan":
                return math.nan
            case "zero":
                return 0.0
            case "fullscale":
                return self.full_scale
