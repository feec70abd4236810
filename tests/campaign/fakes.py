"""A rig that outlives the process, a clock it keeps, and a policy of ten lines."""

import asyncio
import inspect
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.decide import decide
from rigctl.campaign.decider import Decider
from rigctl.campaign.events import RigSeen
from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.replay import replay
from rigctl.campaign.spec import CampaignSpec
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.policy import BudgetSpent, NotWorthIt, Proposal
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.errors import NoAnswer
from rigctl.rig.clocks import Civil, Clock
from rigctl.rig.metering import ASLEEP
from rigctl.rig.protocols import ActuatorState, DeviceOptions, Identity, Reading, Severity
from rigctl.rig.spec import (
    DeviceSpec,
    DosingSpec,
    MeasureSpec,
    MeterSpec,
    OutcomeSpec,
    RigSpec,
    TrialTiming,
    VariableWiring,
)
from rigctl.rig.values import Alarm, Measurement, RigGlance, SafeReport
from tests.campaign.fake_hands import FakeHands
from tests.campaign.fake_looks import FakeLooks

ML_PER_UNIT = 2.0
SETTLE_S = 60.0


class World:
    """What is physically there: counters and what was done to them, kept in an append-only file.

    Whoever restarts the controller finds the world as it was left; `at` is called at every instant at which the
    controller could be killed with a different effect on the world.
    """

    def __init__(self, path, at: Callable[[str], None] = lambda _: None):
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.at = at
        self.log = [json.loads(line) for line in os.pread(self._file, 1 << 24, 0).splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._file)

    def do(self, what, **facts):
        """Something happens, and cannot be undone."""
        self.at(f"before {what}")
        self.log.append({"what": what, **facts})
        os.write(self._file, json.dumps(self.log[-1]).encode() + b"\n")
        self.at(f"after {what}")

    def total(self, what, key):
        return sum(entry[key] for entry in self.log if entry["what"] == what)

    def count(self, what):
        return sum(entry["what"] == what for entry in self.log)

    @property
    def now_s(self):
        return 1000.0 + self.total("time", "s")


@dataclass
class FakeClock(Clock):
    """Rig time as the world has it; waiting takes no wall time worth naming."""

    world: World
    speedup: float = 1e7
    civil: Civil = field(default_factory=Civil)

    def now_s(self):
        return self.world.now_s

    def suspended_s(self):
        return self.world.total("asleep", "s")

    def sleep(self, seconds):
        self.world.do("time", s=seconds)


class RestingClock(FakeClock):
    """The same, if waits pass in the world, too."""

    stepped = True

    async def rest(self, seconds):
        self.world.do("time", s=max(0.0, seconds))
        await asyncio.sleep(0)

    def beside(self, work):
        return [asyncio.create_task(one) for one in work]

    async def meanwhile(self, event):
        waiting = asyncio.ensure_future(event)
        while not waiting.done():
            await self.rest(0.1 * self.speedup)
        return waiting.result()


class Patient(RestingClock):
    """Waits in small steps, so that somebody can say something meanwhile."""

    async def rest(self, seconds):
        self.world.do("time", s=min(max(0.0, seconds), 60.0))
        await asyncio.sleep(0.001)


