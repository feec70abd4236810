"""Nothing leaves for a rig that was made safe: real drivers at speed 1, told by a PLC that nobody here wrote.

The PLC is pyModbusTCP's; what the valve and the refill were told is what it was told over the wire.
"""

import asyncio
import struct
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyModbusTCP.server import DataBank, DataHandler

from rigctl.campaign import awaiting
from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.events import TrialProposed
from rigctl.config.load import load
from rigctl.console.assemble import rig_factory
from rigctl.errors import RigctlError, Tripped
from rigctl.page.campaign import campaign_spec
from rigctl.rig.clocks import RealClock
from rigctl.rig.values import Alarm
from tests.campaign.fakes import TenLines, ThreadDecider
from tests.campaign.test_acts import ask, phases, soon
from tests.drivers.circuits import Pump
from tests.drivers.peers import PtyPeer, cut_lines, foreign_plc, peers

pytestmark = pytest.mark.slow

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

        def factory(doses, news):
            self.doses = doses
            return make(doses, news)

        return await run_campaign(spec, self.state, factory, clock, self.listen, decider=ThreadDecider())

    def alarmed(self, what):
        return any(what in str(event) for event in self.told if isinstance(event, Alarm))


@pytest.fixture
def bench(tmp_path):
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Plc()) as plc:
        yield Bench(plc, tmp_path / "state")


async def test_what_trips_before_a_trial_begins_opens_no_valve(bench, monkeypatch, golden):
    """The level falls while the journal is asked what is awaited: the PLC is told to switch nothing on."""
    asked = awaiting.Awaiting.in_the_way

    async def slowly(self):
        why = await asked(self)
        bench.plc.reads(PROBE, 5.0)
        await soon(lambda: bench.alarmed("empty"))
        return why

    monkeypatch.setattr(awaiting.Awaiting, "in_the_way", slowly)
    with golden.raises(Tripped):
        await bench.run(LATE)
    assert bench.plc.on == []


async def test_who_stops_what_waits_for_room_fills_no_tank(bench):
    """The second trial has no room under the pump's cap: stopped, it neither refills nor doses."""
    feeder = Feeder()

    def answer(request):
        return ["".join(f"{line}\r" for line in feeder(request[:-1].decode())).encode()]

    async def stop():
        await soon(lambda: phases(bench)[-1:] == ["WAITING"])
        before = list(bench.plc.on)
        await ask(bench, "stop", why="enough")
        return before

    with peers() as make:
        pump = make(PtyPeer, cut_lines(b"\r"), answer)
        stopping = asyncio.create_task(stop())
        result = await bench.run(*FEED, max_trials=9, pump=str(pump.path))
        before = await stopping
    assert (result.ending, result.trials, len(feeder.doses)) == ("stopped", 1, 1)
    assert bench.plc.on == before


async def test_what_is_asked_by_hand_does_not_leave_after_everything_was_made_safe(bench):
    """The journal is slow with the intent, the level falls, everything is made safe: the valve is not opened then."""
    returns, refused, pausing = threading.Event(), [], []

    def pause_once(event):
        if isinstance(event, TrialProposed) and not pausing:
            pausing.append(asyncio.create_task(ask(bench, "pause")))

    async def drive():
        try:
            await ask(bench, "manual", operation="set", device="valve", value=20.0)
        except RigctlError as error:
            refused.append(str(error))

    async def person():
        await soon(lambda: phases(bench)[-1:] == ["PAUSED"])
        journal, before = bench.doses._thread, bench.plc.offs
        bench.plc.on.clear()
        journal.submit(lambda _: returns.wait(30.0))
        driving = asyncio.create_task(drive())
        await soon(lambda: journal._executor._work_queue.qsize() > 0)
        bench.plc.reads(PROBE, 5.0)
        await soon(lambda: bench.plc.offs > before + 1)
        returns.set()
        await driving
        await ask(bench, "safe")

    bench.heard = pause_once
    acting = asyncio.create_task(person())
    await bench.run(then="hold", max_trials=3)
    await acting
    assert bench.plc.on == []
    assert "refused" in refused[0]
