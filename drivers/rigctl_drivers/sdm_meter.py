"""Eastron SDM120 and SDM630 energy meters (Modbus RTU): kWh counted, and the power now.

Function 04, float32 ABCD, two registers per value; who it is stands in holding registers (03). The meter wants at
least 60 ms between requests. Sources: Eastron's Modbus protocol documents of SDM120 and SDM630.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeVar

from pydantic import Field

from rigctl.errors import DeviceFault, IdentityMismatch
from rigctl.rig.protocols import (
    ClaimedPlace,
    Deadline,
    DeviceOptions,
    Driver,
    Identity,
    Meter,
    Reading,
    RegisterLine,
    Sensor,
)
from rigctl_drivers.modbus_protocol import NOT_THIS_WAY, Refused, says_simulated
from rigctl_drivers.registers import decode, float_step

VOLTAGE = 0x00
FREQUENCY = 0x46
COUNTERS = MappingProxyType({"import": 0x48, "export": 0x4A, "total": 0x0156})
SERIAL = 0xFC00
"""Holding registers: the serial number, two of them, then the meter code."""
GAP_S = 0.06
"""Rig seconds between requests."""

Answer = TypeVar("Answer")


class SdmOptions(DeviceOptions):
    """One energy meter."""

    address: int = Field(default=1, ge=1, le=247)
    """Modbus address set on the meter."""
    counter: Literal["import", "export", "total"] = "import"
    """Which energy register counts."""
    counts_in: Literal["kWh", "MWh"] = "kWh"
    """What the meter's energy registers count in; some SDM630 can be switched to MWh, and say so (holding 0x1E)."""
    max_total_kwh: float = Field(default=1e7, gt=0)
    """A count above this cannot be true: word order or unit has changed."""

    @property
    def per_count_kwh(self) -> float:
        return 1000.0 if self.counts_in == "MWh" else 1.0

    def occupies(self) -> Sequence[ClaimedPlace]:
        # whoever else is taken to be there counts the same energy
        return (ClaimedPlace(f"unit {self.address} as an energy meter", "keeps"),)

    def grain_at(self, total: float) -> float:
        return self.per_count_kwh * float_step(total / self.per_count_kwh)


@dataclass(frozen=True, slots=True)
class _Model:
    name: str
    power: int
    """Register of the active power of the whole connection, W."""
    counts_in: int | None = None
    """Holding register that tells what energy is counted in: 0 kWh, 1 MWh; None: there is no choice."""


class SdmMeter(Meter, Sensor):
    """A meter of energy (kWh) and a sensor of power (W)."""

    meter_unit = "kWh"
    unit = "W"
    identified_by = 5

    def __init__(self, options: SdmOptions, line: RegisterLine, model: _Model) -> None:
        self._options = options
        self._line = line
        self._model = model
        self._asked_s = -math.inf
        self._missing: set[int] = set()
        """Holding registers that the meter refused."""

    def identify(self, deadline: Deadline) -> Identity:
        """Check that the mains look like mains, and ask for the serial number if the meter has one to tell.

        Raises:
            IdentityMismatch: voltage or frequency cannot be those of a supply, or energy is not counted in the unit
                that the configuration says.
        """
        volts, hertz = self._value(VOLTAGE, deadline), self._value(FREQUENCY, deadline)
        if not (0.0 <= volts < 1000.0 and 40.0 < hertz < 70.0):
            raise IdentityMismatch(
                f"unit {self._options.address} reads {volts:.4g} V at {hertz:.4g} Hz: "
                f"not an {self._model.name}, or not its factory register order"
            )
        problem = self._switched(deadline)
        if problem:
            raise IdentityMismatch(problem)
        serial = self._holding(SERIAL, 2, deadline)
        code = self._holding(SERIAL + 2, 1, deadline)
        return Identity(
            self._model.name,
            firmware="" if code is None else f"meter code {code[0]:04X}",
            serial="" if serial is None else f"{serial[0] << 16 | serial[1]}",
        )

    def simulated(self, deadline: Deadline) -> bool:
        return self._spaced(lambda: says_simulated(self._line, self._options.address, deadline))

    def read(self, deadline: Deadline) -> Reading:
        watts = self._value(self._model.power, deadline)
        return self._reading(watts, self.unit, "" if math.isfinite(watts) else f"the meter reports {watts} W")

    def total(self, deadline: Deadline) -> Reading:
        """Read the energy counted, kWh, INVALID if it cannot be true; `DeviceFault` if switched to another unit."""
        raw = self._value(COUNTERS[self._options.counter], deadline)
        problem = self._switched(deadline)
        if problem:
            raise DeviceFault(problem)
        kwh = raw * self._options.per_count_kwh
        holds = math.isfinite(kwh) and 0.0 <= kwh <= self._options.max_total_kwh
        return self._reading(kwh, self.meter_unit, "" if holds else f"the meter cannot have counted {kwh:g} kWh")

    def _reading(self, value: float, unit: str, problem: str) -> Reading:
        now_s = self._line.clock.now_s()
        return Reading.invalid(unit, now_s, problem) if problem else Reading(value, unit, now_s)

    def _switched(self, deadline: Deadline) -> str:
        """Say what is wrong if energy is counted in another unit than configured; empty if nothing is."""
        words = None if self._model.counts_in is None else self._holding(self._model.counts_in, 2, deadline)
        unit = None if words is None else {0.0: "kWh", 1.0: "MWh"}.get(decode(words, "float32"))
        declared = self._options.counts_in
        if unit in (None, declared):
            return ""
        mend = "switch the meter back, or correct `counts_in`"
        return f"unit {self._options.address} counts in {unit}, `counts_in` says {declared}; {mend}"

    def _holding(self, register: int, count: int, deadline: Deadline) -> Sequence[int] | None:
        """Read holding registers; None if this meter does not have them, which it is asked but once."""
        if register in self._missing:
            return None
        address = self._options.address
        try:
            return self._spaced(lambda: self._line.read_registers(address, "holding", register, count, deadline))
        except Refused as refusal:
            if refusal.code not in NOT_THIS_WAY:  # a gateway or the meter in trouble says nothing of what it has
                raise
            self._missing.add(register)
            return None

    def _value(self, register: int, deadline: Deadline) -> float:
        address = self._options.address
        words = self._spaced(lambda: self._line.read_registers(address, "input", register, 2, deadline))
        return decode(words, "float32")

    def _spaced(self, ask: Callable[[], Answer]) -> Answer:
        clock = self._line.clock
        pause_s = self._asked_s + GAP_S - clock.now_s()
        if pause_s > 0:
            clock.sleep(pause_s)
        try:
            return ask()
        finally:
            self._asked_s = clock.now_s()


class Sdm120Driver(Driver):
    """Driver of the one-phase meter."""

    name = "sdm120"
    summary = "Eastron SDM120 energy meter, one phase (kWh counted, W now)"
    schemes = ("modbus_rtu", "modbus_tcp", "rtu_tcp")
    options = SdmOptions
    connect = staticmethod(partial(SdmMeter, model=_Model("SDM120", power=0x0C)))


class Sdm630Driver(Sdm120Driver):
    """Driver of the three-phase meter."""

    name = "sdm630"
    summary = "Eastron SDM630 energy meter, three phases (kWh counted, W now)"
    connect = staticmethod(partial(SdmMeter, model=_Model("SDM630", power=0x34, counts_in=0x1E)))
