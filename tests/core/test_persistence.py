"""What a reading before a trial is worth: learned from pairs, and used in decisions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from rigctl import Experiment, Proposal, TruncatedNormal, Uniform, UsageError, variable
from rigctl.codec import from_json, plain, to_json, typed
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.experiment.history import ALONE, History, Look, Observation
from rigctl.core.experiment.marginals.conditional import conditional
from rigctl.core.experiment.natural import Learned, fitted, persistences, present
from rigctl.core.experiment.persistence import CANDIDATES, LITTLE, ReadingPairs, shares_that_persist
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.gittins import GittinsIndex
from rigctl.core.policies.published.psq import UcbPsq
from tests.core.claims import unreadable

A, B, BOTH = 0, 1, 2
"""The control sets of the fixture `problem`."""
NORMAL = TruncatedNormal.from_moments(0.45, 0.15)


FORTY = [
    (0.9, 0.05, 0.9),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0.0, 0.09, 0.7), (0.5, 0.15, 0.4), (1, 0.01, 1))),
]
"""What persists, how far off it is found on average, and the share that is found to 0.1."""


def of_b(problem, marginal):
    a, b = problem.space.variables
    return replace(problem, space=replace(problem.space, variables=(a, replace(b, marginal=marginal))))


def pairs(rho, count, tau=0.0, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((2, 10 * count))
    before, during = NORMAL.loc + NORMAL.scale * np.array([g[0], rho * g[0] + np.sqrt(1 - rho**2) * g[1]])
    inside = (np.minimum(before, during) > 0) & (np.maximum(before, during) < 1)
    return before[inside][:count] + tau * rng.standard_normal(count), during[inside][:count]


def pairs_of(marginal, rho, tau, count, seed):
    rng = np.random.default_rng(seed)
    before, apart, error = rng.standard_normal((3, count))
    read = marginal.quantile(norm.cdf(before)) + tau * error
    during = marginal.quantile(norm.cdf(rho * before + np.sqrt(1 - rho**2) * apart))
    return ReadingPairs(np.arange(count), read, np.full(count, tau), during)


def of_a_rig(rhos, count, tau, seed):
    found = [
        pairs_of(TruncatedNormal.from_moments(0.5, 0.2), rho, tau, count, 100 * seed + i) for i, rho in enumerate(rhos)
    ]
    learned = [fitted(p.during) for p in found]
    alone = [shares_that_persist([m], [p])[0] for m, p in zip(learned, found, strict=True)]
    return np.array(alone), np.array(shares_that_persist(learned, found))


def looked(before, during, tau=0.0, control_set=A):
    return History.of(
        Observation(t, control_set, (0.5, float(x)), 1.0, 10, look=Look((None, float(r)), (0.0, tau)))
        for t, (r, x) in enumerate(zip(before, during, strict=True), 1)
    )


def marginal_of_b(problem, history):
    return present(problem, history)[0].space.variables[1].marginal


@pytest.mark.parametrize(("rho", "error", "within"), FORTY)
def test_forty_pairs_tell_what_persists(problem, rho, error, within):
    """With the marginal learned too: the mean error over 40 supplies, and how many are within 0.1 of the truth.

    At 0.5 no estimator has a standard deviation below 0.106 from so many pairs, the marginal known.
    """
    declared = of_b(problem, Learned())
    found = [persistences(declared, looked(*pairs(rho, 40, 0.02, seed), 0.02)) for seed in range(40)]
    assert {(a, b.pairs, round(b.tau, 9)) for a, b in found} == {(None, 40, 0.02)}
    errors = np.abs(np.array([b.rho for _, b in found]) - rho)
    assert errors.mean() < error
    assert (errors <= 0.1).mean() >= within


@pytest.mark.slow
@pytest.mark.parametrize(("rhos", "near"), [((0.5,) * 5, 0.7), ((0.9,) * 5, 0.97), ((0.0, 0.0, 0.9, 0.9, 1.0), 0.85)])
def test_variables_learn_from_each_other_as_far_as_they_are_alike(rhos, near):
    """Forty pairs each, 20 rigs: nearer the truth than each alone where they are alike, else hardly farther."""
    found = np.array([of_a_rig(rhos, 40, 0.02, seed) for seed in range(20)]) - np.array(rhos)
    alone, together = np.sqrt(np.square(found).mean(axis=(0, 2)))
    assert together < (0.8 if len(set(rhos)) == 1 else 1.05) * alone
    assert (np.abs(found[:, 1]) <= 0.1).mean() >= near


@pytest.mark.parametrize("seed", range(20))
def test_nothing_persists_more_than_wholly(seed):
    """Rounding must not make more than 1 of variables that persist wholly: no marginal takes it."""
    assert max(of_a_rig((1.0,) * 5, 30, 0.0, seed)[1]) <= 1.0


def test_what_two_variables_share_is_what_brute_force_makes_of_it():
    """The posterior mean over both, and over every prior that they may share, summed without any shortcut."""
    rhos, marginals, both = (0.4, 0.8), (NORMAL, Uniform()), []
    for seed, (rho, marginal) in enumerate(zip(rhos, marginals, strict=True)):
        both.append(pairs_of(marginal, rho, 0.0, 9, seed))
    candidates = np.linspace(0, 1, CANDIDATES)
    joint = np.zeros((CANDIDATES, CANDIDATES))
    likelihood = []
    for score, p in zip((lambda x: (x - NORMAL.loc) / NORMAL.scale, norm.ppf), both, strict=True):
        before, during = score(p.before), score(p.during)
        spread = np.sqrt(np.maximum(1 - candidates**2, LITTLE**2))
        likelihood.append([norm.pdf(during, r * before, s).prod() for r, s in zip(candidates, spread, strict=True)])
    alone = np.full(CANDIDATES, 0.5 / CANDIDATES)
    ramp = np.clip(candidates - 0.96, 0, None)
    alone += 0.25 * ramp / ramp.sum()
    alone[0] += 0.25
    joint += 0.5 * np.outer(alone, alone)
    for i, share in enumerate(alone):
        centre = candidates[5 * ((i + 2) // 5)]
        for apart in (0.03, 0.08, 0.15):
            near = norm.pdf(candidates, centre, apart)
            each = 0.3 * alone + 0.7 * near / near.sum()
            joint += 0.5 * share / 3 * np.outer(each, each)
    joint *= np.outer(*likelihood)
    expected = [(joint.sum(axis=1 - k) @ candidates) / joint.sum() for k in (0, 1)]
    assert shares_that_persist(marginals, both) == pytest.approx(expected, rel=1e-9)
    assert shares_that_persist(marginals[:1], both[:1])[0] == pytest.approx(
        (alone * likelihood[0] @ candidates) / (alone @ likelihood[0]), rel=1e-9
    )


def test_a_reading_narrows_what_is_expected_of_the_trial(problem, golden):
    """Decisions see the conditional marginal of what was read, else the usual one; what is told is believed."""
    history = looked(*pairs(0.9, 40))
    now = replace(of_b(problem, NORMAL), look=Look((None, 0.7), (0.0, 0.0)))
    rho = persistences(now, history)[1].rho
    presented, notes = present(now, history)
    assert presented.space.variables[1].marginal == conditional(NORMAL, rho, 0.0, 0.7)
    assert presented.space.variables[0] == problem.space.variables[0]
    golden(notes)
    now = replace(of_b(problem, NORMAL), look=Look((0.5, 0.7), (0.0, 0.1)), persistence=(0.0, 0.8))
    assert marginal_of_b(now, History()) == conditional(NORMAL, 0.8, 0.1, 0.7)
    assert persistences(replace(now, look=None), History())[1].rho == 0.8


def test_nothing_is_trusted_before_there_are_enough_pairs(problem):
    """Seven pairs of eight change nothing, nor do trials that controlled the variable, nor pairs before a change."""
    now = replace(of_b(problem, NORMAL), look=Look((0.5, 0.7), (0.0, 0.0)))
    assert marginal_of_b(now, looked(*pairs(1.0, 7))) is NORMAL
    assert marginal_of_b(now, looked(*pairs(1.0, 40), control_set=B)) is NORMAL
    assert marginal_of_b(now, looked(*pairs(1.0, 8))) != NORMAL
    few = replace(of_b(problem, Learned(Uniform(), 12)), look=now.look)
    assert marginal_of_b(few, looked(*pairs(1.0, 11))) == Uniform()
    old, new = pairs(1.0, 60), pairs(0.0, 30, seed=1)
    before = np.concatenate([0.2 * old[0], 0.8 + 0.2 * new[0]])
    during = np.concatenate([0.2 * old[1], 0.8 + 0.2 * new[1]])
    known = persistences(of_b(problem, Learned()), looked(before, during))[1]
    assert 25 <= known.pairs <= 30
    assert known.rho < 0.3
    between = present(replace(of_b(problem, Learned()), looks=True), looked(before, during))[0]
    assert persistences(between, looked(before, during))[1].rho == known.rho


def test_variables_that_still_vary_together_are_told_of(problem):
    """What both readings leave open is correlated: a note that stays the same; independent variables have none."""
    rng = np.random.default_rng(0)
    g = rng.standard_normal((3, 100))
    space = problem.space
    variables = tuple(replace(v, marginal=NORMAL) for v in space.variables)
    both = replace(problem, space=replace(space, variables=variables))
    both = replace(both, look=Look((0.5, 0.5), (0.0, 0.0)))

    def notes(shared, count):
        x = NORMAL.loc + 0.15 * (np.sqrt(shared) * g[0] + np.sqrt(1 - shared) * g[1:])
        rows = zip(x.T[:count], 0.45 + 0.15 * rng.standard_normal((count, 2)), strict=True)
        return present(
            both,
            History.of(
                Observation(t, ALONE, tuple(now), 1.0, 10, look=Look(tuple(then), (0.0, 0.0)))
                for t, (now, then) in enumerate(rows, 1)
            ),
        )[1]

    told = ("a and b: they vary together after a reading. Decisions take them to be independent",)
    assert notes(0.8, 40) == notes(0.8, 100) == told
    assert notes(0.0, 100) == ()


def mirrored(count=60):
    rng = np.random.default_rng(1)
    x = rng.random((count, 2))
    return History.of(
        Observation(t, A, tuple(at), float(1.0 - 4.0 * (at[0] - at[1]) ** 2), 10, look=Look((None, at[1]), (0.0, 0.0)))
        for t, at in enumerate(x.tolist(), 1)
    )


def decided(problem, policy, look, rho):
    """What a policy that can only control a decides where b has read this, and that much of it persists."""
    space = of_b(problem, Uniform()).space
    space = replace(space, control_sets=space.control_sets[:1])
    asked = replace(problem, space=space, budget=10**9, known_costs=(1.0,), look=look, persistence=(0.0, rho))
    return next_proposal(policy, None, asked, mirrored(), trial_rng(0, 61))


@pytest.mark.parametrize("read", [0.25, 0.5, 0.75])
def test_a_policy_decides_by_the_reading(problem, read):
    """Where a is best at b's value, it is set to what b has read."""
    proposal, _ = decided(problem, UcbPsq(), Look((0.5, read), (0.0, 0.0)), 1.0)
    assert proposal.setting[0] == pytest.approx(read, abs=0.05)


