"""The real stack, started and always ended."""

from collections.abc import Iterator

import pytest

from tests.simulated import SimHandle, start_sim
from tests.system.stack import SPEED, Process, Stack, next_trial


@pytest.fixture(scope="module")
def sim(tmp_path_factory) -> Iterator[SimHandle]:
    """A simulated greenhouse that the tests of a module share."""
    handle = start_sim("greenhouse", tmp_path_factory.mktemp("rig"), speed=SPEED, seed=5)
    yield handle
    handle.stop()


@pytest.fixture(autouse=True)
def safe_after(request, record_property) -> Iterator[None]:
    """Record how long it took, at most, until the rig said that it was safe; `python -m tests.system.rows` reads it."""
    yield
    for sim in (value for value in request.node.funcargs.values() if isinstance(value, SimHandle)):
        if sim.safe_after_s:
            record_property("safe_after_s", max(sim.safe_after_s))
            sim.safe_after_s.clear()


@pytest.fixture
def stack(sim, tmp_path) -> Iterator[Stack]:
    """Starts `rigctl` on that rig, which is in order before and after; processes are ended."""
    sim.control({"clear": True})
    made = Stack(sim, tmp_path)
    yield made
    made.end()
    sim.control({"clear": True})


@pytest.fixture(scope="module")
def shared(sim, tmp_path_factory) -> Iterator[Stack]:
    """As `stack`, for processes that a module's tests share."""
    made = Stack(sim, tmp_path_factory.mktemp("shared"))
    yield made
    made.end()


@pytest.fixture
def campaign(sim, shared, campaign_config) -> Iterator[Process]:
    """A campaign under way on a rig in order, shared by a module's tests; resumed if it has ended.

    The module gives its configuration as the fixture `campaign_config`.
    """
    sim.control({"clear": True})
    run = next((p for p in shared.processes if p.alive), None)
    if run is None:
        run = shared.run(campaign_config, shared.directory / "state")
    next_trial(run, "RECORDED")
    yield run
    sim.control({"clear": True})
