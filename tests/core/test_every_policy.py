"""What holds of every policy: what must not change a decision, what it does without outcomes or money, its options."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl import History, ModelOptions, Observation, Problem, Proposal, Space, TruncatedNormal, Uniform, Variable
from rigctl.core.asking import trial_rng, validate
from rigctl.core.experiment.money import Micros, to_micros
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from rigctl.core.policies.likely_maximisers import ExplorationShare, LikelyMaximisers
from rigctl.core.policies.published.ca_mobo import CaMobo, Width
from rigctl.core.policies.published.gittins import (
    DecayingGittinsIndex,
    ExpectedImprovement,
    ExpectedImprovementPerCost,
    GittinsIndex,
)
from rigctl.core.policies.published.psq import EiPsq, TsPsq, UcbPsq
from rigctl.core.policies.published.sadcbo import Sadcbo
from rigctl.core.policies.published.ucb_cvs import CostGroupEtc, Epsilon, UcbCvs
from rigctl.core.policies.random_search import RandomSearch
from rigctl.core.policies.value_per_cost import ValuePerCost
from rigctl.options import options_model
from rigctl.policies import BudgetSpent
from tests.profiles import share, slow_beyond


@dataclass(frozen=True)
class Case:
    """A policy, and what is known of it."""

    name: str
    policy: Any
    sampled: bool = False
    """It draws functions or settings, whose numbers belong to variables in order: permuting these draws others."""
    rounded: bool = False
    """Its score is of costs times a rate, so the last bits depend on the currency."""


POLICIES = (
    Case("explore", ExploreThenCommit(explore=Exploration(share=1.0))),
    Case("explore-by-spend", ExploreThenCommit(explore=Exploration(share=1.0, by="spend"))),
    Case("commit", ExploreThenCommit(explore=Exploration(share=0.0))),
    Case("commit-hoeffding", ExploreThenCommit(explore=Exploration(share=0.0), cost_bound="hoeffding")),
    Case("ucb-cvs", UcbCvs()),
    Case("etc-50", CostGroupEtc(plays=50)),
    Case("etc-1", CostGroupEtc(plays=1)),
    Case("etc-ada", CostGroupEtc()),
    Case("etc-size", CostGroupEtc(plays=12, groups="size")),
    Case("ucb-psq", UcbPsq()),
    Case("ucb-psq/cost", UcbPsq(per_cost=True)),
    Case("ts-psq", TsPsq(features=128), sampled=True),
    Case("ts-psq/cost", TsPsq(features=128, per_cost=True), sampled=True),
    Case("ei-psq", EiPsq(), sampled=True),
    Case("ei-psq/cost", EiPsq(per_cost=True), sampled=True),
    Case("likely-maximisers", LikelyMaximisers(), sampled=True),
    Case(
        "likely-maximisers exploring", LikelyMaximisers(explore=ExplorationShare(1.0, 1.0, 1.0), spread=0), sampled=True
    ),
    Case("value-per-cost", ValuePerCost(explore=0.0), sampled=True),
    Case("pbgi", GittinsIndex(), sampled=True, rounded=True),
    Case("pbgi-d", DecayingGittinsIndex(), sampled=True, rounded=True),
    Case("ei", ExpectedImprovement(), sampled=True),
    Case("random", RandomSearch(), sampled=True),
    Case("eipc", ExpectedImprovementPerCost(), sampled=True, rounded=True),
)
NAMES = ("a", "b", "c")
SETS = (("a",), ("c",), ("a", "b"), ("b", "c"))
TURNS = (0, 1, 2, 3, 0, 1, 3, 0)
"""The sets past trials were of, over and over: not equally often, as the first of equals depends on the order."""
COSTS = (0.1, 0.1, 0.3, 1.0)
FIXED = ModelOptions("fixed", lengthscales=(0.35, 0.5, 0.7), signal_sd=1.0, noise_sd=0.05, mean=0.0)
QUICK = ("explore", "likely-maximisers", "value-per-cost", "ucb-cvs", "pbgi", "random")
"""One of each kind; the gate tries all of them."""


def quick_first(policies):
    return slow_beyond(
        sum(case.name in QUICK for case in policies), sorted(policies, key=lambda c: c.name not in QUICK)
    )


every_policy = pytest.mark.parametrize("case", quick_first(POLICIES), ids=lambda c: c.name)
seeds = st.integers(0, 10_000)
few = share(0.03)


def problem_of(names=NAMES, sets=SETS, model=FIXED, **options) -> Problem:
    """Three variables with different marginals and lengthscales, four control sets."""
    marginals = {"a": Uniform(), "b": TruncatedNormal(0.4, 0.2), "c": TruncatedNormal(0.6, 0.3), "u": Uniform()}
    space = Space.of([Variable(n, "", 0.0, 1.0, marginals[n]) for n in names], sets)
    return Problem(space, **{"budget": to_micros(60), "floor": -2.0, "model": model, **options})


def surface(x: np.ndarray) -> float:
    low = np.exp(-((x[0] - 0.3) ** 2) / 0.1)
    return float(0.8 * low + 1.2 * np.exp(-((x[1] - 0.7) ** 2) / 0.1 - (x[2] - 0.2) ** 2 / 0.2))


def history_of(seed: int, count: int, noise: float = 0.05) -> History:
    rng = np.random.default_rng(seed)
    x = rng.random((count, 3))
    return History.of(
        Observation(
            trial=t + 1,
            control_set=int(i),
            x=tuple(row),
            y=surface(row) + noise * float(rng.standard_normal()),
            cost=to_micros(round(COSTS[i] * (1 + 0.05 * float(rng.random())), 6)),
        )
        for t, (i, row) in enumerate(zip(np.resize(TURNS, count), x, strict=True))
    )


def decide(case: Case, problem: Problem, history: History, seed: int, state: Any = None) -> Proposal:
    proposal, _ = case.policy.propose(state or {}, problem, history, trial_rng(seed, len(history) + 1))
    return proposal


def played(proposal: Proposal, problem: Problem) -> tuple[frozenset[str], dict[str, float]]:
    chosen = problem.space.control_sets[proposal.control_set]
    return frozenset(chosen.names), dict(zip(chosen.names, proposal.setting, strict=True))


def assert_same_play(one: Proposal, other: Proposal, problem: Problem, problem2: Problem, tolerance: float) -> None:
    names, setting = played(one, problem)
    names2, setting2 = played(other, problem2)
    assert names == names2
    assert setting2 == pytest.approx(setting, abs=tolerance)


@every_policy
@few
@given(seed=seeds, order=st.permutations(range(4)))
def test_permuting_the_control_sets_permutes_the_decision(case, seed, order):
    """The same set is played at the same setting, to 0.01 of the range, as starts differ and peaks are flat."""
    history = history_of(seed, 24)
    problem, moved = problem_of(), problem_of(sets=[SETS[i] for i in order])
    place = {old: new for new, old in enumerate(order)}
    shuffled = History.of(replace(o, control_set=place[o.control_set]) for o in history.observations)
    assert_same_play(decide(case, problem, history, seed), decide(case, moved, shuffled, seed), problem, moved, 1e-2)


@pytest.mark.parametrize("case", quick_first([c for c in POLICIES if not c.sampled]), ids=lambda c: c.name)
@few
@given(seed=seeds, order=st.permutations(range(3)))
def test_permuting_the_variables_permutes_the_decision(case, seed, order):
    """The same variables are set to the same values, to 0.01 of the range; hyper-parameters are fixed."""
    history = history_of(seed, 24)
    model = replace(FIXED, lengthscales=tuple(FIXED.lengthscales[i] for i in order))
    problem, moved = problem_of(), problem_of(names=[NAMES[i] for i in order], model=model)
    turned = History.of(replace(o, x=tuple(o.x[i] for i in order)) for o in history.observations)
    assert_same_play(decide(case, problem, history, seed), decide(case, moved, turned, seed), problem, moved, 1e-2)


@every_policy
@few
@given(seed=seeds, unit=st.sampled_from([(1.0, 273.15), (1.8, 32.0), (1e-6, 0.0), (1000.0, 0.0)]))
def test_the_outcome_unit_changes_nothing(case, seed, unit):
    """Kelvin or millidegrees: same set, same setting to 1e-6 of the range (1e-3 where a function is drawn)."""
    scale, shift = unit
    history = history_of(seed, 24)
    inside = {"signal_sd": scale, "noise_sd": 0.05 * scale, "mean": shift}
    problem = problem_of()
    other = problem_of(model=replace(FIXED, **inside), floor=shift - 2.0 * scale)
    turned = History.of(replace(o, y=shift + scale * o.y) for o in history.observations)
    tolerance = 1e-3 if case.sampled else 1e-6
    assert_same_play(decide(case, problem, history, seed), decide(case, other, turned, seed), problem, other, tolerance)


@every_policy
@pytest.mark.parametrize("known", slow_beyond(1, [False, True]))
@few
@given(seed=seeds, rate=st.sampled_from([2, 100, 1009]))
def test_the_currency_changes_nothing(case, known, seed, rate):
    """Cents or crowns: same set, same setting bit for bit."""
    history = history_of(seed, 24)
    costs = {"known_costs": COSTS} if known else {}
    dear = {"known_costs": tuple(rate * c for c in COSTS)} if known else {}
    problem, other = problem_of(**costs), problem_of(budget=Micros(60_000_000 * rate), **dear)
    changed = History.of(replace(o, cost=o.cost * rate) for o in history.observations)
    one, two = decide(case, problem, history, seed), decide(case, other, changed, seed)
    assert one.control_set == two.control_set
    assert one.setting == pytest.approx(two.setting, abs=1e-9 if case.rounded else 0.0, rel=0.0)


@every_policy
@few
@given(seed=seeds)
def test_minimising_is_maximising_the_opposite(case, seed):
    """Turning the outcome and the direction around changes no decision; everything reported has the other sign."""
    problem, history = problem_of(), history_of(seed, 24)
    turned = History.of(replace(o, y=-o.y) for o in history.observations)
    up, down = (
        decide(case, *asked, seed)
        for asked in ((problem, history), (replace(problem, maximise=False, floor=2.0), turned))
    )
    assert (up.control_set, up.setting) == (down.control_set, down.setting)
    assert [(r.lower, r.upper) for r in up.sets] == [(-r.lower, -r.upper) for r in down.sets]


@every_policy
def test_it_decides_before_there_is_any_outcome(case):
    """From the prior alone, also if the first trials failed; when nothing fits it says so."""
    problem = problem_of()
    failed = History.of(replace(o, x=None, y=None) for o in history_of(0, 2).observations)
    for history in (History(), failed):
        assert validate(decide(case, problem, history, 0), problem) == []
    history = history_of(0, 24)
    with pytest.raises(BudgetSpent):
        decide(case, problem_of(budget=history.spent + 1), history, 0)


@pytest.mark.parametrize(
    ("cls", "options", "named"),
    [
        (ExploreThenCommit, {"tolerance": 1.0}, "tolerance"),
        (ExploreThenCommit, {"tolerance": -0.1}, "tolerance"),
        (Exploration, {"plays": None, "share": None}, "explore"),
        (Exploration, {"plays": 0}, "explore.plays"),
        (Exploration, {"share": 1.5}, "explore.share"),
        (LikelyMaximisers, {"tolerance": 1.0}, "tolerance"),
        (LikelyMaximisers, {"spread": -1}, "spread"),
        (ExplorationShare, {"first": 1.5}, "explore.first"),
        (ValuePerCost, {"explore": -0.1}, "explore"),
        (ValuePerCost, {"attain": float("nan")}, "attain"),
        (TsPsq, {"features": 0}, "features"),
        (EiPsq, {"fantasies": 0}, "fantasies"),
        (CostGroupEtc, {"plays": -1}, "plays"),
        (CostGroupEtc, {"adaptive_spend": 0.0}, "adaptive_spend"),
        (CostGroupEtc, {"adaptive_spend": float("inf")}, "adaptive_spend"),
        (Epsilon, {"start": -1.0}, "epsilon.start"),
        (Epsilon, {"start": float("nan")}, "epsilon.start"),
        (Epsilon, {"trials": 0}, "epsilon.trials"),
        (Epsilon, {"schedule": "constant", "trials": 5}, "epsilon.trials"),
        (Epsilon, {"schedule": "list"}, "epsilon.values"),
        (Epsilon, {"schedule": "linear", "values": (1.0,)}, "epsilon.values"),
        (Epsilon, {"schedule": "list", "values": (1.0, -1.0)}, "epsilon.values"),
        (DecayingGittinsIndex, {"cost_weight": 0.0}, "cost_weight"),
        (DecayingGittinsIndex, {"outcome_unit": -1.0}, "outcome_unit"),
        (DecayingGittinsIndex, {"cost_unit": 0.0}, "cost_unit"),
        (DecayingGittinsIndex, {"initial": -1}, "initial"),
        (DecayingGittinsIndex, {"decay": 1.0}, "decay"),
        (DecayingGittinsIndex, {"last_weight": 0.0}, "last_weight"),
        (CaMobo, {"order": ("a", "-a")}, "order"),
        (Sadcbo, {"eta": 0.0}, "eta"),
        (Sadcbo, {"eta": 1.1}, "eta"),
        (Sadcbo, {"gamma": 0.0}, "gamma"),
        (Sadcbo, {"gamma": 1.1}, "gamma"),
        (Width, {"beta": 0.0}, "width.beta"),
        (Width, {"settings": 1.0}, "width.settings"),
    ],
)
def test_senseless_options_are_refused_by_name(cls, options, named):
    """With the option's name."""
    with pytest.raises(ValueError, match=rf"^{named}: "):
        cls(**options)


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (UcbPsq, {"per_cost": True}),
        (TsPsq, {"features": 10}),
        (EiPsq, {"per_cost": True, "fantasies": 4}),
        (UcbCvs, {"epsilon": {"schedule": "list", "values": [1.0, 0.5], "unit": "outcome"}}),
        (CostGroupEtc, {"plays": 50, "groups": "size"}),
        (CostGroupEtc, {"plays": "adaptive", "adaptive_spend": 2.0}),
    ],
)
def test_options_can_be_configured(cls, options):
    """Every option is of a type the configuration knows."""
    assert options_model(cls).model_validate_json(json.dumps(options))


