"""A campaign on a Raspberry Pi at speed 1: EZO circuits and a converter on I2C, a thermometer, a relay, a float switch.

The kernel's side of each bus is played in memory, or is a file; all else is what runs on the board.
"""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from rigctl.campaign.daemon import run_campaign
from rigctl.config.load import load
from rigctl.console.assemble import rig_factory
from rigctl.errors import Tripped
from rigctl.page.campaign import campaign_spec
from rigctl.rig.clocks import RealClock
from rigctl_drivers import gpio_line, i2c_line
from tests.campaign.fakes import ThreadDecider
from tests.campaign.test_pump_at_speed_one import Supplied
from tests.drivers.i2c_parts import Adc, Bus, Chip, Circuit, sensor

pytestmark = pytest.mark.slow

ID = "28-0316a2795a3d"
WARM = "72 01 4b 46 7f ff 0e 10 57"
RIG = """
rig: pi
currency: EUR
budget: 20 EUR
buses: {i2c: "i2c:///dev/i2c-1", w1: "w1://W1", gpio: "gpio:///dev/gpiochip0"}
devices:
  ph_probe: {driver: ezo-ph, bus: i2c, address: 0x63}
  acid:     {driver: ezo-pmp, bus: i2c, address: 0x67}
  level:    {driver: ads1115, bus: i2c, input: "0", unit: percent, scale: 41.67, offset: -25, least_v: 0.54}
  bath:     {driver: ds18b20, bus: w1, id: 28-0316a2795a3d}
  aerator:  {driver: gpio-relay, bus: gpio, line: 17, active_low: true}
  dry:      {driver: gpio-switch, bus: gpio, line: 22}
variables:
  ph: {unit: pH, range: [5.5, 6.3], plausible: [3, 10], sensor: ph_probe, actuator: acid, natural: uniform}
control_sets: [[ph]]
outcome: {name: warmth, unit: degC, sensor: bath}
dosing:
  acid: {sensor: ph_probe, effect: -0.2 pH/mL, tolerance: 0.1 pH, mix: 0.5 s, max_doses: 6}
trial:
  prepare: [{actuator: aerator, value: 1, wait: 0.2 s}]
  settle: 0.2 s
  measure: {for: 1 s, every: 0.5 s, min_count: 1}
meters: [{name: acid, kind: volume, device: acid, price: 50 EUR/L}, {name: water, kind: fixed, price: 0.05 EUR}]
policy: {name: random}
safety:
  safe_state: {acid: "off", aerator: "off"}
  limits: {acid: {per_dose: 10 mL, per_day: 100 mL}}
  interlocks:
    - {name: empty, when: "level < 5 percent", then: trip}
    - {name: float, when: "dry > 0.5", then: trip}
  watch: {every: 0.5 s, clear_for: 1 s}
"""


class Pi:
    """The board: a tank whose pH falls by 0.2 with each mL, and begins each trial at 6.5."""

    def __init__(self, folder, monkeypatch):
        self.pump = Supplied()
        self.chip = Chip()
        self.chip.levels["22"] = False
        self.fresh_at_ml = 0.0
        clock = RealClock()
        self.adc = Adc(clock, in0=1.8)
        probe = Circuit(self.ph, clock, 0.9)
        self.bus = Bus(at_63=probe, at_67=Circuit(self.acid, clock), at_48=self.adc)
        monkeypatch.setattr(i2c_line, "KernelAdapter", self.bus)
        transfer = self.chip.transfer

        def switched(address, sent, count):
            if sent == b"on":  # the preparation: new water, a little warmer
                self.fresh_at_ml = self.pump.given_ml
                self.warm(self.warm_milli + 125)
            return transfer(address, sent, count)

        self.chip.transfer = switched
        monkeypatch.setattr(gpio_line, "KernelChip", self.chip)
        (folder / ID).mkdir(parents=True)
        self.thermometer = folder / ID / "w1_slave"
        self.warm(23000)

    def warm(self, milli):
        self.warm_milli = milli
        self.thermometer.write_text(f"{WARM} : crc=57 YES\n{WARM} t={milli}\n", encoding="ascii")

    def acid(self, command):
        return [line.decode() for line in self.pump(f"{command}\r".encode())[0].split(b"\r")]

    def ph(self, command):
        self.pump.pump()
        return sensor("pH", f"{6.5 - 0.2 * (self.pump.given_ml - self.fresh_at_ml):.3f}")(command)


@pytest.fixture
def pi(tmp_path, monkeypatch):
    return Pi(tmp_path / "w1", monkeypatch)


async def run(tmp_path, max_trials, listen=lambda event: None):
    (path := tmp_path / "rig.yaml").write_text(RIG.replace("W1", str(tmp_path / "w1")), encoding="utf-8")
    loaded, clock = load(path), RealClock()
    spec = replace(campaign_spec(loaded), max_trials=max_trials)
    return await run_campaign(
        spec, tmp_path / "state", rig_factory(loaded, clock), clock, listen, decider=ThreadDecider()
    )


def rows(tmp_path, sql):
    with closing(sqlite3.connect(tmp_path / "state" / "journal.sqlite")) as connection:
        return connection.execute(sql).fetchall()


async def test_a_campaign_of_three_trials(pi, tmp_path):
    """The pH is dosed to its setpoint each time, what was given is booked, and the relay is off at the end."""
    result = await run(tmp_path, 3)
    assert (result.ending, result.trials, result.safe.failed) == ("trials", 3, {})
    doses = rows(tmp_path, "SELECT state, dispensed_ml FROM doses")
    assert {state for state, _ in doses} == {"DONE"}
    assert sum(ml for _, ml in doses) == pytest.approx(pi.pump.given_ml, abs=0.02 * len(doses))
    assert [state for (state,) in rows(tmp_path, "SELECT state FROM trials")] == ["RECORDED"] * 3
    assert "17" in pi.chip.outputs
    assert pi.chip.levels["17"]  # active low


async def test_a_float_switch_trips_and_a_relay_goes_off(pi, tmp_path):
    """The tank runs empty in the first trial."""

    def drain(event):
        if type(event).__name__ == "TrialProposed":
            pi.chip.levels["22"] = True

    with pytest.raises(Tripped):
        await run(tmp_path, 3, drain)
    assert pi.chip.levels["17"] or "17" not in pi.chip.outputs
    assert pi.pump.asked_ml is None
