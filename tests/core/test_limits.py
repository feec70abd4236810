"""Further outcomes that must stay within a limit: where they are believed to, and what is decided and advised."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigctl import FurtherOutcome, History, Observation, PolicyError, answer_of
from rigctl.core.advice.answer_words import AnswerWords
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import play, trial_rng
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.limits import FREEDOM, UNTRIED, Limits, bounded
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import mistakes_of
from rigctl.core.gp.model import fit_history
from rigctl.core.operating.playing import made
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.ca_mobo import MoUcb
from rigctl.core.policies.published.ucb_cvs import UcbCvs
from rigctl.core.policies.random_search import RandomSearch
from rigctl.policies import policy_class, policy_names
from tests.core.conftest import make_space
from tests.profiles import slow_beyond

ROUGH = FurtherOutcome("roughness", "um", maximise=False, at_most=3.2)
KEEPING = (LikelyMaximisers(), ExploreThenCommit(), RandomSearch())


def outcomes(x):
    """What is removed rises with both variables; roughness rises with a, and reaches the limit at about 0.6."""
    return float(x[0] + 0.3 * x[1]), float(1.4 + 5 * x[0] ** 2)


def observed(trial, control_set, x, rng):
    first, second = outcomes(x)
    noisy = second + 0.05 * float(rng.standard_normal())
    return Observation(trial, control_set, tuple(map(float, x)), first, to_micros(0.3), further=(noisy,))


def tried(count=24, seed=0):
    rng = np.random.default_rng(seed)
    return History.of(observed(t + 1, t % 3, rng.random(2), rng) for t in range(count))


def limited(problem, *further):
    return replace(problem, further=further or (ROUGH,))


def advised(problem, history, **options):
    return recommend(problem, history, trial_rng(0, 99), options.pop("tolerance", 0.0), **options)


@pytest.mark.slow
def test_what_is_recommended_keeps_the_limit(problem):
    """The best of all, at a = 10, does not; the limit is met a little below where roughness is 3.2, a controlled."""
    free, kept = advised(problem, tried()).choice, advised(limited(problem), tried()).choice
    assert free.setpoints["a"] == pytest.approx(10.0, abs=0.5)
    assert free.within
    assert not free.kept
    assert 5.0 < kept.setpoints["a"] < 6.0
    assert [(k.outcome, k.enough) for k in kept.kept] == [("roughness", True)]
    found = advised(limited(problem), tried(), tolerance=0.9)
    assert "a" in found.choice.control_set
    assert {o.control_set for o in found.alternatives if not o.within} == {("b",)}


@pytest.mark.slow
def test_a_lower_limit_and_two_limits_hold_too(problem):
    """A range, and a second outcome with a limit; whoever asks for more certainty is advised a smaller a."""
    both = FurtherOutcome("roughness", "um", at_least=1.8, at_most=2.2)
    other = FurtherOutcome("heat", "W", at_least=0.6)
    rows = [replace(o, further=(*o.further, (o.x or (0.0,))[0])) for o in tried().observations]
    found = advised(limited(problem, both, other), History.of(rows)).choice
    assert not found.within  # heat of 0.6 takes an a at which roughness is 3.2
    found = advised(limited(problem, both, replace(other, at_least=0.3)), History.of(rows)).choice
    assert found.within
    assert 3.0 < found.setpoints["a"] < 4.0
    asked = [advised(limited(problem, replace(ROUGH, probability=p)), tried()).choice for p in (0.5, 0.9, 0.99)]
    assert sorted((o.setpoints["a"] for o in asked), reverse=True) == [o.setpoints["a"] for o in asked]
    assert all(o.within for o in asked)


@pytest.mark.parametrize("seed", range(3))
def test_a_probability_is_that_of_draws(problem, seed):
    """Of what the uncontrolled variables do, and of a Student t around what is expected of the outcome."""
    limits = Limits.of(limited(problem), tried(12, seed))
    assert limits is not None
    rng = np.random.default_rng(seed)
    model, nodes = limits.models[0].posterior, np.column_stack([np.full(4096, 0.55), rng.random(4096)])
    h, mean = model.hyperparameters, -model.mean(nodes)  # a value: less roughness is better
    wide = np.hypot(model.sd(nodes), h.y_scale * h.noise_sd)
    drawn = mean + wide * rng.standard_t(FREEDOM, len(nodes))
    found = limits.probabilities([0], np.array([[0.55]]))[0, 0, 0]
    assert found == pytest.approx(float((drawn <= 3.2).mean()), abs=0.04)


def test_maximisers_within_limits_are_those_of_a_fine_grid(problem):
    """Nothing on a fine grid is better where limits are, or may be, kept."""
    problem, history = limited(problem), tried()
    limits, posterior = Limits.of(problem, history), fit_history(problem, history).posterior
    assert limits is not None
    found = bounded(limits, posterior, problem, np.random.default_rng(1))
    axis = np.linspace(0, 1, 61)
    square = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    for b, grid in zip(found, (axis[:, None], axis[:, None], square), strict=True):
        i = b.control_set
        mean, sd = Expectations.of(posterior, problem.space).values(problem.space.rows(i, grid), np.full(len(grid), i))
        margin, hoped = limits.margins(i, grid, (UNTRIED, problem.model.beta))
        assert b.within == bool((margin >= 0).any())
        assert b.best_mean >= mean[margin >= 0].max(initial=-np.inf) - 0.02
        assert b.upper >= (mean + problem.model.beta * sd)[hoped >= 0].max(initial=-np.inf) - 0.02


@pytest.mark.slow
def test_where_nothing_keeps_the_limit_nothing_is_recommended(problem, golden):
    """The setting that is likeliest to keep it is named as such; else a way that does not keep it is no alternative."""
    hopeless = limited(problem, replace(ROUGH, at_most=0.5))
    found = advised(hopeless, tried())
    say = AnswerWords(answer_of(found), "removed", "cm3", "EUR", {"a": "mM", "b": "V"})
    assert not found.choice.within
    assert say.answer.certainty.kind == "over a limit"
    assert say.answer.try_next is None
    golden([say.headline(), *say.lines()])
    with pytest.raises(PolicyError):
        made(hopeless, tried(), {}, trial_rng(0, 99), (0.0, None))
    rows = [replace(o, control_set=o.control_set % 2) for o in tried().observations]
    found = advised(replace(limited(problem), space=make_space((("a",), ("b",)))), History.of(rows))
    say = AnswerWords(answer_of(found), "removed", "cm3", "EUR", {"a": "mM", "b": "V"})
    golden([say.headline(), *say.lines()])


@pytest.mark.parametrize("policy", slow_beyond(1, reversed(KEEPING)), ids=lambda p: p.name)
def test_policies_learn_beyond_the_limit_and_advise_within_it(problem, policy):
    """Trials over it are outcomes as all others; what was played is played again bit for bit."""
    asked = replace(limited(problem), budget=to_micros(6))

    def observe(proposal):
        x = np.random.default_rng([1, proposal.trial]).random(2)
        x[list(asked.space.control_sets[proposal.control_set].indices)] = proposal.setting
        return observed(proposal.trial, proposal.control_set, x, np.random.default_rng([2, proposal.trial]))

    played = play(policy, asked, observe, 5)
    assert play(policy, asked, observe, 5, most=8).decisions == played.decisions[:8]
    assert len(played.history.complete) == len(played.decisions) == 20
    choice = advised(asked, played.history).choice
    assert choice.within
    assert outcomes([choice.setpoints.get("a", 5.0) / 10, 0.5])[1] <= 3.2
    late = [o for o in played.history.complete[-8:] if 0 in asked.space.control_sets[o.control_set].indices]
    assert policy.name == "random" or sum(o.further[0] > 3.4 for o in late) <= 1


def test_policies_that_keep_no_limit_are_refused(problem):
    """Three say that they do; a look and a rule for stopping are not made for it."""
    asked, keeping = limited(problem), {name for name in policy_names() if hasattr(policy_class(name), "keeps_limits")}
    assert keeping == {p.name for p in KEEPING}
    for policy in (UcbCvs(), MoUcb()):
        assert [key for key, _ in mistakes_of(policy, asked)] == ["further_outcomes"]
    assert all(not mistakes_of(p, asked) for p in KEEPING)
    both = replace(asked, looks=True, stop_worth=2.0)
    assert [key for key, _ in mistakes_of(KEEPING[0], both)] == ["trial.look", "stop.worth"]


@settings(max_examples=30, deadline=None)
@given(
    low=st.floats(allow_nan=False, allow_infinity=False),
    high=st.floats(allow_nan=False, allow_infinity=False),
    probability=st.floats(0, 1),
)
def test_limits_that_nothing_can_keep_are_refused(low, high, probability):
    """And probabilities that nobody can ask for."""
    if low < high and 0.5 <= probability < 1:
        assert FurtherOutcome("y", at_least=low, at_most=high, probability=probability).limited
    else:
        with pytest.raises(ValueError):
            FurtherOutcome("y", at_least=low, at_most=high, probability=probability)
