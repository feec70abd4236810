"""Campaigns to be shown: one that was kept from a release, and one that a test writes as it likes."""

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.reader import at_one_instant
from rigctl.campaign.learned import remembering
from rigctl.campaign.status import Status, asked
from rigctl.console.assemble import open_campaign
from rigctl.page.facts import gather
from rigctl.page.render import sections
from rigctl.page.study import past, study_of, with_flips
from tests.campaign.fakes import make_spec
from tests.campaign.records import SetClock
from tests.fixtures import FINISHED, unpacked
from tests.page.served import Answering, copied

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def study(reader, loaded):
    """What the model says now of a journal, flips and all."""
    history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    known = past(reader, loaded)
    with remembering(reader.directory, history):
        return with_flips(study_of(loaded, history, reader.policy_state() or {}, known), loaded, known)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """State directory of a campaign of the greenhouse that has ended."""
    return unpacked(FINISHED, tmp_path_factory.mktemp("finished"))


@pytest.fixture
def state(finished, tmp_path):
    """A copy of it that a test may change."""
    return copied(finished, tmp_path / "state")


@pytest.fixture
def campaign(state):
    """A process that answers for it."""
    with Answering(state).running() as running:
        yield running


@pytest.fixture(scope="session")
def shown(finished):
    """Facts of the finished campaign, and what the model says of it."""
    with told(finished) as (facts, campaign):
        return facts, study(campaign.reader, campaign.loaded)


@contextmanager
def told(directory, status=None, now=NOON, **options):
    """Give facts and the open campaign they are of."""
    with open_campaign(None, directory) as campaign:
        yield gather(campaign.reader, campaign.loaded, status and Status.of(status), now, **options), campaign


@pytest.fixture
def journal(tmp_path):
    """A journal with a campaign begun, of a rig with variables a and b."""
    opened = Journal(tmp_path, SetClock(), "boot-1", lambda: NOON)
    opened.begin(make_spec(), "0.0")
    yield opened
    opened.close()


async def page_beside(stage):
    """The sections of the page beside the campaign that runs on a stage, as `rigctl serve` has them."""
    status = await asyncio.to_thread(asked, stage.state)
    with at_one_instant(stage.state) as reader:
        return sections(gather(reader, None, status, datetime.now(UTC)), None)
