"""`rigctl demo` refuses what it cannot do before it starts anything."""

from __future__ import annotations

import pytest

from rigctl.console.simulator import ARRAYS, NAMES, NEED_ARRAYS, check_scenario
from rigctl.errors import UsageError
from sim_rig import scenarios

REFUSED = {
    "unknown": (("--scenario", "moon"), 'got "moon", must be one of greenhouse, lathe, wind-tunnel'),
    "a path": (("--scenario", "../config/lathe"), "must be one of greenhouse, lathe, wind-tunnel"),
    "no data": (("--scenario", "wind-tunnel"), "needs --data DIR, the directory that airfoil.npz is in"),
    "not in data": (("--scenario", "wind-tunnel", "--data", "."), "--data .: airfoil.npz is not there"),
    "no directory": (("--scenario", "wind-tunnel", "--data", "none"), "--data none: airfoil.npz is not there"),
    "optional, not in data": (("--data", "."), "--data .: plant_growth.npz is not there"),
}


@pytest.mark.parametrize(("options", "what"), REFUSED.values(), ids=REFUSED)
def test_a_demo_that_cannot_be_is_refused_before_anything_starts(bench, options, what):
    """Wrong usage: one message with the remedy, exit 2, and no state directory."""
    answer = bench.rigctl("demo", *options, "--keep", "kept", code=2)
    assert answer.out == ""
    assert what in answer.err
    assert not (bench.folder / "kept").exists()


def test_what_the_simulator_reads_is_what_is_checked_for(tmp_path):
    """Names and files are written down twice, as the programs share no code: they agree."""
    assert NAMES == scenarios.NAMES
    assert ARRAYS == {"greenhouse": scenarios.GROWTH_ARRAYS, "wind-tunnel": scenarios.AIRFOIL_ARRAYS}
    for name in set(NAMES) - set(NEED_ARRAYS):
        scenarios.scenario(name, None)


def test_data_that_is_there_is_taken(tmp_path):
    """Each scenario is content with its file, those with a response of their own also without."""
    for name, file in ARRAYS.items():
        (tmp_path / file).touch()
        check_scenario(name, tmp_path)
    check_scenario("greenhouse", None)
    check_scenario("lathe", None)
    with pytest.raises(UsageError):
        check_scenario("wind-tunnel", None)
