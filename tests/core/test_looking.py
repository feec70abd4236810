"""Policies that are told before each trial what the variables read."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.valuing import after_readings_to_come, told
from rigctl.core.asking import play
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.marginals.families import TruncatedNormal
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.natural import present
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LATE, LikelyMaximisers
from rigctl.core.policies.published.arm_per_scope import ArmPerScope, arms_of
from rigctl.core.policies.published.gittins import ExpectedImprovement, ExpectedImprovementPerCost, GittinsIndex
from rigctl.core.policies.published.psq import EiPsq, TsPsq, UcbPsq
from rigctl.core.policies.published.ucb_cvs import CostGroupEtc, UcbCvs
from rigctl.core.policies.value_per_cost import ValuePerCost
from tests.profiles import slow_beyond

NATURAL = TruncatedNormal.from_moments(0.5, 0.2)
COSTS = (0.1, 0.1, 1.0)
FIXED = ModelOptions("fixed", lengthscales=(0.4, 0.4), signal_sd=1.0, noise_sd=0.05, mean=0.0)
POLICIES = (
    *(
        LikelyMaximisers(),
        ValuePerCost(explore=0.2),
        ExploreThenCommit(),
        UcbCvs(),
        CostGroupEtc(),
        CostGroupEtc(plays=2),
    ),
    *(UcbPsq(), TsPsq(features=64), EiPsq(), GittinsIndex(), ExpectedImprovement(), ExpectedImprovementPerCost()),
    *(ArmPerScope(),),
)


def ridge(x):
    """Best where the two variables are equal: what to set depends on what the other one is."""
    return -4.0 * np.square(x[0] - x[1])


def campaign(policy, rho, *, looks=True, budget=2.0, model=FIXED, **known):
    """Both variables are read before every trial, exactly, and keep their value (rho 1) or get another (0)."""
    space = Space.of([Variable(n, "", 0.0, 1.0, NATURAL) for n in "ab"], [["a"], ["b"], ["a", "b"]])
    problem = Problem(space, to_micros(budget), model=model, **known)
    streams = [np.random.default_rng([7, k]) for k in range(2)]
    now = {}

    def look():
        now["read"] = NATURAL.quantile(streams[0].random(2))
        return Look(tuple(now["read"].tolist()), (0.0, 0.0))

    def observe(proposal):
        x = NATURAL.quantile(streams[1].random(2))
        if rho == 1.0 and looks:
            x = now["read"].copy()
        x[list(space.control_sets[proposal.control_set].indices)] = proposal.setting
        cost = to_micros(COSTS[proposal.control_set])
        return Observation(proposal.trial, proposal.control_set, tuple(x.tolist()), float(ridge(x)), cost)

    return play(policy, problem, observe, 3, look=look if looks else None, most=24)


@pytest.mark.parametrize("policy", slow_beyond(2, POLICIES), ids=lambda p: f"{p.name}-{getattr(p, 'plays', '')}")
def test_every_policy_plays_by_a_reading_that_changes(policy):
    """It goes on to the end, every trial keeps its look, and nothing believed at another reading rules a set out."""
    played = campaign(policy, 1.0, budget=1.5)
    assert played.decisions
    assert all(o.look is not None for o in played.history.observations)
    for decided in played.decisions:
        for report in decided.proposal.sets:
            assert "earlier look" not in report.ruled_out


@pytest.mark.parametrize(
    "policy", slow_beyond(1, [LikelyMaximisers(), ValuePerCost(explore=0.2), UcbCvs()]), ids=lambda p: p.name
)
def test_a_reading_that_tells_nothing_changes_no_decision(policy):
    """With rho 0 a campaign is, bit for bit, the one that was never told a reading."""
    seeing, blind = (
        campaign(policy, 0.0, budget=1.5, **options) for options in ({"persistence": (0.0, 0.0)}, {"looks": False})
    )
    told_of = [(d.proposal.control_set, d.proposal.setting, d.proposal.reason) for d in seeing.decisions]
    assert told_of == [(d.proposal.control_set, d.proposal.setting, d.proposal.reason) for d in blind.decisions]


@pytest.mark.slow
@pytest.mark.parametrize("costs", [None, (0.05, 0.05, 0.2)])
def test_readings_that_persist_leave_harvest_and_confirmation_nothing(costs):
    """A rule plays settings that no trial has played, so the money goes where most is learned.

    But each control set that is best on a day is tried once, late: a rule only chooses among those.
    """
    known = campaign(LikelyMaximisers(), 1.0, budget=1.4, persistence=(1.0, 1.0), known_costs=costs)
    played = [(d.proposal.control_set, d.proposal.phase) for d in known.decisions]
    spent = np.cumsum([o.cost for o in known.history.observations if o.trial > 0])
    harvests = [n for n, (_, phase) in enumerate(played) if phase == "harvest"]
    assert harvests
    for n in harvests:
        assert played[n][0] not in [control_set for control_set, _ in played[:n]]
        assert spent[n - 1] > LATE * known.problem.budget
    unknown = campaign(LikelyMaximisers(), 1.0, budget=1.4, looks=False)
    assert {d.proposal.phase for d in unknown.decisions} >= {"explore", "harvest"}


def test_what_readings_tell_is_counted_in_variance():
    """None without a look; else rho squared, less what of the reading is error."""
    space = Space.of([Variable(n, "", 0.0, 1.0, NATURAL) for n in "ab"], [["a"], ["b"]])
    problem = Problem(space, to_micros(1.0), persistence=(0.6, 1.0))
    rng = np.random.default_rng(0)
    assert told(problem) == 0.0
    assert after_readings_to_come(problem, 4, rng) == ()
    exact = present(replace(problem, look=Look((0.3, 0.8), (0.0, 0.0))), History())[0]
    assert told(exact) == pytest.approx((0.36 + 1.0) / 2)
    rough = present(replace(problem, look=Look((0.3, 0.8), (NATURAL.scale, 0.0))), History())[0]
    assert told(rough) == pytest.approx((0.18 + 1.0) / 2)
    spaces = after_readings_to_come(exact, 32, rng)
    means = np.array([[v.marginal.mean for v in s.variables] for s in spaces])
    assert means.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.05)
    assert means.std(axis=0) == pytest.approx([0.6 * 0.2, 0.2], rel=0.2)


@pytest.mark.slow
def test_an_arm_per_scope_plays_the_arm_that_looks_where_looking_helps():
    """On the ridge it sets one variable to what the other one reads; the arms of a set are its own."""
    played = campaign(ArmPerScope(), 1.0)
    arms = arms_of(replace(played.problem, look=played.history.observations[-1].look), 0)
    assert [arm.looked_at for arm in arms] == [(), (1,)]
    late = [d.proposal for d in played.decisions[9:]]
    seeing = [p for p in late if "read" in p.reason]
    assert len(seeing) >= len(late) / 2
    blind = campaign(ArmPerScope(), 1.0, looks=False)
    assert all("read" not in d.proposal.reason for d in blind.decisions)
