"""`rigctl operate`: what may be asked for, and what is said when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.campaign.events import Batches, CampaignStarted
from rigctl.campaign.journal import Journal
from rigctl.campaign.production import Production
from rigctl.campaign.status import Status
from rigctl.config.load import load
from rigctl.console.progress import Board, Labels, line_for, state_line
from rigctl.console.run import Wish, prepared, sentences, setpoints, share
from rigctl.core.operating.memory import Drift
from rigctl.errors import UsageError
from tests.campaign.fakes import FakeClock
from tests.campaign.records import SetClock
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


@pytest.mark.parametrize("text", ["", "much", "-1 %", "60 %", "5", "nan", "%"])
def test_a_share_that_cannot_be_is_refused_with_what_may_be(text):
    """What was got, and what is allowed."""
    with pytest.raises(UsageError, match=r'--learn: got ".*", must be a share from 0 % to 50 %'):
        share(text)


def test_setpoints_are_taken_in_any_order_and_with_their_units(loaded):
    """In the order of the control set."""
    assert setpoints(loaded, "k=5, nh4=2mM") == (("nh4", 2.0), ("k", 5.0))
    assert setpoints(loaded, "k=5000 uM, nh4=2") == (("nh4", 2.0), ("k", 5.0))
    assert setpoints(loaded, None) == ()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nh4=2,kk=5", r"--set: .*kk.*k"),
        ("", r'--set: got "", must be NAME=X,...; leave --set out'),
        ("nh4=9,k=5", r'--set: nh4: got "9", must be from 0.1 to 4 mM'),
        ("nh4=two,k=5", r'--set: nh4: got "two", must be a number in mM'),
        ("nh4=2 mg,k=5", r'--set: nh4: got "2 mg", must be a number in mM; mg cannot be converted to mM'),
        ("nh4=2 M,k=5", r'--set: nh4: got "2 M", must be from 0.1 to 4 mM'),
        ("nh4=2", r"--set: got nh4, must be one of the control sets: ca\+b, nh4\+k"),
        ("nh4", r'--set: got "nh4", must be name=value'),
    ],
)
def test_setpoints_that_cannot_be_run_are_refused(loaded, given, why):
    """By name, range and control set."""
    with pytest.raises(UsageError, match=why):
        setpoints(loaded, given)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (
            Wish(),
            r"got no trial, must be at least one trial with an outcome; `rigctl run .*` first, or .* --set NAME=X",
        ),
        (Wish(at="nh4=2,k=5", learn="5 %"), r"got --set and --learn, must be one of them"),
        (Wish(at="nh4=2,k=5", anew=True), r"got --set and --anew, must be one of them"),
        (Wish(at="nh4=2,k=5", full=True), r"got --set and --full, must be one of them"),
    ],
)
def test_what_cannot_be_operated_is_refused_before_anything_is_touched(tmp_path, wish, why):
    """In plain words, with the remedy; no state directory is made."""
    with pytest.raises(UsageError, match=why):
        prepared(GREENHOUSE, tmp_path / "state", {}, wish)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("wish", [Wish(), Wish(full=True)])
def test_a_bench_without_wires_is_not_sent_to_run(ingested, wish):
    """Nor asked for a look that it cannot have: there is nothing to drive."""
    with pytest.raises(UsageError, match="declares no devices, so there is nothing to drive; use `rigctl suggest`"):
        prepared(Path("bench.yaml"), None, {}, wish)


def test_a_journal_in_which_nothing_has_begun_is_as_good_as_none(tmp_path):
    """As a start that was refused leaves one; a setting that was told can be run."""
    Journal(tmp_path, SetClock(), "boot-1").close()
    with pytest.raises(UsageError, match="got no trial"):
        prepared(GREENHOUSE, tmp_path, {}, Wish())
    assert prepared(GREENHOUSE, tmp_path, {}, Wish(at="nh4=2,k=5"))[1].fixed == (("nh4", 2.0), ("k", 5.0))


def test_the_last_words_say_what_came_of_it_against_what_was_expected(loaded):
    """In ten lines at most: outcome, expectation, cost, learning, drift, and what the campaign has spent."""
    drift = Drift("ca", 40, "the supply has changed at trial 35 (noticed at trial 40)")
    of = Production(
        31, 30, 12, 11, 0, 2, 1, 310.0, 6.0, 315.0, 9.0, 5_040_000, 0.42, True, 400.0, 12.0, (drift, drift, drift)
    )
    told = list(sentences(of, Labels.of(loaded), ended().result))
    assert told == [
        "12 batches since trial 31, by what 30 trials taught: 11 with an outcome, 2 to learn, 1 not by the rule",
        "  growth: 310 cm2/day a batch (95 % interval 304 to 316)",
        "  expected: 315 cm2/day (95 % interval 306 to 324)",
        "  cost: 0.42 EUR a batch, 5.04 EUR for all production so far, its idle rig included",
        "  learning: expected to have lost 12 of 400 cm2/day (3.0 %) of the gain over controlling nothing",
        "  drift: ca: the supply has changed at trial 35 (noticed at trial 40)",
        "  drift: ca: the supply has changed at trial 35 (noticed at trial 40)",
        "  drift: 1 more; `rigctl alarms` lists them",
        "The campaign itself has spent 0.00 of 0.00 EUR.",
    ]


def test_a_terminal_shows_production_beside_the_budget(loaded):
    """How many batches are done and what they cost, in the display and line by line; nothing is left of a budget."""
    board = Board.of(loaded)
    begun = CampaignStarted("greenhouse", 30, 9_870_000, 55_000_000, None, Batches(4, 5_040_000))
    board.follow(begun)
    money = "5.04 EUR for production beside 9.87 of 55.00 EUR"
    assert line_for(board, begun) == f"rig greenhouse: operating, 4 batches so far; {money} spent, 30 trials done"
    assert state_line(board) == f"operating, 4 batches done; 30 trials, {money} spent"
    assert board.trials_left is None
    status = Status("greenhouse", "EUR", FakeClock(None))
    status.follow(begun)
    assert status._facts["operating"] == {"batches": 4, "spent": 5.04}


def test_another_campaigns_directory_is_refused(ingested):
    """In words, as everywhere; its control sets are not those of this rig."""
    answer = ingested.rigctl("operate", str(GREENHOUSE), "--state", "state/bench", code=2)
    assert "the configuration is not the one that the campaign in this state directory was started with" in answer.err
