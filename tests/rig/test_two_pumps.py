"""Pumps that move a reading both ways, and pumps that dose along with another as one act."""

import asyncio
from dataclasses import replace

import pytest

from rigctl.errors import CapReached, DeviceFault, DeviceTimeout, JournalUnwritable, ReadBackMismatch, Tripped
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import DosingSpec
from rigctl.rig.titration import Partner, Side
from rigctl.rig.values import OpenDose
from tests.rig.fakes import FakeLine, FakePump, FakeSensor
from tests.rig.pumps import Pumps


class World(Pumps):
    """A tank whose reading one pump lowers by 0.04 per mL and another raises by 0.05; `partner` goes along."""

    def __init__(self, *, start=6.3, down=-0.04, up=0.05):
        super().__init__("down", "up", "partner", per_day_ml=1000.0)
        self.start, self.really = start, {"down": down, "up": up}
        self.probe = FakeSensor("probe", FakeLine("fake://probe", self.clock), self.reading)

    def reading(self):
        return self.start + sum(by * (self.pumps[name].total_ml - 100.0) for name, by in self.really.items())

    def ph(self, *, both=True, ratio=None, max_doses=6):
        spec = DosingSpec("probe", -0.04, 0.04, 45.0, max_doses)
        partners = () if ratio is None else (Partner(self.handles["partner"], ratio, 20.0),)
        own = Side(spec, self.handles["down"], 50.0, partners)
        other = Side(replace(spec, effect_per_ml=0.05), self.handles["up"], 50.0)
        return self.titration(*[own, other][: 1 + both], probe=self.probe, name="ph", plausible=(0.0, 14.0))

    def started(self, name):
        return self.pumps[name].started

    async def act(self, a=20.0, b=30.0):
        return await self.dispenser.dispense_together([(self.handles["down"], a), (self.handles["partner"], b)])

    def booked(self):
        return {pump: (state, volume_ml) for pump, state, volume_ml in self.doses.rows}


@pytest.fixture
async def world():
    made = []

    def make(**options):
        made.append(World(**options))
        return made[-1]

    yield make
    for each in made:
        await each.close()


# up and down -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "ratio", "reached", "down", "up", "partner"),
    [
        ({"start": 5.5}, None, 6.0, [], [10.0], []),
        ({"start": 6.5}, None, 6.0, [12.5], [], []),
        ({"start": 5.97}, None, 5.97, [], [], []),  # the dead band is the tolerance, on both sides
        ({"start": 6.03}, None, 6.03, [], [], []),
        ({"start": 6.5, "down": -0.045}, None, 5.9375, [12.5], [], []),  # past it, yet not to be chased
        ({"start": 6.5, "down": -0.08}, None, 6.0, [12.5], [10.0], []),  # far too far is taken back once
        ({"start": 6.5}, 0.5, 6.0, [12.5], [], [6.25]),
        ({"start": 7.0}, 2.0, 6.0, [10.0, 10.0, 5.0], [], [20.0, 20.0, 10.0]),  # a partner gives 20 mL at once at most
    ],
)
async def test_what_is_missing_says_which_pump(world, how, ratio, reached, down, up, partner):
    """Below the setpoint the base doses, above it the acid, and with every dose its partner in its ratio."""
    tank = world(**how)
    assert await tank.ph(ratio=ratio).bring_to(6.0) == pytest.approx(reached)
    assert [tank.started(name) for name in ("down", "up", "partner")] == [
        pytest.approx(ml) for ml in (down, up, partner)
    ]


async def test_the_pumps_do_not_chase_each_other(world, golden):
    """Where both stocks are twice as strong, the second overshoot fails the trial: one turn, not a duel."""
    tank = world(start=6.5, down=-0.08, up=0.1)
    with golden.raises(ReadBackMismatch):
        await tank.ph().bring_to(6.0)
    assert (len(tank.started("down")), len(tank.started("up"))) == (1, 1)
    assert tank.alarms[-1].severity is Severity.MAJOR


async def test_with_one_pump_far_too_far_is_a_mismatch_still(world, golden):
    """What the other pump is for."""
    tank = world(start=6.5, down=-0.08)
    with golden.raises(ReadBackMismatch):
        await tank.ph(both=False).bring_to(6.0)


