"""The register map of Eastron's SDM120 and SDM630 energy meters (single-phase and three-phase).

Input registers (function 04), float32 ABCD at even addresses, at most 40 values a request; Eastron protocol manuals.
The three-phase meter sees the same load spread evenly over its phases. Settings are holding registers (03), floats too;
serial number and meter code stand apart from them, as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from sim_rig.faces.registers import Bank

MeterModel = Literal["SDM120", "SDM630"]

FREQUENCY_HZ = 50.0
POWER_FACTOR = 0.95
BAUD_2400, BAUD_9600 = 0.0, 2.0
IDENTITY_AT = 0xFC00
METER_CODES = MappingProxyType({"SDM120": 0x0020, "SDM630": 0x0070})
FIRST_SERIAL = 21070000


@dataclass(slots=True)
class MeterReadings:
    """What a meter shows; the callables know the physics."""

    power_w: Callable[[], float]
    energy_kwh: Callable[[], float]
    voltage_v: float = 230.0
    per_unit: float = 1.0
    """What one count of the energy counter is, in kWh: 1000 when it was switched to MWh (a fault)."""

    def counter(self) -> float:
        """The energy counter in the unit it is switched to."""
        return self.energy_kwh() / self.per_unit


def meter_bank(readings: MeterReadings, model: MeterModel, node: int = 1) -> Bank:
    """The registers of the meter at Modbus address `node`."""
    bank = Bank(zero_fill=True, max_registers=80, even_below=IDENTITY_AT)
    phases = 1 if model == "SDM120" else 3
    for phase in range(phases):
        _phase(bank, readings, 2 * phase, phases)
    bank.number("input", 0x46, lambda: FREQUENCY_HZ)
    bank.number("input", 0x48, readings.counter)
    bank.number("input", 0x4A, lambda: 0.0)
    bank.number("input", 0x156, readings.counter)
    if model == "SDM630":
        bank.number("input", 0x30, lambda: readings.power_w() / POWER_FACTOR / readings.voltage_v)
        bank.number("input", 0x34, readings.power_w)
        bank.number("input", 0x38, lambda: readings.power_w() / POWER_FACTOR)
        bank.number("input", 0x3E, lambda: POWER_FACTOR)
        bank.number("holding", 0x1E, lambda: float(readings.per_unit != 1.0))
    bank.number("holding", 0x14, lambda: float(node))
    bank.number("holding", 0x1C, lambda: BAUD_2400 if model == "SDM120" else BAUD_9600)
    bank.number("holding", IDENTITY_AT, lambda: float(FIRST_SERIAL + node), kind="uint32")
    bank.number("holding", IDENTITY_AT + 2, lambda: float(METER_CODES[model]), kind="uint16")
    return bank


def _phase(bank: Bank, readings: MeterReadings, at: int, phases: int) -> None:
    """V, A, W, VA and power factor of one phase, VAr and angle as 0.

    The manuals keep like quantities of the three phases together; the single-phase meter uses the first one's places.
    """

    def apparent_va() -> float:
        return readings.power_w() / phases / POWER_FACTOR

    bank.number("input", 0x00 + at, lambda: readings.voltage_v)
    bank.number("input", 0x06 + at, lambda: apparent_va() / readings.voltage_v)
    bank.number("input", 0x0C + at, lambda: readings.power_w() / phases)
    bank.number("input", 0x12 + at, apparent_va)
    bank.number("input", 0x18 + at, lambda: 0.0)
    bank.number("input", 0x1E + at, lambda: POWER_FACTOR)
    bank.number("input", 0x24 + at, lambda: 0.0)
