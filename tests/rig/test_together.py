import asyncio

import pytest

from rigctl.errors import DeviceTimeout, IdentityMismatch, PortUnavailable, Tripped
from rigctl.rig.handle import combined, together
from tests.golden import Golden


async def give(value):
    return value


async def fail(error):
    raise error


async def test_results_come_in_order():
    """What was asked for comes back in the order it was asked for."""
    assert await together(give(1), give(2)) == [1, 2]


async def test_the_others_finish_before_the_error_is_raised():
    """One failure does not break off the others."""
    finished = []

    async def slow():
        for _ in range(3):
            await asyncio.sleep(0)
        finished.append(True)

    with pytest.raises(DeviceTimeout):
        await together(fail(DeviceTimeout("silent")), slow())
    assert finished == [True]


def test_several_errors_become_one_of_the_worst_kind_with_all_messages(golden: Golden):
    """The kind of the worst decides, and every message is told once."""
    errors = [
        DeviceTimeout("a silent"),
        PortUnavailable("b held"),
        IdentityMismatch("c wrong"),
        DeviceTimeout("a silent"),
    ]
    error = combined(errors)
    assert isinstance(error, PortUnavailable)
    golden(str(error))
    assert isinstance(error.__cause__, BaseExceptionGroup)
    assert error.__cause__.exceptions == tuple(errors)


def test_a_trip_outranks_what_follows_from_it():
    """A trip is what the caller gets to see first."""
    assert isinstance(combined([DeviceTimeout("a"), Tripped("b")]), Tripped)


def test_a_bug_is_not_dressed_up_as_a_device_error():
    """An error that is none of ours is raised as it is."""
    bug = ZeroDivisionError("bug")
    assert combined([DeviceTimeout("a"), bug]) is bug
