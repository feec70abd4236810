"""A rig whose time runs faster than the wall's is opened only if every bus says that it is simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigctl.errors import IdentityMismatch


async def test_a_rig_that_does_not_say_it_is_simulated_is_not_opened_faster_than_the_wall(bench, make_rig):
    """Every bus is named; nothing is written, and at the wall's pace the same rig is opened."""
    rig = make_rig(replace(bench.spec(), speedup=2400.0))
    with pytest.raises(IdentityMismatch) as caught:
        await rig.open()
    for url in bench.lines:
        assert f"{url}: nothing here says that it is simulated, but clock.speedup is 2400" in str(caught.value)
    assert all(not call.startswith(("apply", "dose")) for line in bench.lines.values() for call in map(str, line.log))
    assert set(await make_rig().open()) == set(bench.devices)


async def test_one_device_of_each_bus_is_enough_to_say_so(bench, make_rig):
    """And one bus that does not keeps the whole rig closed."""
    speakers = {d.line.url: d for d in bench.devices.values()}
    for device in speakers.values():
        device.simulated = lambda deadline: True  # the ability's signature
    await make_rig(replace(bench.spec(), speedup=2400.0)).open()
    real = next(iter(speakers))
    speakers[real].simulated = lambda deadline: False
    with pytest.raises(IdentityMismatch) as caught:
        await make_rig(replace(bench.spec(), speedup=2400.0)).open()
    assert str(caught.value).count("nothing here says") == 1
    assert real in str(caught.value)
