"""The simulated rig as a child process never outlives its block."""

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from rigctl.console.demo import DemoRig, Stepper, simulator, truth
from rigctl.core.advice.recommend import Option
from rigctl.errors import RigctlError


def children() -> list[psutil.Process]:
    """Simulated rigs that this process started."""
    return [p for p in psutil.Process().children(recursive=True) if "sim_rig" in " ".join(p.cmdline())]


@pytest.mark.slow
def test_buses_are_there_while_the_block_runs(tmp_path):
    """The configuration's buses get URLs that exist, and the process is gone afterwards, whatever goes wrong inside."""
    with suppress(ZeroDivisionError), simulator(DemoRig("greenhouse", 2400.0, 1), tmp_path) as buses:
        assert set(buses) == {"plc", "mains", "ph", "ca", "acid", "cam"}
        assert Path(buses["ph"].removeprefix("serial://").split("?")[0]).exists()
        assert len(children()) == 1
        raise ZeroDivisionError
    assert children() == []


@pytest.mark.slow
def test_one_that_does_not_come_up_says_why(tmp_path):
    """Its own words are in the error."""
    expected = pytest.raises(RigctlError, match=r"airfoil\.npz")
    with expected, simulator(DemoRig("wind-tunnel", 2400.0, 1), tmp_path):
        pass
    assert children() == []


@pytest.mark.slow
async def test_a_stepped_one_goes_where_it_is_told(tmp_path, golden):
    """Its time moves by the stepper alone, and only on; one that is gone is told of, not waited for."""
    stepper = Stepper(tmp_path)
    with simulator(DemoRig("greenhouse", 2400.0, 1, stepped=True), tmp_path):
        await stepper(420.0)
        await stepper(420.0)
        with golden.raises(RigctlError):
            await stepper(419.0)
    with golden.raises(RigctlError):
        await stepper(500.0)


@pytest.mark.slow
async def test_one_that_runs_by_itself_is_not_stepped(tmp_path, golden):
    """Nobody takes a rig along whose time is this machine's."""
    with simulator(DemoRig("greenhouse", 2400.0, 1), tmp_path), pytest.raises(RigctlError) as refused:
        await Stepper(tmp_path)(1e12)
    golden(refused.value)


@pytest.mark.slow
def test_truth_is_asked_for_exactly_this_setting():
    """The simulator values the setting it is given, and says what is best."""
    option = Option(("k", "ph"), {"k": 9.1, "ph": 5.75}, 0.0, 0.0, 0.0, None, 1)
    told = truth(DemoRig("greenhouse", 1.0, 1), option)
    assert told["control_set"] == ["k", "ph"]
    assert told["setpoints"] == {"k": 9.1, "ph": 5.75}
    assert 0 < told["share_of_best"] <= 1.0
    assert told["best"]["outcome"] >= told["outcome"]
