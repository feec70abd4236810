"""One quantity behind Modbus registers or coils: a sensor, an actuator, both, or a counter.

What the options hold decides what the device can do: `read` makes a sensor, `write` and/or `enable` an actuator,
`read` with `counter: true` a meter. What is asked is in `modbus_unit`, what is sent in `modbus_drive`.
"""

from __future__ import annotations

from typing import ClassVar

from rigctl.rig.protocols import Deadline, Device, DeviceOptions, Line, Reading, RegisterLine
from rigctl_drivers import modbus_claims
from rigctl_drivers.modbus_drive import Drive
from rigctl_drivers.modbus_options import ModbusOptions
from rigctl_drivers.modbus_unit import Unit


class ModbusRegisterDriver:
    """Driver of a quantity in registers or coils."""

    name: ClassVar[str] = "modbus"
    summary: ClassVar[str] = "a sensor, actuator or counter in Modbus registers or coils"
    schemes: ClassVar[tuple[str, ...]] = ("modbus_tcp", "modbus_rtu", "rtu_tcp")
    options: ClassVar[type[DeviceOptions]] = ModbusOptions
    occupies = staticmethod(modbus_claims.occupies)
    misfits = staticmethod(modbus_claims.misfits)
    grain = staticmethod(modbus_claims.grain)

    @staticmethod
    def connect(name: str, options: DeviceOptions, line: Line) -> Device:
        """Make the device called `name`; sends nothing yet."""
        if not isinstance(options, ModbusOptions) or not isinstance(line, RegisterLine):
            raise TypeError(f"{name}: driver modbus needs ModbusOptions and a Modbus line, got {line.url}")
        unit = Unit(options, line)
        if options.counter:
            return ModbusCounter(unit)
        if options.read is None:
            return Drive(unit)
        if options.write is None and options.enable is None:
            return unit
        return ModbusControlled(unit)


class ModbusCounter:
    """Counts what is consumed."""

    def __init__(self, unit: Unit) -> None:
        self.meter_unit, self.anonymous = unit.unit, unit.anonymous
        self.identify, self.simulated = unit.identify, unit.simulated
        self._read = unit.read

    def total(self, deadline: Deadline) -> Reading:
        """Read the counter; INVALID if it is negative."""
        reading = self._read(deadline)
        if reading.valid and reading.value < 0:
            detail = f"a counter cannot read {reading.value}: check type and order"
            return Reading.invalid(reading.unit, reading.time_s, detail)
        return reading


class ModbusControlled(Drive):
    """Imposes a setpoint and reads the quantity."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self.read = unit.read
