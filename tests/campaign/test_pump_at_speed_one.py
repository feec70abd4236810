"""Pumps whose own account is wrong, at speed 1: the daemon, its journal on disk, and a pump on a serial port.

Each pump is a model of the data sheet's, by the wall clock: it gives at its rate as long as it runs, and it alone knows
what it gave.
"""

import asyncio
import errno
import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from rigctl.campaign.events import TrialEnded, TrialProposed
from rigctl.errors import RigctlError, Tripped
from rigctl.rig.clocks import RealClock
from rigctl.rig.values import Alarm
from rigctl_drivers import i2c_line
from tests.campaign.test_acts import ask, phases, soon
from tests.campaign.test_at_speed_one import FEED, Bench, Plc
from tests.drivers import pump_apart
from tests.drivers.i2c_parts import Bus, Circuit
from tests.drivers.peers import PtyPeer, cut_lines, foreign_plc, peers
from tests.profiles import nightly_beyond

pytestmark = pytest.mark.slow

RATE_ML_PER_S = 5.0
VOLUME_ML, CAP_ML = 20.0, 60.0
DOSES = 6
LARGE = [
    (old, new.replace("per_dose: 0.7 mL, per_day: 0.8 mL", "per_dose: 25 mL, per_day: 60 mL")) for old, new in FEED
]
LARGE.append(("wait: 0.2 s", "wait: 60 s"))
"""So that the first trial is paused before it doses."""
I2C = ('bus: "serial://PUMP?quiet=0.1"', 'bus: "i2c:///dev/i2c-1", address: 0x67')
METER = ("meters: [", "meters: [{name: feed, kind: volume, device: feeder, price: 50 EUR/L}, ")


class Supplied:
    """A dosing pump on a supply that breaks down each time after so many mL; its notice of that arrives garbled."""

    def __init__(self, breaks_after_ml=None, jumps_ml=0.0):
        self.given_ml = 0.0
        """What really came out, since ever: no counter of the pump's."""
        self.doses = []
        self.breaks_after_ml, self.jumps_ml = breaks_after_ml, jumps_ml
        self.total_ml = self.last_ml = 0.0
        self.asked_ml, self.seen_s, self.noise = None, time.monotonic(), b""

    def pump(self):
        """Let the time that has passed since have its effect."""
        now_s = time.monotonic()
        poured_ml, self.seen_s = RATE_ML_PER_S * (now_s - self.seen_s), now_s
        if self.asked_ml is None:
            return
        until_ml = min(self.asked_ml, self.breaks_after_ml or self.asked_ml)
        poured_ml = min(poured_ml, until_ml - self.last_ml)
        self.given_ml += poured_ml
        self.total_ml += poured_ml
        self.last_ml += poured_ml
        if self.last_ml < until_ml - 1e-9:
            return
        if until_ml < self.asked_ml:
            self.total_ml = self.last_ml = 0.0
            self.noise = b"*R\xd3\r*\xd2E\r"
        self.asked_ml = None

    def __call__(self, request):
        self.pump()
        command = request[:-1].decode()
        noise, self.noise = self.noise, b""
        running = int(self.asked_ml is not None)
        known = {
            "i": "?I,PMP,1.06",
            "D,?": f"?D,{self.last_ml:.2f},{running}",
            "TV,?": f"?TV,{self.total_ml:.2f}",
            "Dstart,?": "?DSTART,0.00",
            "DC,?": f"?MAXRATE,{60 * RATE_ML_PER_S:.1f}",
            "PV,?": "?PV,12.00",
        }
        if command in known:
            return [noise + f"{known[command]}\r*OK\r".encode()]
        if command == "X":
            self.asked_ml = None
            return [noise + f"*DONE,{self.last_ml:.2f}\r".encode()]
        if command.startswith("D,"):
            self.asked_ml, self.last_ml = float(command[2:]), 0.0
            self.total_ml += self.jumps_ml
            self.doses.append(self.asked_ml)
            return [noise + b"*OK\r"]
        return [noise + b"*ER\r"]


class SlowToSay(Supplied):
    """Says that a dose is over once the next one has been sent; gives a little more of the first than of others."""

    def __call__(self, request):
        command, over = request[:-1].decode(), b""
        if command.startswith("D,") and command != "D,?":
            self.pump()
            over = f"*DONE,{self.last_ml:.2f}\r".encode() if self.doses else b""
            request = f"D,{float(command[2:]) * (0.98 if self.doses else 1.02):.2f}\r".encode()
        return [over + b"".join(super().__call__(request))]


@pytest.fixture
def bench(tmp_path):
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Plc()) as plc:
        yield Bench(plc, tmp_path / "state")