async def test_each_pump_has_its_own_caps(world):
    """The base's 24 hours are full: it does not dose, though the acid's are not."""
    tank = world(start=5.0)
    tank.doses.rows.append(("up", "DONE", 995.0))
    with pytest.raises(CapReached) as caught:
        await tank.ph().bring_to(6.0)
    assert caught.value.actuator == "up"
    assert len(tank.doses.rows) == 1


async def test_the_number_of_doses_is_bounded_for_each(world, golden):
    """A weak base gives up after its own number of doses, and the base pump is blamed, not the acid's."""
    tank = world(start=5.0, up=0.015)
    with golden.raises(ReadBackMismatch) as caught:
        await tank.ph(max_doses=2).bring_to(6.9)
    assert len(tank.started("up")) == 2
    assert (caught.value.devices, tank.alarms[-1].source) == ({"up", "probe"}, "up")


@pytest.mark.parametrize(("up", "max_doses"), [(0.015, 2), (0.0, 6)], ids=["weak", "empty"])
async def test_doses_are_counted_anew_for_the_pump_that_takes_back(world, up, max_doses, golden):
    """After a turn it has as many as any, and is given up after as many without response."""
    tank = world(start=6.5, down=-0.1, up=up)
    with golden.raises(ReadBackMismatch):
        await tank.ph(max_doses=max_doses).bring_to(6.0)
    assert (len(tank.started("down")), len(tank.started("up"))) == (1, 2)


async def test_evidence_is_kept_against_the_pump_that_dosed(world, golden):
    """An empty base canister is held against the base pump, not the acid's; so is the trial that fails of it."""
    tank = world(start=5.5, up=0.0)
    with golden.raises(ReadBackMismatch) as caught:
        await tank.ph().bring_to(6.0)
    assert (caught.value.devices, tank.alarms[-1].source) == ({"up", "probe"}, "up")
    assert (await tank.doses.unanswered("up", "probe")).doses == 2
    assert (await tank.doses.unanswered("down", "probe")).doses == 0


# in a ratio ------------------------------------------------------------------------------------------------------


async def test_the_reading_is_held_against_what_the_pump_gave_itself(world):
    """Not against its partner's volume, though both are one act."""
    tank = world(start=6.5)
    await tank.ph(ratio=0.5).bring_to(6.0)
    assert [expected for _, _, expected, _ in tank.doses.answers] == [pytest.approx(-0.5)]


@pytest.mark.parametrize("ratio", [0.54, 1.08])
async def test_a_partners_cap_lets_a_dose_of_just_so_much_through(world, ratio):
    """0.54 times (20 / 0.54) is 20.000000000000004, which its cap would refuse."""
    tank = world(start=9.0)
    await tank.ph(ratio=ratio, max_doses=9).bring_to(6.0)
    assert tank.started("partner")[0] == 20.0


async def test_both_intents_are_on_disk_before_either_moves(world):
    """Two intents, then the first pump from start to end, then the second."""
    tank = world()
    seen = []
    intend, start = tank.doses.intend, FakePump.start_dose

    async def intending(actuator, volume_ml, before_ml):
        seen.append(("intent", actuator))
        return await intend(actuator, volume_ml, before_ml)

    tank.doses.intend = intending
    for pump in tank.pumps.values():

        def starting(volume_ml, deadline, pump=pump):
            seen.append(("start", pump.name))
            start(pump, volume_ml, deadline)

        pump.start_dose = starting
    assert await tank.act() == [pytest.approx(20.0), pytest.approx(30.0)]
    assert seen == [("intent", "down"), ("intent", "partner"), ("start", "down"), ("start", "partner")]
    assert tank.booked() == {"down": ("DONE", 20.0), "partner": ("DONE", 30.0)}


async def test_a_cap_of_either_refuses_both(world):
    """The partner's 24 hours are full: the first does not move, and there is no trace of it."""
    tank = world()
    tank.doses.rows.append(("partner", "DONE", 990.0))
    with pytest.raises(CapReached):
        await tank.act()
    assert len(tank.doses.rows) == 1
    assert tank.started("down") == []


