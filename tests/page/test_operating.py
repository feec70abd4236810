"""Production on the page: what is done, and what it costs beside the campaign's budget."""

import asyncio

import pytest

from rigctl.campaign.status import Status
from rigctl.page.facts import gather
from rigctl.page.figures import fuel
from rigctl.page.words import headline
from tests.campaign.fakes import Stage
from tests.campaign.test_operating import campaign, produced
from tests.page.conftest import NOON


@pytest.mark.slow
def test_the_page_says_that_the_rig_operates_and_what_the_campaign_has_left(tmp_path, golden):
    """The batch's number, the campaign's own spending, and production's beside it; no budget to last."""
    stage = Stage(tmp_path)
    with stage.world:
        asyncio.run(stage.run(campaign()))
        asyncio.run(stage.run(produced(campaign(), 2)))
    with stage.journal() as journal:
        spent = journal.campaign()
        facts = gather(journal, None, Status.of({"phase": "running", "trial": None}), NOON)
    golden(headline(facts, None))
    assert (facts.money.spent, facts.money.operated) == (spent.spent / 1e6, spent.operated / 1e6)
    assert sum(part.cost for part in facts.money.parts) == facts.money.all
    assert facts.money.trials_left is None
    assert f"{facts.money.operated:.2f} EUR" in str(fuel(facts.money, "EUR"))