@pytest.mark.parametrize("policy", [LikelyMaximisers(), UcbPsq()])
def test_a_reading_that_tells_nothing_changes_nothing(problem, policy):
    """Where nothing persists a decision is what it is without a look, bit for bit, and so is the policy's state."""
    blind, state = decided(problem, policy, None, 1.0)
    untold, untold_state = decided(problem, policy, Look((0.5, 0.75), (0.0, 0.0)), 0.0)
    assert (replace(untold, read=()), untold_state) == (blind, state)


def test_readings_are_kept_with_the_decision(problem):
    """A proposal comes back whole from the journal's form of it; one from before there were readings has none."""
    now = replace(of_b(problem, Uniform()), look=Look((None, 0.7), (0.0, 0.1)), persistence=(0.0, 0.9))
    proposal, _ = next_proposal(GittinsIndex(), None, now, mirrored(), trial_rng(0, 1))
    assert [r.value is None for r in proposal.read] == [True, False]
    assert from_json(Proposal, to_json(proposal)) == proposal
    older = {name: value for name, value in plain(proposal).items() if name != "read"}
    assert typed(Proposal, older) == replace(proposal, read=())


def test_an_explanation_says_how_far_a_reading_is_trusted(golden):
    """In numbers and plain words: what was read, what is expected, what has been kept, and what is not trusted."""
    variables = [variable("ph", 5.0, 7.0, "pH", natural=(6.0, 0.3)), variable("ca", 1.0, 5.0, "mM", natural=(3, 0.5))]
    e = Experiment.of([*variables, variable("air", 15.0, 30.0, "degC")], [["ca"], ["ca", "ph"]], 1e6)
    rng = np.random.default_rng(0)
    for _ in range(20):
        before, after = rng.normal(6.0, 0.3), rng.normal()
        x = [6.0 + 0.8 * (before - 6.0) + 0.18 * after, 2.0 + rng.random(), 20.0 + rng.random()]
        e.tell("ca", x, -((x[0] - 5.8) ** 2), 1.0, look={"ph": (before, 0.01), "ca": 3.0})
    asked = e.suggest({"ph": (6.3, 0.02), "ca": 3.25})
    ph, ca, air = asked.proposal.read
    assert (ph.value, ph.error, ph.pairs) == (pytest.approx(6.3), pytest.approx(0.02), 20)
    assert 0.6 < ph.rho < 0.95
    assert 6.15 < ph.mean < 6.3
    assert ph.sd < 0.75 * ph.usual_sd == pytest.approx(0.3 * 0.75, rel=0.02)
    assert (ca.rho, ca.pairs, ca.mean) == (0.0, 0, pytest.approx(3.0, abs=0.01))
    assert air.value is None
    left_alone = replace(asked, proposal=replace(asked.proposal, control_set=0, setting=(0.5,)))
    lines = e.explain(left_alone)
    assert any(f"{ph.mean:.2f} ± {ph.sd:.2f} pH" in line for line in lines)
    assert any(f"{100 * ph.rho:.0f} %" in line for line in lines)
    golden(lines)
    assert not [line for line in lines if unreadable(line)]


def test_a_suggestion_hands_its_look_to_the_trial_that_is_told(golden):
    """What it was decided by need not be said twice; looks of nothing, or of what is not there, are refused."""
    e = Experiment.of([variable("ph", 5.0, 7.0, natural=(6.0, 0.3))], [["ph"]], 10.0)
    asked = e.suggest({"ph": 6.5})
    e.tell("ph", [6.4], 1.0, 1.0, suggestion=asked)
    e.tell(["ph", "ph"], [[6.4], [6.2]], [1.0, 2.0], [1.0, 1.0], look=[{}, {"ph": (5.5, 0.1)}])
    assert [o.look for o in e.history.observations] == [Look((0.75,), (0.0,)), None, Look((0.25,), (0.05,))]
    with pytest.raises(UsageError) as refused:
        e.suggest({"pH": 6.5})
    golden(refused.value)
    with golden.raises(UsageError):
        e.suggest({"ph": (6.5, -1.0)})
    with golden.raises(UsageError):
        e.tell(["ph", "ph"], [[6.4], [6.2]], [1.0, 2.0], [1.0, 1.0], look={"ph": 6.0})
