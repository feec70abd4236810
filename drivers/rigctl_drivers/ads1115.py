"""Texas Instruments ADS1115 on I2C: volts of one input, one conversion for each reading."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from pydantic import Field, field_validator

from rigctl.errors import GarbledReply
from rigctl.rig.protocols import AddressedLine, ClaimedPlace, Deadline, DeviceOptions, Driver, Identity, Reading, Sensor
from rigctl_drivers.addressed_line import wait_until

RANGES_V = MappingProxyType({6.144: 0, 4.096: 1, 2.048: 2, 1.024: 3, 0.512: 4, 0.256: 5})
"""Bits of the gain, by the largest voltage."""
INPUTS = MappingProxyType({"0-1": 0, "0-3": 1, "1-3": 2, "2-3": 3, "0": 4, "1": 5, "2": 6, "3": 7})
RATES = MappingProxyType({8: 0, 16: 1, 32: 2, 64: 3, 128: 4, 250: 5, 475: 6, 860: 7})
CONVERSION, CONFIG = b"\x00", b"\x01"
"""Registers."""
START, SINGLE_SHOT, NO_COMPARATOR = 0x8000, 0x0100, 0x0003
FULL_SCALE = 0x8000
ENDS = (FULL_SCALE - 1, -FULL_SCALE)
"""Counts of an input beyond the range."""
SLOWER = 1.1
"""Its clock may be 10 % slow."""
WAKE_S = 0.001


class Ads1115Options(DeviceOptions):
    """One input of one converter."""

    address: int = Field(default=0x48, ge=0x48, le=0x4B)
    """I2C address, by its pin ADDR: 0x48 to 0x4B."""
    input: Literal["0", "1", "2", "3", "0-1", "0-3", "1-3", "2-3"]
    """Which input against ground, or which two against each other."""
    range_v: float = 4.096
    """Largest voltage, V: 6.144, 4.096, 2.048, 1.024, 0.512 or 0.256; no input may be above its supply."""
    rate: Literal[8, 16, 32, 64, 128, 250, 475, 860] = 128
    """Samples per second; slower is quieter."""
    unit: str = "V"
    """Unit of the reading."""
    scale: float = Field(default=1.0, allow_inf_nan=False)
    """Units per volt."""
    offset: float = Field(default=0.0, allow_inf_nan=False)
    """Added after that, units: the reading is scale times volts plus offset."""
    least_v: float | None = None
    """Voltage below which the reading is INVALID: of a 4 to 20 mA loop, a broken wire."""
    most_v: float | None = None
    """Voltage above which it is."""

    @field_validator("range_v")
    @classmethod
    def _known(cls, value: float) -> float:
        if value not in RANGES_V:
            raise ValueError(f"must be one of {', '.join(map(str, RANGES_V))}")
        return value

    @property
    def config(self) -> int:
        """Return the register that starts one conversion."""
        where = INPUTS[self.input] << 12 | RANGES_V[self.range_v] << 9 | RATES[self.rate] << 5
        return START | SINGLE_SHOT | NO_COMPARATOR | where

    def occupies(self) -> tuple[ClaimedPlace, ...]:
        where = f"address {self.address:#04x}"
        return ClaimedPlace(where, "shares", "ADS1115"), ClaimedPlace(f"{where} input {self.input}", "reads")


class Ads1115(Sensor):
    """A sensor; what it was told to convert is read back before its count is believed."""

    anonymous = True

    def __init__(self, options: Ads1115Options, line: AddressedLine) -> None:
        self.unit = options.unit
        self._options = options
        self._line = line

    def identify(self, deadline: Deadline) -> Identity:
        """Let it convert: it has no number, and what it holds then is all that tells it from others."""
        self._count(deadline)
        return Identity("ADS1115")

    def read(self, deadline: Deadline) -> Reading:
        """Convert once; INVALID beyond the range, or outside `least_v` to `most_v`.

        Raises:
            DeviceTimeout: nobody acknowledges, or it is not over in time.
            GarbledReply: it does not hold what it was sent: another device, or another who uses it.
        """
        o, count = self._options, self._count(deadline)
        volts, now_s = count * o.range_v / FULL_SCALE, self._line.clock.now_s()
        if count in ENDS:
            return Reading.invalid(self.unit, now_s, f"beyond {o.range_v:g} V")
        if (o.least_v is not None and volts < o.least_v) or (o.most_v is not None and volts > o.most_v):
            return Reading.invalid(self.unit, now_s, f"{volts:.4g} V: is a wire broken?")
        return Reading(o.scale * volts + o.offset, self.unit, now_s)

    def _count(self, deadline: Deadline) -> int:
        """Start a conversion, and fetch it once it is over."""
        o, clock = self._options, self._line.clock
        self._line.transfer(o.address, CONFIG + o.config.to_bytes(2), 0, deadline)
        held = 0
        while not held & START:
            wait_until(clock.now_s() + SLOWER / o.rate + WAKE_S, clock, deadline)
            held = self._word(CONFIG, deadline)
            if (held ^ o.config) & ~START:
                what = f"address {o.address:#04x} holds {held:#06x}, was sent {o.config:#06x}"
                raise GarbledReply(f"{what}; is it an ADS1115, and does nobody else use it?")
        count = self._word(CONVERSION, deadline)
        return count - 2 * FULL_SCALE if count >= FULL_SCALE else count

    def _word(self, register: bytes, deadline: Deadline) -> int:
        got = self._line.transfer(self._options.address, register, 2, deadline)
        if len(got) != len(b"16"):
            raise GarbledReply(f"register {register[0]}: {len(got)} bytes came, must be 2")
        return int.from_bytes(got)


class Ads1115Driver(Driver):
    """Driver of one input."""

    name = "ads1115"
    summary = "TI ADS1115 analogue input (V, or a unit of yours)"
    schemes = ("i2c",)
    options = Ads1115Options
    connect = staticmethod(Ads1115)
