"""Production on the simulated greenhouse: a short campaign, then batches by its rule until somebody stops them."""

from __future__ import annotations

import pytest

from tests.system.stack import Process, Stack, greenhouse, next_trial

pytestmark = pytest.mark.system

LOOK = {"after": "10 s", "for": "30 s", "every": "10 s"}


def operate(stack: Stack, config, state, *arguments: object) -> Process:
    """Start `rigctl operate` on the simulated rig."""
    options = [part for name, url in stack.sim.buses.items() for part in ("--bus", f"{name}={url}")]
    return stack.rigctl("operate", config, "--state", state, "--json", *options, *arguments, state=state)


def test_a_campaign_then_production(stack, tmp_path):
    """Refused before there is an outcome; then batches by the rule until stopped, all of them recomputed."""
    config, state = greenhouse(tmp_path / "rig.yaml", look=LOOK), tmp_path / "state"
    refused = operate(stack, config, state)
    assert refused.wait() == 2
    assert refused.answer["error"]["got"] == "no trial"
    run = stack.run(config, state, "--max-trials", 6)
    assert run.wait() == 0, run.said
    running = operate(stack, config, state)
    next_trial(running, "RECORDED", after=6)
    status = stack.rigctl("status", "--state", state, "--json")
    assert status.wait() == 0
    stop = stack.rigctl("stop", "--state", state)
    assert stop.wait() == 0
    assert running.wait() == 0, running.said
    done = running.answer
    assert (done["ending"], done["spent"]) == ("stopped", run.answer["spent"])
    assert done["production"]["first"] == 7
    assert done["production"]["expected"] is not None
    for verb in ("replay", "verify"):
        checked = stack.rigctl(verb, "--state", state, "--json")
        assert checked.wait() == 0, checked.answer