@pytest.fixture(scope="module")
def with_and_without():
    """Two hundred trials, learned hyper-parameters: a problem, and the same with a variable that has no effect."""
    far = {"model": ModelOptions(kernel="squared-exponential"), "budget": to_micros(300)}
    plain, more = problem_of(**far), problem_of(names=(*NAMES, "u"), **far)
    history = history_of(1, 200)
    rng = np.random.default_rng(2)
    wider = History.of(replace(o, x=(*o.x, float(rng.random()))) for o in history.observations)
    out = []
    for problem, past in ((plain, history), (more, wider)):
        fitted = fit_history(problem, past)
        state = {"hyperparameters": fitted.hyperparameters.to_json(), "fitted_at": len(past)}
        out.append((problem, past, state))
    return out


@pytest.mark.slow
@every_policy
def test_a_useless_variable_does_not_change_which_set_is_played(case, with_and_without):
    """Its lengthscale is learned to be long, so each control set is worth what it was."""
    names = [
        played(decide(case, problem, history, 0, state), problem)[0] for problem, history, state in with_and_without
    ]
    assert names[0] == names[1]


@pytest.mark.slow
def test_the_useless_variable_is_found_out(with_and_without):
    """Else the test above would show nothing: its lengthscale is far longer than those of the others."""
    *others, useless = with_and_without[1][2]["hyperparameters"]["lengthscales"]
    assert useless > 5 * max(others)
