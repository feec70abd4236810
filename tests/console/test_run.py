import pytest

from rigctl.campaign.events import CampaignResult
from rigctl.console.run import Ended
from rigctl.rig.values import SafeReport


def ended(ending="budget", trials=12, recorded=9, failed=None, reason="why"):
    safe = SafeReport((), failed or {})
    return Ended(CampaignResult(ending, reason, trials, 1, 2, safe, 0.01, recorded, None), None, 1)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (ended(), 0),
        (ended(recorded=0), 1),  # every trial failed
        (ended(trials=0, recorded=0), 0),
        (ended("abandoned", trials=1, recorded=0), 0),  # a person or the service manager wanted it so
        (ended("abandoned", reason="SIGTERM"), 0),
        (ended("abandoned", reason="SIGINT"), 130),
        (ended("abandoned", reason="SIGINT", failed={"valve": "no answer"}), 1),  # what is not safe matters more
        (ended("interlock"), 1),
        (ended(failed={"valve": "no answer"}), 1),
    ],
)
def test_a_run_without_an_outcome_is_no_success(outcome, code):
    """0 only if all is safe, the watch did not end it, and trials, if there were any, gave outcomes."""
    assert outcome.exit_code == code
