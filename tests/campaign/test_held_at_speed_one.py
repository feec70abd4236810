"""What holds a campaign up, on real lines at speed 1: a PLC that nobody here wrote, and a pump on a serial port."""

from __future__ import annotations

import asyncio
import struct

import pytest

from rigctl.campaign import awaiting
from rigctl.campaign.events import TrialEnded, TrialProposed
from rigctl.campaign.trial import State
from rigctl.errors import Tripped
from tests.campaign.plc_bench import FEED, LATE, PROBE, Bench, Feeder, Plc
from tests.campaign.test_acts import ask, phases, soon
from tests.drivers.peers import PtyPeer, cut_lines, foreign_plc, peers
from tests.golden import Golden

pytestmark = pytest.mark.slow

SETPOINT, VALVE, REFILL = 10, 1, 5
"""Where the valve's is held, and coils."""


class Board(Plc):
    """The same PLC; another hand may be at it."""

    def __init__(self):
        super().__init__()
        self.set_to: list[float] = []
        """Setpoints of the valve."""
        self.meddle = lambda: None
        """Called whenever the refill was told to end."""

    def write_h_regs(self, address, words_l, srv_info):
        self.set_to.append(struct.unpack(">f", struct.pack(">HH", *words_l))[0])
        return super().write_h_regs(address, words_l, srv_info)

    def write_coils(self, address, bits_l, srv_info):
        done = super().write_coils(address, bits_l, srv_info)
        if address == REFILL and not any(bits_l):
            self.meddle()
        return done


@pytest.fixture
def bench(tmp_path):
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Board()) as plc:
        yield Bench(plc, tmp_path / "state")


@pytest.fixture
def feeder():
    """A pump on a serial port, at `path`."""
    pump = Feeder()

    def answer(request):
        return ["".join(f"{line}\r" for line in pump(request[:-1].decode())).encode()]

    with peers() as make:
        pump.path = str(make(PtyPeer, cut_lines(b"\r"), answer).path)
        yield pump


def ended(bench):
    return [event.row for event in bench.told if isinstance(event, TrialEnded)]


async def test_what_trips_before_a_trial_begins_opens_no_valve(bench, monkeypatch, golden: Golden):
    """The level falls while the journal is asked what is awaited: the PLC is told to switch nothing on."""
    asked = awaiting.Awaiting.in_the_way

    async def slowly(self):
        why = await asked(self)
        bench.plc.reads(PROBE, 5.0)
        await soon(lambda: bench.alarmed("empty"))
        return why

    monkeypatch.setattr(awaiting.Awaiting, "in_the_way", slowly)
    with pytest.raises(Tripped) as refused:
        await bench.run(LATE)
    golden(refused.value)
    assert bench.plc.on == []


async def test_a_valve_that_another_hand_has_set_beyond_its_range_takes_no_step(bench, golden: Golden):
    """The PLC is told no setpoint; it is told to shut the valve, and the trial fails."""
    plc, was_set = bench.plc, []

    def other_hand():
        if any(isinstance(event, TrialProposed) for event in bench.told) and not was_set:
            was_set.append(99.0)
            plc.data_bank.set_holding_registers(SETPOINT, list(struct.unpack(">HH", struct.pack(">f", 99.0))))
            plc.data_bank.set_coils(VALVE, [True])

    plc.meddle = other_hand
    steps = ('refill: "off"}\n', 'refill: "off"}\n  limits: {valve: {max_step: 5 uM}}\n')
    await bench.run(steps, max_trials=1)
    golden(ended(bench)[0].because)
    assert (was_set, plc.set_to, plc.on, plc.data_bank.get_coils(VALVE, 1)) == ([99.0], [], [], [False])


async def test_a_dose_that_was_given_though_the_pump_heard_noise_counts_under_the_cap(bench, feeder):
    """It says `*ER` to the noise: the dose is not taken for refused, and the next one, beyond its cap, is not sent."""
    obeys = feeder.__class__.__call__

    class Disturbed(Feeder):
        def __call__(self, command):
            said = obeys(self, command)
            return ["*ER", *said] if command.startswith("D,0") else said

    feeder.__class__ = Disturbed

    async def stop():
        await soon(lambda: phases(bench)[-1:] == ["WAITING"])
        await ask(bench, "stop", why="enough")

    stopping = asyncio.create_task(stop())
    await bench.run(*FEED, max_trials=9, pump=feeder.path)
    await stopping
    assert ([row.state for row in ended(bench)], len(feeder.doses)) == ([State.RECORDED], 1)
