"""What holds a campaign up, on real lines at speed 1: a PLC that nobody here wrote, and a pump on a serial port."""

import asyncio
import struct
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field

import pytest
from pyModbusTCP.constants import EXP_GATEWAY_TARGET_DEVICE_FAILED_TO_RESPOND as UNHEARD

from rigctl.campaign.events import TrialEnded, TrialProposed, TrialStep
from rigctl.campaign.trial import State
from rigctl.core.experiment.money import to_units
from rigctl.rig.clocks import Civil, Clock
from rigctl.rig.values import Alarm
from tests.campaign.fakes import open_journal
from tests.campaign.test_acts import ask, phases, soon
from tests.campaign.test_at_speed_one import BALANCE, FEED, PROBE, Bench, Feeder, Plc
from tests.drivers.peers import PtyPeer, cut_lines, foreign_plc, peers

pytestmark = pytest.mark.slow

MAINS = 8
"""Input register."""
SETPOINT, VALVE, REFILL = 10, 1, 5
"""Where the valve's is held, and coils."""
LOOK = ("  settle: 0.2 s", "  look: {for: 0.4 s, every: 0.2 s}\n  settle: 0.2 s")
METER = (
    ("meters: [", "meters: [{name: mains, kind: energy, device: mains, price: 0.3 EUR/kWh}, "),
    (
        "\nsafety:",
        "\n  mains: {driver: modbus, bus: plc, unit: kWh, counter: true, read: {at: 8, type: float32}}\nsafety:",
    ),
)
LATE = (", sensor: balance}", ", sensor: balance, after: 0.3 s, within: WITHIN, pending: 1}")


class Board(Plc):
    """The same PLC; what stands behind it may be unheard, another hand may be at it, and it may keep answers back."""

    def __init__(self):
        super().__init__()
        self.reads(MAINS, 12.5)
        self.unheard: set[int] = set()
        self.asked: list[int] = []
        """Input registers that were."""
        self.set_to: list[float] = []
        """Setpoints of the valve."""
        self.meddle = lambda: None
        """Called whenever the refill was told to end."""
        self.answers = threading.Event()
        self.answers.set()

    def read_i_regs(self, address, count, srv_info):
        self.asked.append(address)
        if address in self.unheard:
            return self.Return(exp_code=UNHEARD)
        return super().read_i_regs(address, count, srv_info)

    def write_h_regs(self, address, words_l, srv_info):
        self.set_to.append(struct.unpack(">f", struct.pack(">HH", *words_l))[0])
        return super().write_h_regs(address, words_l, srv_info)

    def write_coils(self, address, bits_l, srv_info):
        self.answers.wait(30.0)
        done = super().write_coils(address, bits_l, srv_info)
        if address == REFILL and not any(bits_l):
            self.meddle()
        return done

    @property
    def open(self):
        """Tell whether the valve is."""
        return self.data_bank.get_coils(VALVE, 1) == [True]


@dataclass
class Ahead(Clock):
    """Real time, of which a test may let some pass at once."""

    speedup: float = 1.0
    civil: Civil = field(default_factory=Civil)
    passed_s: float = 0.0

    def now_s(self):
        return time.clock_gettime(time.CLOCK_BOOTTIME) + self.passed_s

    def sleep(self, seconds):
        time.sleep(seconds)


@pytest.fixture
def bench(tmp_path):
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Board()) as plc:
        yield Bench(plc, tmp_path / "state")
        plc.answers.set()


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


def running(bench):
    """How many trials have got as far as being measured."""
    return sum(isinstance(event, TrialStep) and event.state is State.RUNNING for event in bench.told)


async def test_a_pause_shuts_the_valve_also_after_a_wait_for_room_that_was_broken_off(bench, feeder):
    """Resumed while everything still goes safe, it goes on with its trial; the pause after that is told to the PLC."""
    bench.clock, plc = Ahead(), bench.plc

    async def person():
        await soon(lambda: phases(bench)[-1:] == ["WAITING"])
        plc.answers.clear()
        await ask(bench, "pause", now=True)
        await ask(bench, "resume")
        bench.clock.passed_s = 90_000.0
        plc.answers.set()
        await soon(lambda: running(bench) == 2)
        assert plc.open
        await ask(bench, "pause")
        await soon(lambda: phases(bench)[-1:] == ["PAUSED"])
        shut = not plc.open
        await ask(bench, "stop", why="enough")
        return shut

    acting = asyncio.create_task(person())
    both = (FEED[0][0], FEED[0][1].replace("[[feed]]", "[[b, feed]]"))
    await bench.run(both, *FEED[1:], then="warn", max_trials=9, pump=feeder.path)
    assert await acting
    assert len(feeder.doses) == 2


