"""After a crash a safe value that is a number is for the instrument that was driven, not for whoever is there now."""

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest

from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.events import TrialEnded
from rigctl.config.load import load
from rigctl.console.assemble import rig_factory
from rigctl.console.safe import make_safe, safe_first
from rigctl.errors import IdentityMismatch
from rigctl.page.campaign import campaign_spec
from rigctl.rig.clocks import RealClock
from rigctl.rig.values import Alarm
from tests.campaign.fakes import TenLines, ThreadDecider
from tests.drivers.peers import TcpPeer, cut_lines, peers
from tests.drivers.test_scpi_output import Supply
from tests.profiles import slow_beyond

RIG = """
rig: bench
currency: EUR
budget: 1000 EUR
variables:
  a: {unit: V, range: [10, 30], sensor: heater, actuator: heater, natural: uniform}
  b: {unit: V, range: [0, 9], sensor: logic, actuator: logic, natural: uniform}
control_sets: all
outcome: {name: yield, unit: V, sensor: logic}
trial:
  settle: 0.1 s
  measure: {for: 0.2 s, every: 0.1 s, min_count: 1}
meters: [{name: water, kind: fixed, price: 0.05 EUR}]
devices:
  heater: {driver: scpi, bus: "tcp://127.0.0.1:A", timeout: 1 s, SUPPLY}
  logic: {driver: scpi, bus: "tcp://127.0.0.1:B", timeout: 1 s, SUPPLY}
safety:
  safe_state: {heater: HEATER, logic: 5}
"""
SUPPLY = (
    'unit: V, query: "MEAS:VOLT?", set: "VOLT {value}", confirm: "VOLT?", '
    'enable: {on: OUTP ON, off: OUTP OFF, state: "OUTP?"}'
)


class Numbered(Supply):
    """One of two of a model."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def __call__(self, command):
        if command == "*IDN?":
            return [] if self.number is None else [f"Acme,PS-30,{self.number},1.0"]
        return super().__call__(command)


def silent(_):
    """Who has no power."""
    return []


class Bench:
    """Two supplies of one model on two ports; `there` says which is on which."""

    def __init__(self, peer, folder):
        self.state = folder / "state"
        self.path = folder / "rig.yaml"
        self.supplies = Numbered("77"), Numbered("78")
        self.there = dict(enumerate(self.supplies))
        self.ports = [peer(TcpPeer, cut_lines(b"\n"), self.answering(port)).port for port in self.there]

    def answering(self, port):
        return lambda request: [f"{text}\n".encode() for text in self.there[port](request[:-1].decode())]

    def swap(self):
        """They change ports, and stand as their makers have left them."""
        self.there = {0: self.supplies[1], 1: self.supplies[0]}
        for supply in self.supplies:
            supply.volts, supply.on = 0.0, False

    @property
    def told(self):
        return [(supply.volts, supply.on) for supply in self.supplies]

    async def run(self, heater="24", listen=lambda _: None):
        text = RIG.replace("SUPPLY", SUPPLY).replace("HEATER", heater)
        for letter, port in zip("AB", self.ports, strict=True):
            text = text.replace(f":{letter}", f":{port}")
        self.path.write_text(text, encoding="utf-8")
        loaded, clock = load(self.path), RealClock()
        spec = replace(campaign_spec(loaded), policy=TenLines(), policy_name="ten-lines", policy_options={})
        make = rig_factory(loaded, clock)
        return await run_campaign(replace(spec, max_trials=1), self.state, make, clock, listen, decider=ThreadDecider())

    async def safe(self, config=None):
        """As `rigctl safe` does in a process of its own."""
        return (await asyncio.to_thread(make_safe, config, self.state, {})).report

    def edit_word(self, change):
        """Change what is said in `safe.json`."""
        path = self.state / "safe.json"
        change(said := json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(said), encoding="utf-8")


@pytest.fixture
def bench(tmp_path):
    with peers() as peer:
        yield Bench(peer, tmp_path)


NOTHING = [(0.0, False), (0.0, False)]


@pytest.mark.parametrize("by_configuration", slow_beyond(1, [False, True]))
async def test_a_number_is_not_sent_to_another_instrument(bench, by_configuration, golden):
    """24 V for a heater would have gone to what takes 5 V; it is told who is there, who should be, and what to do."""
    assert (await bench.run()).safe.ok
    assert bench.told == [(24.0, True), (5.0, True)]
    bench.swap()
    failed = (await bench.safe(bench.path if by_configuration else None)).failed
    assert bench.told == NOTHING
    golden(failed)


def insist(event):
    """What stays to make everything safe is ended by a second signal."""
    if isinstance(event, Alarm) and (event.kind, event.source) == ("unconfirmed", "safe state"):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
async def test_the_start_after_a_crash_sends_no_number_to_another_instrument(bench, golden):
    """Neither before it looks at the configuration, nor after it has found one wrong, and the other missing."""

    def power_cut(event):
        if isinstance(event, TrialEnded):
            bench.there = dict.fromkeys(bench.there, silent)
        insist(event)

    assert not (await bench.run(listen=power_cut)).safe.ok
    bench.swap()
    bench.edit_word(lambda said: said["writer"].update(boot="another"))
    assert set((await asyncio.to_thread(safe_first, bench.path, bench.state)).failed) == {"heater", "logic"}
    bench.there[1] = silent
    with golden.raises(IdentityMismatch):
        await bench.run(listen=insist)
    assert bench.told == NOTHING


@pytest.mark.slow
async def test_off_may_be_sent_to_anybody(bench):
    """It imposes nothing, and what was left on may stand there now."""
    await bench.run(heater='"off"')
    bench.swap()
    bench.supplies[1].on = True
    assert set((await bench.safe()).failed) == {"logic"}
    assert bench.told == NOTHING


def forget(said):
    """As version 1 left it."""
    said["version"] = 1
    for device in said["devices"]:
        del device["seen"]


@pytest.mark.slow
async def test_a_word_of_version_1_is_followed_as_it_was(bench):
    """It does not say who stood there."""
    await bench.run()
    bench.edit_word(forget)
    bench.swap()
    assert (await bench.safe()).ok
    assert bench.told == [(5.0, True), (24.0, True)]


@pytest.mark.slow
async def test_who_does_not_say_who_it_is_is_told_all_the_same(bench):
    """The answers may be lost while commands arrive."""
    await bench.run()
    for supply in bench.supplies:
        supply.volts, supply.number = 0.0, None
    assert not (await bench.safe()).ok
    assert bench.told == [(24.0, True), (5.0, True)]
