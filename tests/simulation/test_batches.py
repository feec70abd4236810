"""What is promised of production is found out where it is not kept, and only there."""

import copy
import random
from contextlib import nullcontext
from dataclasses import replace

import pytest

from rigctl.console.options import Wish
from tests.simulation.batches import (
    Decided,
    _check_account,
    _check_asked,
    _check_campaign,
    _check_kept,
    _check_learning,
    said,
)
from tests.simulation.books import Violation
from tests.simulation.production import OFTEN, Plan, produces
from tests.simulation.worlds import world

LEARNS = Wish("50 %")
WHEN = {"reading": "ca", "low": 2.0, "high": None}
FOLLOWS = {
    "variable": "ph",
    "at": 6.0,
    "slopes": [{"reading": "k", "about": 5.0, "per_unit": 0.1}],
    "low": 5.5,
    "high": 6.5,
}
MEMORY = {
    "begun": 3,
    "since": 2,
    "outcomes": 2,
    "asked": "0.05 {}",
    "model": {},
    "lines": [
        {"when": [WHEN], "control_set": ["k", "ph"], "settings": [FOLLOWS, {**FOLLOWS, "variable": "k", "slopes": []}]}
    ],
    "ways": [{"control_set": ["ca", "b"], "at": {"ca": 3.0, "b": 30.0}}, {"control_set": ["k"], "at": {"k": 4.0}}],
    "gained": 8.0,
    "lost": 1.0,
    "pending": {"trial": 3, "gain": 4.0, "loss": 2.0},
    "owed": [],
}


def decided(trial=3, wish=LEARNS, *, state="RECORDED", phase="learn", origin="policy", own=None, **changed):
    memory = {**copy.deepcopy(MEMORY), **changed}
    proposal = {"phase": phase, "policy": "operate"}
    own = {"asked": 2} if own is None else own
    return Decided(trial, state, origin, "", ("k",), {"k": 4.0}, proposal, memory, own, frozenset(), {}, wish)


@pytest.mark.parametrize(
    ("read", "barred", "says"),
    [
        ({"ca": 2.0, "k": 7.0}, "", (("k", "ph"), {"ph": 6.2, "k": 6.0})),
        ({"ca": 2.0, "k": 15.0}, "", (("k", "ph"), {"ph": 6.5, "k": 6.0})),
        ({"ca": 1.9, "k": 7.0}, "", (("ca", "b"), {"ca": 3.0, "b": 30.0})),
        ({"ca": 2.0}, "", (("ca", "b"), {"ca": 3.0, "b": 30.0})),
        ({"ca": 2.0, "k": 7.0}, "k+ph", (("ca", "b"), {"ca": 3.0, "b": 30.0})),
        ({"ca": 1.9, "k": 7.0}, "ca+b", (("k",), {"k": 4.0})),
    ],
)
def test_what_a_rule_says_is_worked_out_anew(read, barred, says):
    """A line that holds and can be played, else the first setting that can; without a reading that it takes none."""
    names, at = said(MEMORY, read, frozenset([barred]))
    assert (names, at) == (says[0], pytest.approx(says[1]))


def test_what_cannot_be_played_is_not_run():
    """It is found out where all of it is barred."""
    with pytest.raises(Violation):
        said(MEMORY, {}, frozenset(["ca+b", "k"]))


LEARNING = {
    "as it should be": (decided(), ""),
    "not told to": (decided(wish=Wish()), "nobody"),
    "reckoned, not told to": (decided(wish=Wish(), phase="operate"), "nobody"),
    "loses too much": (decided(pending={"trial": 3, "gain": 4.0, "loss": 3.1}), "may be"),
    "nothing may be lost": (decided(wish=Wish("0 %")), "may be"),
    "the rule loses nothing": (decided(phase="operate"), "operate"),
    "a trial of a campaign": (decided(phase="reference"), "no batch"),
}


@pytest.mark.parametrize(("row", "wrong"), LEARNING.values(), ids=LEARNING)
def test_learning_beyond_what_may_be_lost_is_found_out(row, wrong):
    """8 gained before this batch, 1 lost: of a half of it 3 are left."""
    with pytest.raises(Violation, match=wrong) if wrong else nullcontext():
        _check_learning(row)


KEPT = {
    "the same": (decided(4), ""),
    "changes by itself": (decided(4, Wish(), ways=[]), "ways of what is run changed by itself"),
    "told otherwise": (decided(4, Wish(at="k=4"), ways=[], asked="0.05 {'k': 4.0}"), ""),
    "made anew": (decided(4, Wish(anew=True), ways=[], since=3), ""),
    "made anew of the same": (decided(4, Wish(anew=True), ways=[]), "by itself"),
    "learned": (decided(4, ways=[], since=3, outcomes=3), ""),
    "learned of nothing": (decided(4, ways=[], since=3), "by itself"),
    "begins again": (decided(4, begun=4, since=3, outcomes=3), "by itself"),
}


@pytest.mark.parametrize(("row", "wrong"), KEPT.values(), ids=KEPT)
def test_a_rule_that_changes_by_itself_is_found_out(row, wrong):
    """Unless somebody asked for something else, or there is enough that is new."""
    with pytest.raises(Violation, match=wrong) if wrong else nullcontext():
        _check_kept(decided(), row)


@pytest.mark.parametrize(
    ("state", "gained", "lost", "wrong"),
    [
        ("RECORDED", 12.0, 3.0, ""),
        ("LOST", 8.0, 3.0, ""),
        ("LOST", 12.0, 3.0, "lost of"),
        ("AWAITING", 8.0, 3.0, ""),
        ("AWAITING", 12.0, 3.0, "lost of"),
        ("LOST", 8.0, 1.0, "lost of"),
        ("RECORDED", 7.0, 3.0, "lost of"),
    ],
)
def test_what_a_batch_has_gained_and_lost_counts_once(state, gained, lost, wrong):
    """Its loss whatever became of it, its gain only with an outcome."""
    before = decided(state=state)
    with pytest.raises(Violation, match=wrong) if wrong else nullcontext():
        _check_account(before, decided(4, gained=gained, lost=lost), [before])


def test_production_leaves_the_campaign_its_memory_and_keeps_its_own(golden):
    """What the campaign's policy remembered is there after a batch, and it keeps nothing of production."""
    campaign = replace(decided(2, None), memory=None)
    _check_campaign([campaign, decided()])
    with pytest.raises(Violation, match="remembered"):
        _check_campaign([campaign, decided(own={"asked": 3})])
    with golden.raises(Violation):
        _check_campaign([decided(2, None)])


def test_a_policy_that_could_not_decide_is_found_out():
    """But for trials of one control set in a row that gave nothing."""
    _check_asked([decided(), replace(decided(origin="rejected"), note="the last 3 trials, of ph, gave no outcome")])
    with pytest.raises(Violation):
        _check_asked([replace(decided(origin="rejected"), note="TypeError: no")])


@pytest.mark.slow
def test_one_seed_in_six_goes_over_to_production():
    """Once there are outcomes, mostly; all others run their campaign to the end."""
    assert sum(produces(seed) for seed in range(3000)) == pytest.approx(3000 * OFTEN, rel=0.1)
    space = world("greenhouse", "looking").loaded.problem.space
    plan = Plan(random.Random(1), space, 24, produces=True)
    assert not any(plan.wish(life, 5) for life in range(plan._first))
    assert sum(plan.wish(30, 5) is not None for _ in range(200)) > 150
    assert sum(plan.wish(30, 0) is not None for _ in range(200)) < 60
    assert not any(Plan(random.Random(1), space, 24, produces=False).wish(life, 5) for life in range(40))