@pytest.fixture
def wired():
    """Puts a pump on a serial port; returns its path."""
    with peers() as make:
        yield lambda pump: str(make(PtyPeer, cut_lines(b"\r"), pump).path)


@pytest.fixture
def on_i2c(monkeypatch):
    """Puts a pump on an I2C bus; returns the bus."""

    def make(pump):
        def answers(command):
            return [line.decode() for line in pump(f"{command}\r".encode())[0].split(b"\r")]

        bus = Bus(at_67=Circuit(answers, RealClock()))
        monkeypatch.setattr(i2c_line, "KernelAdapter", bus)
        return bus

    return make


@contextmanager
def apart(fault):
    """A pump in a process of its own: where it is, and what ends it and returns what it gave."""
    command = [sys.executable, str(Path(pump_apart.__file__)), fault]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            path = process.stdout.readline().strip()
            yield path, lambda: json.loads(process.communicate(timeout=120)[0])
        finally:
            process.kill()


def rows(bench, sql):
    with closing(sqlite3.connect(bench.state / "journal.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(sql).fetchall()


def kinds(bench, source):
    told = [event for event in bench.told if isinstance(event, Alarm)]
    return {alarm.kind for alarm in told if alarm.source == source}


async def by_hand(bench, doses, *changes, volume_ml=VOLUME_ML, **values):
    """Run a campaign, pause it, send so many doses by hand, and stop; returns those that were answered by an error."""
    refused, pausing = [], []

    def pause_once(event):
        if isinstance(event, TrialProposed) and not pausing:
            pausing.append(asyncio.create_task(ask(bench, "pause", now=True)))

    async def person():
        await soon(lambda: phases(bench)[-1:] == ["PAUSED"])
        for _ in range(doses):
            try:
                await ask(bench, "manual", operation="dose", device="feeder", volume_ml=volume_ml)
            except RigctlError as error:
                refused.append(error)
        await ask(bench, "stop", why="enough")

    bench.heard = pause_once
    acting = asyncio.create_task(person())
    await bench.run(*LARGE, *changes, **values)
    await acting
    return refused


@pytest.mark.parametrize("breaks_after_ml", [18.0, 4.0])
async def test_fault_81_a_pump_that_browns_out_in_each_dose_never_passes_its_cap(bench, wired, breaks_after_ml):
    """Six doses of 20 mL are asked for under a cap of 60 mL in 24 h: what was given is no more than what is booked."""
    pump = Supplied(breaks_after_ml)
    check_browned_out(bench, pump, await by_hand(bench, DOSES, pump=wired(pump)))


@pytest.mark.parametrize("breaks_after_ml", nightly_beyond(1, [18.0, 4.0]))
async def test_fault_112_nor_does_one_on_i2c_which_tells_of_no_restart(bench, on_i2c, breaks_after_ml):
    """The same six doses: its counts alone show that it restarted."""
    pump = Supplied(breaks_after_ml)
    on_i2c(pump)
    check_browned_out(bench, pump, await by_hand(bench, DOSES, I2C))


async def test_fault_110_a_dose_on_a_bus_that_hangs_is_booked_in_full(bench, on_i2c):
    """As soon as the dose was sent, until after its deadline; then the pump is asked to stand still."""
    pump = Supplied()
    bus = on_i2c(pump)

    def free():
        limit_s, booked = time.monotonic() + 60.0, "SELECT 1 FROM doses WHERE state = 'UNKNOWN'"
        while time.monotonic() < limit_s and not rows(bench, booked):
            time.sleep(0.1)
        bus.error = 0

    def answers(command):
        said = [line.decode() for line in pump(f"{command}\r".encode())[0].split(b"\r")]
        if command.startswith("D,") and command != "D,?":
            bus.error = errno.ETIMEDOUT
            threading.Thread(target=free).start()
        return said

    bus.parties[0x67].answers = answers
    with suppress(RigctlError):
        await bench.run(*FEED, I2C, max_trials=1)
    (dose,) = rows(bench, "SELECT * FROM doses")
    assert (dose["state"], len(pump.doses)) == ("UNKNOWN", 1)
    assert dose["dispensed_ml"] >= pump.given_ml > 0
    assert "dose unknown" in kinds(bench, "feeder")


def check_browned_out(bench, pump, refused):
    doses = rows(bench, "SELECT * FROM doses")
    booked_ml = sum(dose["dispensed_ml"] for dose in doses)
    assert pump.given_ml <= booked_ml <= CAP_ML, pump.given_ml
    assert {dose["state"] for dose in doses} == {"UNKNOWN"}
    assert (len(pump.doses), len(refused)) == (CAP_ML // VOLUME_ML, DOSES)
    assert kinds(bench, "feeder") == {"dose unknown"}


@pytest.mark.parametrize("over", ["serial", "i2c"])
async def test_fault_81_a_pump_that_does_not_brown_out_is_believed_beside_it(bench, wired, on_i2c, over):
    """The same doses on a sound supply: booked as they were given, and told to nobody."""
    pump = Supplied()
    if over == "i2c":
        on_i2c(pump)
        refused = await by_hand(bench, 3, I2C)
    else:
        refused = await by_hand(bench, 3, pump=wired(pump))
    assert [dose["dispensed_ml"] for dose in rows(bench, "SELECT * FROM doses")] == pytest.approx([VOLUME_ML] * 3)
    assert (refused, kinds(bench, "feeder")) == ([], set())


async def test_a_pump_that_is_slow_to_say_that_a_dose_is_over_is_booked_by_each(bench, wired):
    """Each takes a second. What is said of the one before is not taken for the one that was sent since."""
    pump = SlowToSay()
    refused = await by_hand(bench, 2, volume_ml=5.0, pump=wired(pump))
    assert [dose["dispensed_ml"] for dose in rows(bench, "SELECT * FROM doses")] == pytest.approx(pump.doses)
    assert (pump.doses, refused) == ([5.1, 4.9], [])


async def test_fault_90_a_pump_s_total_that_jumps_by_500_ml_is_marked_and_teaches_nothing(bench, wired):
    """The trial is charged by its dose, the line is marked, and a person is told."""
    pump = Supplied(jumps_ml=500.0)
    with suppress(RigctlError):
        await bench.run(*FEED, METER, max_trials=1, pump=wired(pump))
    (line,) = rows(bench, "SELECT * FROM ledger WHERE meter = 'feed'")
    assert (line["estimated"], line["quantity"]) == (1, pytest.approx(pump.given_ml, abs=0.011))
    assert line["amount_micros"] == pytest.approx(50_000 * pump.given_ml, abs=600)
    (booked,) = rows(bench, "SELECT sum(dispensed_ml) AS ml FROM doses")
    assert booked["ml"] == pytest.approx(pump.given_ml, abs=0.011)
    assert kinds(bench, "feeder") == {"total jumped"}


async def test_fault_90_a_total_that_jumps_between_trials_is_charged_by_the_doses_of_that_time(bench, wired):
    """A person gives 0.6 mL while the campaign is paused, and the total jumps by 500 mL: 0.6 mL are idle use."""
    pump, acting = Supplied(), []

    async def person():
        await ask(bench, "pause")
        await soon(lambda: phases(bench)[-1:] == ["PAUSED"])
        await ask(bench, "manual", operation="dose", device="feeder", volume_ml=0.6)
        pump.total_ml += 500.0
        await soon(lambda: "total jumped" in kinds(bench, "feeder"))
        await ask(bench, "resume")

    def paused_once(event):
        if isinstance(event, TrialEnded) and not acting:
            acting.append(asyncio.create_task(person()))

    bench.heard = paused_once
    feed = [(old, new.replace("per_day: 0.8 mL", "per_day: 8 mL")) for old, new in FEED]
    await bench.run(*feed, METER, pump=wired(pump))
    await acting[0]
    (idle,) = rows(bench, "SELECT sum(quantity) AS ml, sum(amount_micros) AS micros FROM idle WHERE meter = 'feed'")
    assert (idle["ml"], idle["micros"]) == (pytest.approx(0.6, abs=0.011), pytest.approx(30_000, abs=600))
    charged = rows(bench, "SELECT sum(quantity) AS ml FROM ledger WHERE meter = 'feed'")[0]["ml"]
    assert charged + idle["ml"] == pytest.approx(pump.given_ml, abs=0.05)


@pytest.mark.parametrize("fault", ["mute", "cut"])
async def test_fault_25_a_pump_silent_to_its_deadline_and_then_found_to_run_trips(bench, fault):
    """In a process of its own, at a real pump's latencies: what it really gave is booked, and it stands still."""
    with apart(fault) as (path, told):
        with pytest.raises(Tripped):
            await bench.run(*FEED, ("?quiet=0.1", ""), max_trials=1, pump=path)
        pump = told()
    assert (len(pump["doses"]), pump["running"]) == (1, False)
    (dose,) = rows(bench, "SELECT dispensed_ml AS ml FROM doses")
    assert pump["doses"][0] < pump["given_ml"] == pytest.approx(dose["ml"], abs=0.011)
    assert rows(bench, "SELECT 1 FROM trips WHERE reset_utc IS NULL")
    assert "dose over" in kinds(bench, "feeder")
