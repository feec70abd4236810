"""What is said to change a decision changes it, and just short of it does not."""

from dataclasses import replace

import pytest

from rigctl import History, PolicyError
from rigctl.core.advice.flips import KINDS, Counterfactuals, Flip
from rigctl.core.counterfactuals import (
    Price,
    Situation,
    changes_of_recommendation,
    counterfactuals,
    recommended,
    shown,
    told,
)
from rigctl.core.experiment.money import to_micros
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from tests.core.claims import unreadable
from tests.core.flips import run
from tests.core.test_advice import tried

COMMIT = ExploreThenCommit(tolerance=0.2, explore=Exploration(share=0.0))
KNOWN = (0.3, 0.2, 1.0)


def situation_of(problem, **options):
    """`a` and `a+b` both reach the top of a hill, `b` only its middle."""
    return Situation(COMMIT, None, replace(problem, budget=to_micros(100)), tried((0, 1, 2), KNOWN), 3, **options)


@pytest.mark.parametrize(
    ("decisions", "least"),
    [pytest.param(10, 4, marks=pytest.mark.slow), pytest.param(70, 41, marks=pytest.mark.nightly)],
)
def test_what_was_said_to_flip_decisions_flips_them(decisions, least):
    """Decisions of several policies, each statement checked by inputs made anew: all flip, one step short none does."""
    tally = run(decisions)
    assert sum(tally.flips.values()) >= least
    assert decisions < 70 or set(tally.flips) == set(KINDS)
    assert tally.wrong == []


@pytest.mark.slow
def test_costs_and_tolerance_flip_where_sets_cross(problem):
    """Where another good set becomes as cheap, and where one becomes good enough: brute force around it agrees."""
    situation = situation_of(replace(problem, known_costs=KNOWN))
    found = counterfactuals(situation, kinds=["cost"])
    assert found.answer == "a"
    dearer, cheaper = sorted(found.flips, key=lambda f: f.subject)
    assert (dearer.subject, dearer.after, dearer.now) == ("a", "a+b", 0.3)
    assert (dearer.short, dearer.at) == (pytest.approx(0.999), pytest.approx(1.0))
    assert (cheaper.subject, cheaper.after) == ("a+b", "a+b")
    assert cheaper.at == pytest.approx(0.3)
    assert cheaper.short == pytest.approx(0.31)
    (flip,) = counterfactuals(situation, kinds=["tolerance"]).flips
    assert flip.after == "b"
    near = [round(1000 * flip.at) + k for k in range(-3, 3)]
    policies = [replace(COMMIT, tolerance=k / 1000) for k in near]
    answers = [counterfactuals(replace(situation, policy=p), kinds=[]).answer for p in policies]
    assert answers == ["a"] * 3 + ["b"] * 3


@pytest.mark.slow
def test_the_price_of_a_meter_turns_every_trial_it_was_in(problem):
    """A price is turned for all sets at once, by what each trial used of it; as much money is left as before."""
    situation = situation_of(problem, tolerance=0.2)
    acid = {o.trial: to_micros(0.25) for o in situation.history.observations if o.control_set == 0}
    found = changes_of_recommendation(situation, prices=[Price("acid", 5.0, "L", acid)], shown=9)
    assert found.answer == "a"
    (flip,) = [f for f in found.flips if f.kind == "price"]
    assert flip.after == "a+b"
    # 0.05 + 0.25 * price / 5 reaches 1.0 at a price of 19
    assert flip.at == pytest.approx(19.1, abs=0.11)
    assert f"{flip.at:.6g} EUR" in told(flip, currency="EUR")


def test_flips_of_a_recommendation_are_recommended_anew(problem, golden):
    """Found by what is cheap to ask, shown only if the whole recommendation says so on both sides."""
    situation = situation_of(problem, tolerance=0.2)
    found = changes_of_recommendation(situation)
    assert found.answer == recommended(situation) == "a"
    assert len(found.flips) == 2
    efforts = [f.effort for f in found.flips]
    assert efforts == sorted(efforts)
    with golden.raises(PolicyError):
        changes_of_recommendation(replace(situation, history=History()))


@pytest.mark.slow
def test_the_search_is_cut_short_and_says_so(problem):
    """After so many decisions it ends with what it has found."""
    situation = situation_of(replace(problem, known_costs=KNOWN))
    for most in (1, 5, 12):
        found = counterfactuals(situation, most=most)
        assert found.asked <= most
        assert found.cut_short
    assert not counterfactuals(situation, most=500).cut_short


def test_nothing_found_is_said_plainly(golden):
    """With the number of decisions that were tried."""
    none = Counterfactuals("a", (), 23, cut_short=False)
    (line,) = shown(none, currency="EUR")
    assert "23" in line
    golden([line])


@pytest.mark.parametrize(
    ("flip", "sentence"),
    [
        (("cost", "ca+b", 4.2, 3.1, 3.11, "k", "ca+b"), "At 3.1 EUR a trial of ca+b (now 4.2), ca+b would be chosen."),
        (
            ("price", "calcium", 4.2, 3.1, 3.11, "k", "b", "L"),
            "At 3.1 EUR per L of calcium (now 4.2), b would be chosen.",
        ),
        (("budget", "", 55.0, 59.0, 58.9, "k", "ca+b"), "With 4 EUR more to spend, ca+b would be chosen."),
        (("budget", "", 55.0, 52.5, 52.6, "k", ""), "With 2.5 EUR less to spend, no trial would be chosen."),
        (("tolerance", "", 0.05, 0.08, 0.079, "k", "b"), "With a tolerance of 8 % (now 5 %), b would be chosen."),
        (
            ("outcome", "", 13.5, 12.2, 12.3, "k", "b"),
            "Had the last trial given 12.2 cm2 (it gave 13.5), b would be chosen.",
        ),
    ],
)
def test_flips_are_told_in_one_sentence(flip, sentence):
    """What, where it flips, what it is now, and to what."""
    assert told(Flip(*flip), currency="EUR", unit="cm2") == sentence
    assert not unreadable(sentence)
