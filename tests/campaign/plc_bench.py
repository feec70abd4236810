"""A bench for campaigns on real lines at speed 1: real drivers, and a PLC that nobody here wrote.

The PLC is pyModbusTCP's; what the valve and the refill were told is what it was told over the wire.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyModbusTCP.server import DataBank, DataHandler

from rigctl.campaign.clock import RealClock
from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.events import AlarmRaised
from rigctl.config.load import load
from rigctl.console.assemble import rig_factory
from rigctl.page.campaign import campaign_spec
from tests.campaign.fakes import TenLines, ThreadDecider
from tests.drivers.circuits import Pump

PROBE, BALANCE = 0, 2
"""Input registers."""
RIG = """
rig: bench
currency: EUR
budget: 1000 EUR
variables:
  b: {unit: uM, range: [5, 60], sensor: probe, actuator: valve, natural: uniform, watch_every: 0.5 s}
control_sets: all
outcome: {name: yield, unit: g, sensor: balance}
trial:
  prepare: [{actuator: refill, value: 1, wait: 0.2 s}]
  settle: 0.2 s
  measure: {for: 0.4 s, every: 0.2 s, min_count: 1}
meters: [{name: water, kind: fixed, price: 0.05 EUR}]
buses: {plc: "modbus_tcp://127.0.0.1:PORT"}
devices:
  probe:   {driver: modbus, bus: plc, unit: uM, read: {at: 0, type: float32}}
  balance: {driver: modbus, bus: plc, unit: g, read: {at: 2, type: float32}}
  valve:   {driver: modbus, bus: plc, unit: uM, write: {at: 10, type: float32}, enable: {coil: 1}}
  refill:  {driver: modbus, bus: plc, enable: {coil: 5}}
safety:
  safe_state: {valve: "off", refill: "off"}
  interlocks: [{name: empty, when: "b < 10 uM", then: THEN}]
  watch: {every: 0.2 s, clear_for: 1 s}
"""
LATE = ("sensor: balance}", "by: hand, within: 3 d}")
FEED = (
    ("control_sets: all", "  feed: {unit: mL, range: [0.5, 0.6], doses: {pump: feeder}}\ncontrol_sets: [[feed]]"),
    (
        "\nsafety:\n",
        """
  feeder:  {driver: ezo-pmp, bus: "serial://PUMP?quiet=0.1"}
safety:
  limits: {feeder: {per_dose: 0.7 mL, per_day: 0.8 mL}}
""",
    ),
    ('refill: "off"}', 'refill: "off", feeder: "off"}'),
)


class Plc(DataHandler):
    """Keeps what was switched on and off."""

    def __init__(self):
        super().__init__(DataBank())
        self.on: list[int] = []
        self.offs = 0
        self.reads(PROBE, 20.0)
        self.reads(BALANCE, 5.0)

    def reads(self, at: int, value: float) -> None:
        """From now on there stands this."""
        self.data_bank.set_input_registers(at, list(struct.unpack(">HH", struct.pack(">f", value))))

    def write_coils(self, address, bits_l, srv_info):
        self.on += [address + i for i, bit in enumerate(bits_l) if bit]
        self.offs += not any(bits_l)
        return super().write_coils(address, bits_l, srv_info)


class Feeder(Pump):
    """A dose takes the time that a real one takes over it."""

    def __init__(self):
        super().__init__()
        self.doses: list[float] = []
        self.until_s = 0.0

    def __call__(self, command):
        if self.running and time.monotonic() >= self.until_s:
            self.finish()
        said = super().__call__(command)
        if command.startswith("D,") and command != "D,?":
            self.doses.append(self.last_ml)
            self.until_s = time.monotonic() + 60.0 * self.last_ml / 58.5
        return said


@dataclass
class Bench:
    """A campaign on the PLC."""

    plc: Any
    state: Path
    told: list[Any] = field(default_factory=list)
    clock: Any = field(default_factory=RealClock)
    heard: Any = None
    doses: Any = None

    def listen(self, event):
        self.told.append(event)
        if self.heard is not None:
            self.heard(event)

    async def run(self, *changes, then="trip", max_trials=2, **values):
        """Run a campaign of the configuration with these changes, at the pace of the wall."""
        text = RIG.replace("PORT", str(self.plc.port)).replace("THEN", then)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        for name, value in values.items():
            text = text.replace(name.upper(), value)
        (path := self.state.with_name("rig.yaml")).write_text(text, encoding="utf-8")
        loaded, clock = load(path), self.clock
        spec = replace(campaign_spec(loaded), policy=TenLines(), policy_name="ten-lines", policy_options={})
        spec = replace(spec, max_trials=max_trials)
        make = rig_factory(loaded, clock)

        def factory(doses, on_alarm):
            self.doses = doses
            return make(doses, on_alarm)

        return await run_campaign(spec, self.state, factory, clock, self.listen, decider=ThreadDecider())

    def alarmed(self, what):
        return any(what in str(event.alarm) for event in self.told if isinstance(event, AlarmRaised))