async def test_a_valve_that_another_hand_has_set_beyond_its_range_takes_no_step(bench, golden):
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
    assert (was_set, plc.set_to, plc.on, plc.open) == ([99.0], [], [], False)


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


async def test_a_meter_that_is_gone_before_a_look_is_waited_for(bench):
    """The campaign holds, and asks for it ever less often; the PLC is told to refill nothing before it is back."""
    plc, gone = bench.plc, []

    def go():
        if not gone:
            gone.append(MAINS)
            plc.unheard.add(MAINS)

    async def mend():
        try:
            await soon(lambda: gone and phases(bench)[-1:] == ["HOLDING"])
            before = plc.asked.count(MAINS)
            await asyncio.sleep(1.0)
            return plc.asked.count(MAINS) - before, list(plc.on)
        finally:
            plc.unheard.clear()

    plc.meddle = go
    mending = asyncio.create_task(mend())
    await bench.run(LOOK, *METER, max_trials=1)
    asked, filled = await mending
    assert (filled, [row.state for row in ended(bench)]) == ([], [State.RECORDED])
    assert asked < 20
    assert [event.kind for event in bench.told if isinstance(event, Alarm)].count("trial failed") == 1


@pytest.mark.parametrize(
    ("ails", "within", "states", "why"),
    [
        ("frozen", "6 s", [State.RECORDED, State.RECORDED, State.FAILED], "reads 5.0 to the last digit in 3 trials"),
        ("dead", "1 s", [State.FAILED], "the unit behind the gateway is silent"),
    ],
    ids=["frozen", "dead"],
)
async def test_an_outcome_is_not_taken_late_from_a_sensor_that_ails(bench, ails, within, states, why):
    """The probe moves from trial to trial, the balance does not, or is not heard of again while a trial awaits it."""
    plc = bench.plc

    def go(event):
        if isinstance(event, TrialStep) and event.state is State.RUNNING:
            plc.reads(PROBE, 20.0 + event.trial)
            plc.unheard.update({BALANCE} if ails == "dead" else ())

    bench.heard = go
    await bench.run(LATE, max_trials=len(states), within=within)
    with closing(open_journal(bench.state, bench.clock)) as journal:
        assert [row.state for row in journal.read.trials()] == states
    assert any(why in str(event) for event in bench.told if isinstance(event, Alarm))


async def test_a_trial_that_costs_more_than_it_may_shuts_the_valve_and_is_charged_by_the_meter(bench):
    """While the valve is open the meter rises by 1 EUR a question: at more than 3 EUR the PLC is told to shut it."""
    plc, kwh = bench.plc, [12.5]
    read = plc.read_i_regs

    def rising(address, count, srv_info):
        if address == MAINS and plc.open:
            kwh.append(kwh[-1] + 0.01)
            plc.reads(MAINS, kwh[-1])
        return read(address, count, srv_info)

    plc.read_i_regs = rising
    dear = (
        ("0.3 EUR/kWh", "100 EUR/kWh"),
        ("budget: 1000 EUR", "budget: {total: 1000 EUR, max_per_trial: 3 EUR}"),
        ("  settle: 0.2 s", "  settle: 30 s"),
    )
    await bench.run(*METER, *dear, max_trials=1)
    (row,) = ended(bench)
    assert (row.state, row.estimated, plc.open) == (State.ABANDONED, False, False)
    assert len(kwh) in (4, 5)
    assert to_units(row.cost) == pytest.approx(100 * (kwh[-1] - kwh[0]) + 0.05, abs=1e-3)
    told = [event for event in bench.told if isinstance(event, Alarm)]
    assert [(alarm.kind, alarm.source) for alarm in told] == [("too dear", "trial 1")]
