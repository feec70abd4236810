"""A rig that is whole gives no false alarm, and no mistake of Python's own is taken in: what breaks that is found."""

from collections import Counter
from decimal import Decimal
from types import SimpleNamespace

import pytest

from rigctl.campaign.events import CampaignStarted, TrialStep
from rigctl.errors import DeviceFault, in_words
from rigctl.rig import dosing, handle, safing
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, SafeReport
from sim_rig.faults import WireFaults
from tests.simulation.calm import Calm
from tests.simulation.mistakes import Mistakes
from tests.simulation.way import PLC, WayToSafety


@pytest.fixture
def witness():
    """A rig without anything wrong, at 1000 s; what is found wrong is in `.failed`."""
    failed = []
    life = SimpleNamespace(dead=False)
    return SimpleNamespace(
        failed=failed,
        fail=failed.append,
        extras=frozenset(),
        kernel=SimpleNamespace(now_s=1000.0),
        controller=SimpleNamespace(running=SimpleNamespace(life=life)),
        mischief=SimpleNamespace(
            listeners=[], done=Counter(), dirty_until_s=0.0, disk_until_s=0.0, hand_at_s=0.0, _dirty=lambda _: None
        ),
        plant=SimpleNamespace(assembly=SimpleNamespace(sensors={}, circuits={}, wire_faults={PLC: WireFaults()})),
        promises=SimpleNamespace(course=SimpleNamespace(dosed=True)),
        _ask=lambda *_: [],
    )


async def nothing():
    """Do nothing, later."""


@pytest.mark.parametrize(
    ("error", "found"),
    [(TypeError("no"), 1), (KeyError("no"), 1), (DeviceFault("no"), 0), (OSError("no"), 0), (UnicodeError("no"), 0)],
)
def test_a_mistake_that_is_taken_in_is_found(witness, error, found):
    """Whoever puts it into words, under whatever name; what instruments and disks do is no mistake."""
    with Mistakes(witness).installed():
        for where in (safing, dosing):
            assert where.in_words(error) == in_words(error)
    assert len(witness.failed) == 2 * found
    assert safing.in_words is in_words


def test_a_device_that_cannot_say_what_it_is_asked_is_found(witness):
    """There is another way for what asks it, but our own drivers can."""
    with Mistakes(witness).installed():
        assert safing.said(lambda: {}["group"], None) is None
        assert handle.said(lambda: 3, None) == 3
    assert len(witness.failed) == 1


@pytest.mark.parametrize("dead", [True, False])
def test_what_nobody_awaits_is_found(witness, dead, monkeypatch):
    """Of the program's own, and in a life that has not been ended meanwhile."""
    witness.controller.running.life.dead = dead
    coroutine = SimpleNamespace(__qualname__="f", cr_code=SimpleNamespace(co_filename="/x/rigctl/rig/guard.py"))
    Mistakes(witness)._unawaited(lambda _: None)(coroutine)
    assert len(witness.failed) == (not dead)


@pytest.mark.parametrize(
    ("kind", "state", "trouble_s", "found"),
    [
        ("read-back", "once", 0.0, 1),
        ("low stock", "once", 0.0, 0),
        ("line", "over", 0.0, 0),
        ("line", "stands", 850, 0),
    ],
)
def test_a_false_alarm_is_found(witness, kind, state, trouble_s, found):
    """In a life that began at 900 s, before which nothing was wrong for a minute."""
    calm, witness.kernel.now_s = Calm(witness, SimpleNamespace(spoilt=False)), 900.0
    calm.heard(None, CampaignStarted("run", Decimal(1), "EUR", "now", 0))
    witness.kernel.now_s, calm._last_s = 1000.0, trouble_s
    calm.heard(None, Alarm(Severity.MAJOR, "pump", "said", kind=kind, state=state))
    assert len(witness.failed) == found


@pytest.mark.parametrize(
    ("state", "extras", "estimated", "found"),
    [
        ("FAILED", frozenset(), [], 1),
        ("FAILED", frozenset({"caps"}), [], 0),
        ("RECORDED", frozenset(), [("mains", "why")], 1),
        ("RECORDED", frozenset(), [("tool", "why")], 0),
        ("RECORDED", frozenset(), [], 0),
        ("ABANDONED", frozenset(), [("mains", "why")], 0),
    ],
)
def test_a_trial_that_fails_or_is_charged_by_estimate_without_a_reason_is_found(
    witness, state, extras, estimated, found
):
    """One that begins and ends while nothing is wrong."""
    witness.extras, witness._ask = extras, lambda *_: estimated
    calm = Calm(witness, SimpleNamespace(spoilt=False, in_bursts={"tool"}))
    calm.heard(None, TrialStep(3, "ARMED", 0.0))
    calm._ended(SimpleNamespace(row=SimpleNamespace(trial=3, state=state, because="so")))
    assert len(witness.failed) == found
    assert calm._calm_since(900.0)
    calm._noted("delay", {})
    assert not calm._calm_since(900.0)


@pytest.mark.parametrize(("after_s", "dosed", "found"), [(300.0, True, 1), (30.0, True, 0), (300.0, False, 0)])
def test_a_setpoint_that_doses_miss_is_found_once_the_tank_moves_by_itself_no_more(witness, after_s, dosed, found):
    """A refill and a treatment that were waited for for seconds only go on in the tank."""
    witness.promises.course.dosed = dosed
    calm = Calm(witness, SimpleNamespace(spoilt=False))
    calm.heard(None, TrialStep(3, "ARMED", 0.0))
    witness.kernel.now_s += after_s
    calm.heard(None, Alarm(Severity.MAJOR, "pump", "no response", kind="setpoint missed"))
    calm._ended(SimpleNamespace(row=SimpleNamespace(trial=3, state="FAILED", because="so")))
    assert len(witness.failed) == found


@pytest.fixture
def way(witness):
    witness.is_safe, witness.mischief._ask, witness.seed = lambda name: name == "off", lambda **_: None, 1
    trouble = SimpleNamespace(
        bus_of=lambda _: PLC, hears=lambda name: name != "deaf", glance=lambda: None, quiet_all=True
    )
    return WayToSafety(witness, trouble, Counter())


@pytest.mark.parametrize(("name", "found"), [("valve", 1), ("off", 0), ("deaf", 0)])
def test_what_could_have_been_told_and_stays_on_is_found(way, name, found):
    """Its answers may be lost; what it is told arrives."""
    way._is_told(SafeReport((), {name: "no answer"}))
    assert len(way._witness.failed) == found


@pytest.mark.parametrize(("began_s", "more", "failed", "found"), [
    (999.9, 0, {"valve": "refused"}, 1), (999.9, 0, {}, 0), (999.9, 1, {"valve": "refused"}, 0),
    (1000.6, 0, {"valve": "refused"}, 0),
])  # fmt: skip
def test_who_gives_up_what_refuses_for_half_a_second_is_found(way, began_s, more, failed, found):
    """With nothing else wrong, and if that was while everything was made safe."""
    way._witness.mischief._ask = lambda **_: way._witness.plant.assembly.wire_faults[PLC].pending.append("refuses")
    way._kernel.after = lambda *_: None
    way.refuse(0.5)
    way._kernel.now_s, way._witness.mischief.done["silence"] = 1002.0, more
    way._is_patient(SafeReport((), failed), began_s)
    assert len(way._witness.failed) == found
