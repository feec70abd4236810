"""`rigctl operate`: what may be asked for, and what is said when it ends."""

from pathlib import Path

import pytest

from rigctl.campaign.events import Batches, CampaignStarted
from rigctl.campaign.journal import Journal
from rigctl.campaign.production import Production
from rigctl.config.load import load
from rigctl.console.options import Wish
from rigctl.console.progress import Board, line_for, state_line
from rigctl.console.run import prepared, sentences, setpoints, share
from rigctl.core.operating.playing import Drift
from rigctl.errors import UsageError
from rigctl.page.shown import ShownLabels
from tests.campaign.records import SetClock
from tests.console.conftest import assert_golden
from tests.console.test_run import ended

GREENHOUSE = Path(__file__).parent.parent.parent / "config" / "greenhouse.yaml"


@pytest.fixture(scope="module")
def loaded():
    """The example greenhouse."""
    return load(GREENHOUSE)


@pytest.mark.parametrize(("text", "value"), [(None, None), ("5 %", 0.05), ("5%", 0.05), ("0.05", 0.05), ("0", 0.0)])
def test_a_share_is_said_as_people_say_it(text, value):
    """In percent, or as a number; not at all, and nothing is learned."""
    assert share(text) == value


def test_setpoints_are_taken_in_any_order_and_with_their_units(loaded):
    """In the order of the control set."""
    assert setpoints(loaded, "k=5, nh4=2mM") == (("nh4", 2.0), ("k", 5.0))
    assert setpoints(loaded, "k=5000 uM, nh4=2") == (("nh4", 2.0), ("k", 5.0))
    assert setpoints(loaded, None) == ()


def test_a_journal_in_which_nothing_has_begun_is_as_good_as_none(tmp_path, golden):
    """As a start that was refused leaves one; a setting that was told can be run."""
    Journal(tmp_path, SetClock(), "boot-1").close()
    with golden.raises(UsageError):
        prepared(GREENHOUSE, tmp_path, {}, Wish())
    assert prepared(GREENHOUSE, tmp_path, {}, Wish(at="nh4=2,k=5"))[1].fixed == (("nh4", 2.0), ("k", 5.0))


def test_the_last_words_say_what_came_of_it_against_what_was_expected(loaded):
    """In ten lines at most: outcome, expectation, cost, learning, drift, and what the campaign has spent."""
    drift = Drift("ca", 40, "the supply has changed at trial 35 (noticed at trial 40)")
    learned = {"made_of": 30, "learns": True, "gained": 400.0, "lost": 12.0, "drifts": (drift, drift, drift)}
    of = Production(31, 12, 11, 0, 2, 1, 310.0, 6.0, 315.0, 9.0, 5_040_000, 0.42, **learned)
    assert_golden("production-end", "\n".join(sentences(of, ShownLabels.of(loaded), ended().result)))


def test_a_terminal_shows_production_beside_the_budget(loaded, golden):
    """How many batches are done and what they cost, in the display and line by line; nothing is left of a budget."""
    board = Board.of(loaded)
    begun = CampaignStarted("greenhouse", 30, 9_870_000, 55_000_000, None, Batches(4, 5_040_000))
    board.follow(begun)
    golden([line_for(board, begun), state_line(board)])
    assert board.trials_left is None
    assert board.now.to_json()["operating"] == {"batches": 4, "spent": 5.04}
