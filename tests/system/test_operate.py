"""Production on the simulated greenhouse: a short campaign, then batches by its rule until somebody stops them."""

import pytest

from rigctl.campaign import control
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.replay import replay
from rigctl.config.load import load
from rigctl.page.campaign import campaign_spec
from tests.system.stack import greenhouse, next_trial

pytestmark = pytest.mark.system

LOOK = {"after": "10 s", "for": "30 s", "every": "10 s"}


def test_a_campaign_then_production(stack, tmp_path):
    """Batches are run until stopped, told by status, metered beside the campaign's budget, and recomputed."""
    config, state = greenhouse(tmp_path / "rig.yaml", look=LOOK), tmp_path / "state"
    run = stack.run(config, state, "--max-trials", 3)
    assert run.wait() == 0, run.said
    operate = stack.rigctl("operate", config, "--state", state, "--json", *stack.sim.options, state=state)
    next_trial(operate, "RECORDED", after=3)
    told = lambda: (now := control.ask(state, "status"))["operating"]["batches"] and now  # noqa: E731
    status = operate.until(told, "a batch in the status")
    assert status["spent"] == run.answer["spent"]
    control.ask(state, "stop", who="anna")
    assert operate.wait() == 0, operate.said
    done = operate.answer
    assert (done["ending"], done["spent"]) == ("stopped", run.answer["spent"])
    assert (done["production"]["first"], done["production"]["made_of"]) == (4, 3)
    assert done["production"]["spent"] > 0
    with open_reader(state) as journal:
        assert violations(journal) == ()
        assert all(trial.agrees for trial in replay(journal, campaign_spec(load(config))))