@dataclass
class FakeRig(FakeLooks):
    """Two variables: `a` is dosed, `b` has a valve. Faults are put into the dictionaries by operation."""

    world: World
    doses: object
    on_alarm: Callable
    fail: dict = field(default_factory=dict)
    """Operation -> exception to raise, or a callable that does what it likes."""
    measured: dict = field(default_factory=dict)
    """Name -> Measurement to report instead."""
    seen: dict = field(default_factory=dict)
    """The same of looks."""
    counters: dict = field(default_factory=dict)
    """Meter -> function from the true reading to the reported one."""
    watched: bool = False
    """Whether meters are read in mid-trial, all the time."""
    metered: tuple = ("power", "acid")
    """Meters that count."""
    unsafe: list = field(default_factory=list)
    """What `safe` cannot confirm, attempt by attempt: dictionaries of reasons; then everything is safe."""
    idle_kwh: float = 0.0
    """Used right after every reading of the meters, so that something is used between any two trials."""
    further: dict = field(default_factory=dict)
    """Outcomes besides `y`: name -> function of `a` and `b`."""
    found: dict = field(default_factory=lambda: {"pump": Identity("fake")})
    """Who answers, by device."""
    shows: object = field(default_factory=RigGlance)
    """What a look at it shows, or a function that says so."""
    missing: list = field(default_factory=list)
    """What roll calls find missing, one after the other; then nothing."""
    reads: dict = field(default_factory=dict)
    """What sensors read between trials."""
    astray: dict = field(default_factory=dict)
    """What reads back something else at the end of a trial."""
    late: tuple = ()  # outcomes that come later
    calls: list = field(default_factory=list)
    tripped: str | None = None
    hands: FakeHands = field(default_factory=FakeHands)

    async def _op(self, name):
        self.calls.append(name)
        fault = self.fail.get(name)
        if isinstance(fault, BaseException):
            raise fault
        if fault is not None:
            answer = fault()
            if inspect.isawaitable(answer):
                await answer

    async def open(self):
        await self._op("open")
        return self.found

    async def control(self, setpoints, *, prepared=False):
        await self._op("control")
        self.world.do("control", setpoints=dict(setpoints))
        if "a" in setpoints:
            await self._dose(setpoints["a"] * ML_PER_UNIT)
        self.world.do("time", s=30.0)
        await self._op("control end")
        return {name: ActuatorState(name in setpoints, setpoints.get(name)) for name in ("a", "b")}

    async def _dose(self, volume_ml):
        intent = await self.doses.intend("pump", volume_ml, self.world.total("dose", "ml"))
        self.world.do("dose", ml=volume_ml, intent=intent)
        await self.doses.sent(intent)
        await self.doses.done(intent, volume_ml, "")

    async def measure(self, *, look=False, late=False):
        if look:
            return await self.look_at()
        await self._op("measure late" if late else "measure")
        if not late:
            self.world.do("energy", kwh=0.125)
            self.world.do("time", s=SETTLE_S)
        last = next(e["setpoints"] for e in reversed(self.world.log) if e["what"] == "control")
        values = {"a": last.get("a", 4.0), "b": last.get("b", 0.25)}
        values["y"] = values["a"] * (1.0 - values["b"] ** 2)
        values |= {name: f(values["a"], values["b"]) for name, f in self.further.items()}
        return {n: self.measured.get(n, Measurement(v, 0.01, 5)) for n, v in values.items() if (n in self.late) is late}

    async def meters_meanwhile(self):
        await asyncio.sleep(0 if self.watched else 3600)
        return {n: r for n, r in (await self.meters()).items() if n in self.metered}

    async def meters(self):
        await self._op("meters")
        totals = {"power": (self.world.total("energy", "kwh"), "kWh"), "acid": (self.world.total("dose", "ml"), "mL")}
        totals = {name: total for name, total in totals.items() if name in self.metered}
        totals[ASLEEP] = (self.world.total("asleep", "s"), "s")
        readings = {name: self._reading(name, value, unit) for name, (value, unit) in totals.items()}
        if self.idle_kwh:
            self.world.do("energy", kwh=self.idle_kwh)
        return readings

    def _reading(self, name, value, unit):
        reading = Reading(value, unit, self.world.now_s)
        return self.counters[name](reading) if name in self.counters else reading

    @property
    def driven(self):
        return self.hands.driven

    async def safe(self):
        await self._op("safe")
        self.world.do("safe")
        self.hands.driven = {}
        failed = self.unsafe.pop(0) if self.unsafe else {}
        return SafeReport(tuple(n for n in ("pump", "valve") if n not in failed), failed)

    def glance(self):
        return self.shows() if callable(self.shows) else self.shows

    async def roll_call(self):
        await self._op("roll_call")
        return self.missing.pop(0) if self.missing else {}

    async def snapshot(self):
        return {name: Reading(value, "1", self.world.now_s) for name, value in self.reads.items()}

    async def verify(self):
        await self._op("verify")
        return self.astray

    async def trip(self, reason):
        self.tripped = self.tripped or reason
        return await self.safe()

    async def settle_doses(self, open_doses):
        await self._op("settle_doses")
        for dose in open_doses:
            risen = self.world.total("dose", "ml") - dose.total_before_ml
            await self.doses.done(dose.dose, risen, "settled from the pump's counter")

    async def close(self):
        await self._op("close")


class ThreadDecider(Decider):
    """Decides beside the event loop, in its process: for policies that stand in a test, and return."""

    async def start(self, policy, problem):
        pass

    async def decide(self, question, limit_s):
        try:
            return await asyncio.wait_for(asyncio.to_thread(decide, question), limit_s)
        except TimeoutError:
            raise NoAnswer(f"no decision within {limit_s:g} s") from None

    async def close(self):
        pass


@dataclass(frozen=True)
class TenLines:
    """Round robin; remembers how often it was asked and the best outcome so far."""

    name: str = "ten-lines"
    cost: float = 1.0

    def initial_state(self, problem):
        return {"asked": 0, "best": -math.inf}

    def propose(self, state, problem, history, rng):
        if to_units(problem.budget - history.spent) < self.cost:
            raise BudgetSpent(f"less than {self.cost} left")
        chosen = len(history) % len(problem.space.control_sets)
        dimension = len(problem.space.control_sets[chosen].indices)
        best = max([state["best"], *(float(y) for y in history.y)])
        setting = tuple(float(u) for u in rng.random(dimension))
        proposal = Proposal(len(history) + 1, self.name, "explore", chosen, setting, "its turn")
        return proposal, {"asked": state["asked"] + 1, "best": best}


