"""The rig layer over the real drivers and a simulated greenhouse in a process of its own."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.config.load import Overrides, load
from rigctl.errors import DeviceFault, ReadBackMismatch
from rigctl.rig import dosing
from rigctl.rig.clocks import RealClock
from rigctl.rig.protocols import ActuatorState, Severity
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.spec import MeasureSpec
from tests.rig.fakes import FakeDoseLog, Heard
from tests.simulated import start_sim

CONFIG = Path(__file__).parents[2] / "config/greenhouse.yaml"
TIMEOUT_S = 20.0
"""A machine that others use may hold up a process."""
RELEASED = ActuatorState(controlled=False, setpoint=None)
SPEED = 1200.0
SLOWLY = 40.0
"""A dose of a minute takes more than a second: it is still under way when a test has seen it on a busy machine."""


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    sim = start_sim("greenhouse", tmp_path_factory.mktemp("greenhouse"), speed=SPEED, seed=3)
    yield sim
    sim.stop()


@pytest.fixture(scope="module")
def slow_sim(tmp_path_factory):
    sim = start_sim("greenhouse", tmp_path_factory.mktemp("slow_greenhouse"), speed=SLOWLY, seed=3)
    yield sim
    sim.stop()


class Stand:
    """A rig over the simulator, its alarms and its dose log."""

    def __init__(self, sim):
        self.alarms = []
        self.doses = FakeDoseLog()
        spec = load(CONFIG, Overrides(buses=sim.buses)).rig
        patient = {name: replace(device, timeout_s=TIMEOUT_S) for name, device in spec.devices.items()}
        often = replace(spec.timing, measure=MeasureSpec(120.0, 15.0, "median", 3))
        spec = replace(spec, devices=patient, timing=often)
        self.rig = Rig(spec, Registry.installed(), RealClock(sim.speed), self.doses, Heard(self.alarms))

    @property
    def severities(self):
        return {a.severity for a in self.alarms}


@pytest.fixture
async def stand(sim):
    async with standing(sim) as stand:
        yield stand


@pytest.fixture
async def slow_stand(slow_sim):
    async with standing(slow_sim) as stand:
        yield stand


@asynccontextmanager
async def standing(sim):
    sim.control({"clear": True})
    stand = Stand(sim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dosing, "FLOOR_S", 0.2)
        yield stand
    await stand.rig.close()
    sim.control({"clear": True})


def doses_of(sim, pump):
    return [d for d in sim.state()["doses"] if d["pump"] == pump]


@pytest.mark.slow
async def test_what_is_chosen_is_controlled_and_the_rest_is_not(sim, stand):
    """Valve and dosed variable come to their setpoints in the plant itself; nothing else is driven."""
    await stand.rig.open()
    states = await stand.rig.control({"b": 30.0, "ca": 4.0})
    plant = sim.state()["plant"]
    assert states["b"] == ActuatorState(controlled=True, setpoint=pytest.approx(30.0))
    assert states["ca"] == ActuatorState(controlled=True, setpoint=4.0)
    assert [states[name] for name in ("nh4", "k", "ph")] == [RELEASED] * 3
    assert plant["setpoints"] == {"b": pytest.approx(30.0)}
    assert (plant["softener"], plant["alkaliser"], plant["refilling"]) == (True, False, False)
    assert plant["values"]["ca"] == pytest.approx(4.0, abs=0.1)
    assert stand.alarms == []


@pytest.mark.slow
async def test_a_restart_in_mid_dose_is_unknown_and_not_repeated(slow_sim, slow_stand):
    """Fault 21: `*RS` in mid-dose: booked in full, major alarm, no second dose."""
    await slow_stand.rig.open()
    known = len(doses_of(slow_sim, "ca_doser"))
    controlling = asyncio.create_task(slow_stand.rig.control({"ca": 5.5}))
    await asyncio.to_thread(
        slow_sim.wait_for, lambda s: len([d for d in s["doses"] if d["pump"] == "ca_doser"]) > known, "a dose"
    )
    slow_sim.control({"fault": "pump_reset", "bus": "ca"})
    with pytest.raises(DeviceFault, match="restarted"):
        await controlling
    assert slow_stand.doses.records[-1][0] == "unknown"
    assert Severity.MAJOR in slow_stand.severities
    assert len(doses_of(slow_sim, "ca_doser")) == known + 1


@pytest.mark.slow
async def test_a_short_dose_is_completed_by_another(sim, stand):
    """Fault 24: doses that end short are logged with what came out, alarmed, and what is missing is dosed.

    Of the first that a pump gives since it was switched on nobody could tell it from a restart.
    """
    await stand.rig.open()
    await stand.rig.control({"ca": 2.5})
    known, stand.alarms[:] = stand.doses.steps.count("done"), []
    sim.control({"fault": "pump", "bus": "ca", "short": 0.7})
    await stand.rig.control({"ca": 4.0})
    assert Severity.MINOR in stand.severities
    assert stand.doses.steps.count("done") >= known + 2
    assert sim.state()["plant"]["values"]["ca"] == pytest.approx(4.0, abs=0.15)


@pytest.mark.slow
async def test_a_pump_without_effect_is_given_up(sim, stand):
    """Fault 39: a pump that turns without anything arriving doses twice and no more."""
    await stand.rig.open()
    known = len(doses_of(sim, "ca_doser"))
    sim.control({"fault": "pump", "bus": "ca", "dry": True})
    with pytest.raises(ReadBackMismatch, match="response"):
        await stand.rig.control({"ca": 5.0})
    assert len(doses_of(sim, "ca_doser")) == known + 2
