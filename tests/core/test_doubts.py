"""No single trial decides what is recommended: it is named, and counts once another one bears it out."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import History, ModelOptions, Observation, Problem, TruncatedNormal, answer_of
from rigctl.console.report import to_json
from rigctl.core.advice.answer_words import AnswerWords, advise
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from tests.core.conftest import unit_space
from tests.profiles import slow_beyond

BEST, AT = 2.5, (0.7, 0.3)
FALSE, ELSEWHERE = 2.7, (0.15, 0.85)


@pytest.fixture
def problem():
    space = unit_space(marginal=TruncatedNormal.from_moments(0.5, 0.2))
    return Problem(space, to_micros(50), model=ModelOptions(kernel="matern-5/2"))


def response(x):
    return BEST - 2.0 * np.square(np.asarray(x) - AT).sum(axis=-1)


def good_trials(seed, n=36):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    x[-8:] = AT + np.linspace(0.1, 0.0, 8)[:, None] * rng.normal(size=(8, 2))
    y = response(x) + 0.03 * rng.standard_normal(n)
    return [played(t, at, v) for t, (at, v) in enumerate(zip(x.tolist(), y.tolist(), strict=True), start=1)]


def played(trial, at, y):
    return Observation(trial, 2, tuple(at), y, to_micros(0.3))


def advised(problem, rows, tolerance=0.0):
    return recommend(problem, History.of(rows), trial_rng(0, 1), tolerance)


def regret(found):
    return BEST - response([found.choice.setpoints["a"], found.choice.setpoints["b"]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_beyond(1, range(3)))
def test_one_false_last_outcome_does_not_decide(problem, seed):
    """After 36 good trials one that reads better than the best there is changes neither values nor interval much."""
    rows = good_trials(seed)
    before, found = advised(problem, rows), advised(problem, [*rows, played(37, ELSEWHERE, FALSE)])
    assert regret(before) < 0.03
    assert regret(found) < 0.03
    assert found.choice.low <= response([found.choice.setpoints["a"], found.choice.setpoints["b"]]) <= found.choice.high
    (doubt,) = found.doubts
    assert (doubt.trial, doubt.outcome, doubt.counted) == (37, FALSE, False)
    assert doubt.expected < 2.2
    assert doubt.control_set == ("a", "b")
    assert doubt.setpoints["a"] == pytest.approx(ELSEWHERE[0])
    assert to_json(found)["doubts"] == found.doubts
    assert before.doubts == ()
    assert "doubts" not in to_json(before)
    say = AnswerWords(answer_of(found), "y", "", "EUR", {})
    assert len(advise(found, say)) == 1 + len(advise(replace(found, doubts=()), say))


@pytest.mark.parametrize(("true", "repeated"), [(False, [37]), (True, [37, 38])])
def test_an_outcome_in_doubt_is_played_again_before_the_money_is_gone(problem, true, repeated):
    """The policy tries the setting that it would make the best, once more if it is as good again, and then knows."""
    policy, state, rows = LikelyMaximisers(), None, good_trials(0)
    rows.append(played(37, ELSEWHERE, FALSE))
    again = []
    problem = replace(problem, budget=sum(o.cost for o in rows) + to_micros(1.0))
    for trial in range(38, 41):
        proposal, state = next_proposal(policy, state, problem, History.of(rows), trial_rng(0, trial))
        again.append(np.allclose(proposal.setting, ELSEWHERE) if proposal.control_set == 2 else False)
        x = proposal.setting if proposal.control_set == 2 else AT
        rows.append(played(trial, x, FALSE if true and again[-1] else float(response(x))))
    assert again[: len(repeated)] == [True] * len(repeated)
    assert (36 in fit_history(problem, History.of(rows)).posterior.left_out) != true
    assert state["repeated"] == repeated


@pytest.mark.parametrize("seed", slow_beyond(1, range(3)))
def test_one_outcome_typed_a_hundredfold_does_no_harm(problem, seed):
    """What is recommended after 36 trials is as good as if the outcome of trial 11 had been typed right."""
    rows = good_trials(seed)
    rows[10] = replace(rows[10], y=100.0 * rows[10].y)
    found = advised(problem, rows)
    assert regret(found) < 0.03
    assert [(d.trial, d.counted) for d in found.doubts] == [(11, False)]


@pytest.mark.slow
def test_a_trial_that_a_recommendation_rests_on_alone_is_named(problem):
    """It counts, and what would be recommended without it stands beside it."""
    rng = np.random.default_rng(39)
    x = rng.random((14, 2))
    y = response(x) + 0.1 * rng.standard_normal(14)
    rows = [played(t, at, v) for t, (at, v) in enumerate(zip(x.tolist(), y.tolist(), strict=True), start=1)]
    found = advised(problem, rows)
    (doubt,) = found.doubts
    assert (doubt.trial, doubt.counted) == (10, True)
    rest = advised(problem, [o for o in rows if o.trial != 10])
    assert dict(doubt.setpoints) != dict(found.choice.setpoints)
    assert rest.choice.control_set == doubt.control_set


@pytest.mark.slow
def test_advice_does_not_rest_on_a_trial_alone_that_the_others_do_not_predict(problem):
    """It is not strange enough to be left out of the model, yet the recommendation is another."""
    rows = good_trials(2, n=20)
    rows.append(played(21, (0.05, 0.95), 2.6))
    posterior = fit_history(problem, History.of(rows)).posterior
    found = advised(problem, rows)
    assert posterior.left_out == ()
    assert [(d.trial, d.counted) for d in found.doubts] == [(21, False)]
    assert regret(found) < 0.1
