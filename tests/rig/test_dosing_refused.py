"""What a pump says of a refusal, and whether it was the dose that it refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout
from tests.drivers.circuits import Pump
from tests.drivers.peers import PtyPeer, cut_lines, peers
from tests.golden import Golden
from tests.rig.boards import reading, rig_of
from tests.rig.fakes import FakeDoseLog
from tests.rig.test_dosing import World

END = b"\r"


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.bus.close()


async def test_a_refusal_of_something_else_is_none_of_the_dose(world):
    """A pump that hears noise while it runs says `*ER` to it; its total tells that the dose was given."""
    asked = world.pump.dose_status
    world.pump.dose_status = lambda deadline: replace(asked(deadline), fault="*ER")
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.doses.records[-1] == ("done", 1, 20.0)
    world.pump.fault_after_start = "*ER"
    with pytest.raises(DeviceFault, match="refused"):
        await world.dispense()


async def test_a_refusal_counts_in_full_where_the_total_cannot_be_asked(world, golden: Golden):
    """A pump that refuses and whose total cannot be read may have taken the dose and refused noise: booked in full."""
    world.pump.fault_after_start = "*ER"
    start = world.pump.start_dose

    def then_silent(volume_ml, deadline):
        start(volume_ml, deadline)
        world.pump.fail("total_volume_ml", *[DeviceTimeout("silent")] * 9)

    world.pump.start_dose = then_silent
    with pytest.raises(DeviceFault) as refused:
        await world.dispense()
    golden(refused.value)
    assert world.doses.records[-1] == ("unknown", 1, 20.0)


@pytest.mark.parametrize("before", ["D,", "D, and over", "D,?"], ids=["as it begins", "over soon", "meanwhile"])
async def test_noise_that_an_ezo_pump_refuses_is_no_refusal_of_the_dose(before):
    """The motor's own noise on the wire, ended by a carriage return: `*ER`, and the dose goes on to its end."""
    pump, doses, asked = Pump(), FakeDoseLog(), []

    def answer(request):
        command, told = request[:-1].decode(), pump(request[:-1].decode())
        if command == "D,?" and pump.running:
            asked.append(command)
            told = [*told, *(["*ER"] if before == "D,?" else []), *([pump.finish().decode()] if asked[1:] else [])]
        elif command.startswith("D,1") and before != "D,?":
            told = ["*ER", *told, *([pump.finish().decode()] if "over" in before else [])]
        return ["".join(f"{line}\r" for line in told).encode()]

    with peers() as make:
        url = f"serial://{make(PtyPeer, cut_lines(END), answer).path}?quiet=0.1"
        rig = rig_of({}, reading("modbus_tcp://127.0.0.1:1"), doses, pumps={"doser": ("ezo-pmp", url, {}, 2.0)})
        assert await rig.hands.dose("doser", 1.0) == pytest.approx(1.0)
        await rig.close()
    assert doses.records[-1] == ("done", 1, 1.0)