@dataclass(frozen=True)
class SoonContent(TenLines):
    """Its own stopping rule fires after two trials."""

    def propose(self, state, problem, history, rng):
        if len(history) >= 2:
            raise NotWorthIt("no trial is worth 0.5")
        return super().propose(state, problem, history, rng)


def make_space():
    """`a` on [0, 10] mM, `b` on [0, 1] V."""
    variables = [Variable("a", "mM", 0.0, 10.0, Uniform()), Variable("b", "V", 0.0, 1.0, Uniform())]
    return Space.of(variables, [["a"], ["b"], ["a", "b"]])


METERS = (
    MeterSpec("energy", Decimal("0.30"), "mains", "power", max_per_trial=5.0),
    MeterSpec("volume", Decimal("0.01"), "pump", "acid"),
    MeterSpec("time", Decimal(2), name="labour"),
    MeterSpec("fixed", Decimal("0.05"), name="water"),
)


def make_rig_spec(**changes):
    """The wiring of the fake rig."""
    fields = {
        "name": "fake",
        "devices": {"pump": DeviceSpec("pump", "fake", "fake://pump", DeviceOptions(), 1.0)},
        "variables": (VariableWiring("a", "a_probe", "pump", 0.1), VariableWiring("b", "b_probe", "valve", 0.1)),
        "outcomes": (OutcomeSpec(name="y", unit="1", sensor="scale"),),
        "timing": TrialTiming(SETTLE_S, MeasureSpec(10.0, 2.0, "median", 3)),
        "meters": METERS,
        "limits": {},
        "dosing": {"pump": DosingSpec("a_probe", 0.5, 0.1, 0.0, 1)},
    }
    return RigSpec(**{**fields, **changes})


def make_spec(budget=100, **changes):
    """A campaign on the fake rig."""
    fields = {
        "rig": make_rig_spec(),
        "problem": Problem(make_space(), to_micros(budget)),
        "policy": TenLines(),
        "policy_name": "ten-lines",
        "policy_options": {},
        "seed": 7,
        "currency": "EUR",
        "config_text": "rig: fake\n",
        "decision_limit_s": 30.0,
        "max_trials": 3,
    }
    return CampaignSpec(**{**fields, **changes})


def open_journal(directory, clock):
    """A journal of a machine that never reboots."""
    return Journal(directory, clock, "boot-1")


def unsynced(journal):
    """The same journal without waiting for the disk: a killed process, unlike a power loss, loses nothing it wrote."""
    journal._connection.execute("PRAGMA synchronous = OFF")
    return journal


INVALID = Measurement(math.nan, math.nan, 0, 5, Severity.INVALID, "no answer")


class Stage:
    """A campaign on the fake rig: its world, its state directory, what was told, and the rig last used."""

    def __init__(self, directory, at=lambda _: None):
        self.directory = directory
        self.state = directory / "state"
        self.world = World(directory / "world.jsonl", at)
        self.told, self.seen = [], []
        self.rig = None

    def clock(self):
        return FakeClock(self.world)

    def make_rig(self, **faults):
        """A rig factory; the rig it makes is kept as `rig`."""

        def factory(doses, news):
            self.rig = FakeRig(self.world, doses, news.alarm, **faults)
            self.rig.hands.rig = self.rig
            return self.rig

        return factory

    async def run(self, spec=None, journal=open_journal, decider=None, signals=None, **faults):
        spec = spec or make_spec()
        faults.setdefault("late", spec.rig.late_names)
        return await run_campaign(
            spec,
            self.state,
            self.make_rig(**faults),
            self.clock(),
            self._hear,
            open_journal=journal,
            signals=signals,
            decider=decider or ThreadDecider(),
        )

    def _hear(self, event):
        # what is seen of the rig is told as time passes, so how often depends on how busy the machine is
        (self.seen if isinstance(event, RigSeen) else self.told).append(event)

    def journal(self):
        """The journal, opened for reading."""
        return open_reader(self.state)

    def trials(self):
        """All trials of its journal."""
        with self.journal() as journal:
            return journal.trials()

    def trial(self, number):
        with self.journal() as journal:
            return journal.trial(number)

    def acts(self):
        """What people did, as its journal has it."""
        with self.journal() as journal:
            return journal.people.acts()

    def alarms(self):
        return [event for event in self.told if isinstance(event, Alarm)]


def metered(journal, meter):
    """How far a counter rose from the first trial's `before` to the last one's `after`."""
    phases = [journal.meter_readings(row.trial, phase) for row in journal.trials() for phase in ("before", "after")]
    values = [readings[meter].value for readings in phases if meter in readings]
    return values[-1] - values[0]


def charged(journal, meter):
    """What the ledger says was used, in trials and beside them."""
    return sum(line.quantity for line in (*journal.ledger(), *journal.idle.rows()) if line.meter == meter)


def sound(stage, spec):
    """The journal holds, and every decision comes out again from it alone."""
    with stage.journal() as journal:
        assert violations(journal) == ()
        assert [t.differences for t in replay(journal, spec) if not t.agrees] == []
