"""A pump that does not stop, an interlock that is not so and a sensor that stands still are found."""

from collections import Counter
from types import SimpleNamespace

import pytest

from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.plants.pump import Dispense
from tests.simulation.overrun import Overrun
from tests.simulation.truths import Truths


@pytest.mark.parametrize(
    ("now_s", "ended_s", "safes_s", "tripped", "found"),
    [
        (35.0, None, [], False, 0),  # 10 mL take 10.3 s: the deadline is at 17.8 s
        (39.0, None, [], False, 1),
        (39.0, 10.3, [], False, 0),
        (39.0, 18.5, [], True, 0),
        (39.0, 18.5, [], False, 1),
        (39.0, 18.5, [118.0], False, 0),
        (37.0, 18.5, [], False, 0),
    ],
)
def test_a_pump_that_runs_past_its_deadline_is_stopped_and_trips(now_s, ended_s, safes_s, tripped, found):
    """Unless it was broken off meanwhile; it has begun at 100 s, true time."""
    failed, circuit = [], object.__new__(PumpCircuit)
    entry = Dispense(1, 1, 10.0, 0.0, ended_s=ended_s, how="running" if ended_s is None else "stopped")
    circuit.pump = SimpleNamespace(now_s=now_s, log=[entry], max_rate_ml_per_min=58.5)
    witness = SimpleNamespace(
        seed=1, fail=failed.append, _ask=lambda _: [(1,)] * tripped, kernel=SimpleNamespace(now_s=100.0 + now_s),
        mischief=SimpleNamespace(done=Counter(pump=1)),
        plant=SimpleNamespace(assembly=SimpleNamespace(circuits={"bus": circuit})),
    )  # fmt: skip
    overrun = Overrun(witness, SimpleNamespace(bus_of=lambda _: "bus"))
    overrun.safes_s, overrun._troubles = safes_s, {"pump": 1}
    overrun.dispenses("pump", 1, "#1")
    for life in ("#1", "#2"):
        overrun.glance(SimpleNamespace(life=SimpleNamespace(name=life)))
    assert len(failed) == found


@pytest.fixture
def truths():
    """A lathe at 1000 s; what is found wrong is in `.failed`."""
    looking, failed = object.__new__(Truths), []
    variable = SimpleNamespace(name="speed", sensor="speed_sensor")
    looking.rig, looking._extras = SimpleNamespace(name="lathe", variables=[variable]), frozenset({"frozen"})
    looking.kernel, looking.met, looking.failed = SimpleNamespace(now_s=1000.0), Counter(), failed
    looking.witness = SimpleNamespace(
        fail=failed.append,
        plant=SimpleNamespace(assembly=SimpleNamespace(sensors={variable.sensor: SimpleNamespace(mode="frozen")})),
    )
    looking.trouble = SimpleNamespace(last_s=lambda _: 0.0)
    looking._near_s, looking._frozen_s, looking._standing = {}, {}, set()
    looking.is_sound = lambda _: True
    return looking


@pytest.mark.parametrize(
    ("kind", "state", "near_s", "found"),
    [
        ("interlock fast", "stands", 990.0, 0),
        ("interlock fast", "stands", 900.0, 1),
        ("interlock fast", "over", 900.0, 0),
        ("stale sensor", "stands", 900.0, 0),
    ],
)
def test_an_interlock_that_is_told_is_so(truths, kind, state, near_s, found):
    """Or was, not long before; by sensors that tell what is so."""
    truths._near_s["fast"] = near_s
    truths.alarmed(Alarm(Severity.MAJOR, "watch", "said", kind=kind, state=state))
    assert len(truths.failed) == found


@pytest.mark.parametrize(("lasts_s", "told", "found"), [(69.0, False, 0), (71.0, False, 1), (71.0, True, 0)])
def test_a_sensor_that_stands_still_is_found(truths, lasts_s, told, found):
    """Where it is watched for that, by a process that has been at work for so long."""
    running = SimpleNamespace(safe_first_s=900.0, life=SimpleNamespace(dead=False))
    truths.glance(running)
    truths.kernel.now_s += lasts_s
    if told:
        truths.alarmed(Alarm(Severity.MAJOR, "speed", "said", kind="frozen sensor", state="stands"))
    truths.glance(running)
    assert len(truths.failed) == found