async def test_a_partner_that_is_dead_beforehand_moves_nothing(world):
    """Every pump is asked before any intent is written."""
    tank = world()
    tank.pumps["partner"].fail("ready", DeviceFault("no power"))
    with pytest.raises(DeviceFault):
        await tank.act()
    assert tank.doses.rows == []
    assert tank.started("down") == []


@pytest.mark.parametrize(
    ("pump", "fault", "error", "gave_ml"),
    [
        ("partner", lambda pump: pump.fail("start_dose", DeviceFault("motor")), DeviceFault, 20.0),
        ("down", lambda pump: pump.fail("start_dose", DeviceFault("motor")), DeviceFault, 0.0),
        ("down", lambda pump: setattr(pump, "short", 0.5), ReadBackMismatch, 10.0),
        ("down", lambda pump: setattr(pump, "endless", True), Tripped, None),
    ],
    ids=["the second dies", "the first dies", "the first falls short", "the first does not stop"],
)
async def test_a_pump_that_fails_leaves_the_next_unbegun(world, pump, fault, error, gave_ml, golden):
    """What was given is booked, of the other 0 mL; nothing is repeated, and no ratio kept up by one half of it."""
    tank = world()
    fault(tank.pumps[pump])
    with pytest.raises(error) as failed:
        await tank.act()
    assert tank.started("partner") == []
    assert tank.booked()["partner"] == ("DONE", 0.0)
    if gave_ml is not None:
        assert tank.booked()["down"] == ("DONE", gave_ml)
        assert len(tank.started("down")) == (pump == "partner" or gave_ml > 0)
        golden([failed.value, [(alarm.severity.name, alarm.message) for alarm in tank.alarms]])


async def test_the_second_pump_falls_silent_between(world, golden):
    """Nobody knows what it gave: booked in full, told, and nothing is sent again."""
    tank = world()
    partner = tank.pumps["partner"]
    sent = tank.doses.sent

    async def cut(dose):
        await sent(dose)
        if tank.doses.rows[dose - 1][0] == "partner":
            for operation in ("dose_status", "stop", "total_volume_ml"):
                partner.fail(operation, *[DeviceTimeout("silent")] * 500)

    tank.doses.sent = cut
    with golden.raises(DeviceTimeout):
        await tank.act()
    assert tank.booked()["down"] == ("DONE", 20.0)
    assert tank.booked()["partner"] == ("UNKNOWN", 30.0)
    assert len(partner.started) == 1
    golden([a.message for a in tank.alarms])


async def test_a_second_intent_that_cannot_be_written_moves_nothing(world):
    """The disk is full: the first intent stays open, to be settled by its pump's total as nothing."""
    tank = world()
    intend = tank.doses.intend

    async def full(actuator, volume_ml, before_ml):
        if actuator == "partner":
            raise JournalUnwritable("disk full")
        return await intend(actuator, volume_ml, before_ml)

    tank.doses.intend = full
    with pytest.raises(JournalUnwritable):
        await tank.act()
    assert tank.started("down") == []
    assert tank.booked() == {"down": ("INTENT", 20.0)}
    await tank.dispenser.settle(tank.handles["down"], OpenDose(1, "down", 20.0, 100.0))
    assert tank.booked() == {"down": ("DONE", 0.0)}


async def test_an_act_that_is_broken_off_is_settled_pump_by_pump(world):
    """Cancelled while the first runs, as by a hold: each total testifies, and nothing is dosed to complete it."""
    tank = world()

    async def broken_off(seconds):
        tank.clock.time_s += 10.0
        raise asyncio.CancelledError

    tank.clock.rest = broken_off
    with pytest.raises(asyncio.CancelledError):
        await tank.act()
    assert tank.booked() == {"down": ("SENT", 20.0), "partner": ("INTENT", 30.0)}
    for number, (name, _, volume_ml) in enumerate(list(tank.doses.rows), start=1):
        left = OpenDose(number, name, volume_ml, 100.0)
        await tank.dispenser.settle(tank.handles[name], left)
    assert tank.booked() == {"down": ("DONE", pytest.approx(10.0)), "partner": ("DONE", 0.0)}
    assert (len(tank.started("down")), len(tank.started("partner"))) == (1, 0)
