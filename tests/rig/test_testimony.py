"""What a pump gave, by what it says, in every sequence in which it restarts and its notice of that is lost."""

import itertools
from contextlib import suppress

import pytest

from rigctl.errors import DeviceError, DeviceFault, DeviceTimeout, Tripped
from rigctl.rig.protocols import DoseStatus, Reading
from rigctl.rig.testimony import Account
from tests.rig.pumps import Pumps

ASKED_ML = 20.0
FULL = Account(ASKED_ML, 1.1, before_ml=100.0, total_ml=120.0, most_ml=30.0, shown_ml=20.0, timely=True)
NEVER = float("inf")


def said(total_ml, shown_ml=0.0, *, before_ml=100.0, ran_at_ml=None, timely=False, reset=False, most_ml=30.0):
    return Account(ASKED_ML, 1.1, before_ml, total_ml, most_ml, shown_ml, ran_at_ml, timely, reset)


@pytest.mark.parametrize(
    ("heard", "given_ml"),
    [
        (said(120.0, 20.0, timely=True), 20.0),
        (said(120.0, 20.0, timely=True, reset=True), None),
        (said(None, 20.0, timely=True), 20.0),
        (said(None, 20.0), None),
        (said(None, 18.8, timely=True), None),
        (said(20.0, 20.0, timely=True), 20.0),
        (said(125.0, 20.0, timely=True), 25.0),
        (said(620.0, 20.0, timely=True), 20.0),
        (said(620.0), None),
        (said(100.0, 20.0), 0.0),
        (said(105.0), 5.0),
        (said(99.995), 0.0),
        (said(99.99), 0.0),
        (said(99.0), None),
        (said(112.0, 12.0, ran_at_ml=10.0), 12.0),
        (said(112.0, 9.0, ran_at_ml=10.0), None),
        (said(112.0, 9.995, ran_at_ml=10.0), 12.0),
        (said(112.0, 0.01, ran_at_ml=0.01), 12.0),
        (said(100.0, 0.0, ran_at_ml=0.0), None),
        (said(120.0, 20.0, ran_at_ml=50.0), 20.0),
        (said(0.0, before_ml=0.0), None),
        (said(0.0, before_ml=0.0, timely=True), None),
        (said(21.1, before_ml=19.0), None),
        (said(21.2, before_ml=19.0), pytest.approx(2.2)),
        (said(20.0, before_ml=0.0), 20.0),
        (said(20.0, before_ml=1.1), 20.0),
        (said(20.0, before_ml=1.2), None),
    ],
)
def test_what_counts_of_what_a_pump_says(heard, given_ml):
    """Each rule, and each of its edges: only what no restart can hide behind counts."""
    assert heard.given_ml == given_ml


def restarting(world, *, at_s, before_ml, short, hears_noise, confirms, deaf, shows_target):
    """Let the pump restart so many seconds after the dose was sent, and never tell of it."""
    pump, sent_s, start = world.pump, [], world.pump.start_dose
    status, total, given = pump.dose_status, pump.total_volume_ml, [0.0]
    pump.total_ml, pump.short, world.given = before_ml, short, given

    def advance():
        if sent_s and sent_s[0] + at_s <= world.clock.now_s() and len(sent_s) == 1:
            now_s, world.clock.time_s = world.clock.time_s, sent_s[0] + at_s
            pump._advance()
            world.clock.time_s = now_s
            given[0] = pump._status.dispensed_ml
            pump.restart()
            sent_s.append(now_s)

    def start_dose(volume_ml, deadline):
        sent_s.append(world.clock.now_s())
        if at_s < 0:
            pump.restart()
            sent_s.append(world.clock.now_s())
        start(volume_ml, deadline)
        if hears_noise:
            raise DeviceFault("*ER")
        if not confirms:
            raise DeviceTimeout("lost")

    def dose_status(deadline):
        advance()
        if sent_s and len(world.line.log) % 3 in deaf:
            world.line.log.append("lost")
            raise DeviceTimeout("lost")
        said = status(deadline)
        return DoseStatus(said.running, ASKED_ML if said.running and shows_target else said.dispensed_ml)

    def total_volume_ml(deadline):
        advance()
        return total(deadline)

    pump.start_dose, pump.dose_status, pump.total_volume_ml = start_dose, dose_status, total_volume_ml


def booked(records):
    """The volume at which the last dose was settled."""
    assert records[-1][0] in ("done", "unknown")
    return records[-1][2]


@pytest.mark.slow
@pytest.mark.parametrize("before_ml", [0.0, 0.005, 1.0, 19.0, 21.0, 100.0])
@pytest.mark.parametrize("at_s", [-1.0, 0.3, 2.0, 7.0, 19.9, NEVER])
async def test_a_dose_is_never_booked_at_less_than_was_given(before_ml, at_s):
    """Whenever the pump restarts, whatever it confirms, refuses and shows, and whatever answers are lost."""
    starts = ((False, True), (False, False), (True, False))  # whoever hears noise hears no confirmation
    shown = (*itertools.product(((), (0,)), (False, True)), ((0, 1, 2), False))  # of the last nothing is ever heard
    for short, (hears_noise, confirms), (deaf, shows_target) in itertools.product((1.0, 0.6), starts, shown):
        world = Pumps()
        restarting(
            world,
            at_s=at_s,
            before_ml=before_ml,
            short=short,
            hears_noise=hears_noise,
            confirms=confirms,
            deaf=deaf,
            shows_target=shows_target,
        )
        with suppress(DeviceError, Tripped):
            await world.dispense(ASKED_ML)
        given_ml = max(world.given[0], world.pump._status.dispensed_ml)
        assert booked(world.doses.records) >= given_ml - 0.011, (short, hears_noise, confirms, deaf, shows_target)
        await world.close()


@pytest.mark.parametrize("before_ml", [0.0, 1.0, 3.0, 19.0, 21.0, 100.0])
@pytest.mark.parametrize("given_ml", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("restarts", ["before", "after", "never"])
async def test_a_dose_left_open_is_never_settled_at_less_than_was_given(before_ml, given_ml, restarts):
    """After a crash the pump's total is all there is: it may have begun at 0 before the dose, or after it."""
    world = Pumps()
    world.pump.total_ml = {"before": given_ml, "after": 0.0, "never": before_ml + given_ml}[restarts]
    await world.settle(before_ml, ASKED_ML)
    assert booked(world.doses.records) >= given_ml - 0.011
    await world.close()


async def test_a_hand_on_the_button_in_mid_dose_counts_too():
    """What the total rose by beyond the dose is booked with it, and told."""
    world = Pumps()
    pour = world.pump.total_volume_ml
    world.pump.total_volume_ml = lambda deadline: Reading(
        pour(deadline).value + 2.0 * bool(world.pump.started), "mL", 0.0
    )
    assert await world.dispense(ASKED_ML) == pytest.approx(22.0)
    assert [a.kind for a in world.alarms] == ["dose over"]
    await world.close()


async def test_90_a_total_that_jumps_is_told_and_not_booked():
    """A pump that gives 60 mL in a minute did not give 500 mL in 20 s: the dose counts as the pump shows it."""
    world = Pumps()
    pour = world.pump.total_volume_ml
    world.pump.total_volume_ml = lambda deadline: Reading(
        pour(deadline).value + 500.0 * bool(world.pump.started), "mL", 0.0
    )
    assert await world.dispense(ASKED_ML) == pytest.approx(ASKED_ML)
    assert world.doses.records[-1] == ("done", 1, ASKED_ML)
    assert [(a.kind, a.source) for a in world.alarms] == [("total jumped", world.pump.name)]
    await world.close()
