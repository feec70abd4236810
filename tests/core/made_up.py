"""Small made-up campaigns of all policies, decision by decision."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from rigctl import Finished, FurtherOutcome, History, ModelOptions, Observation, Problem, Proposal
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.counterfactuals import Situation
from rigctl.core.experiment.money import Micros, to_micros
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.ca_mobo import CaMobo, MoUcb
from rigctl.core.policies.published.gittins import (
    DecayingGittinsIndex,
    ExpectedImprovement,
    ExpectedImprovementPerCost,
    GittinsIndex,
)
from rigctl.core.policies.published.psq import EiPsq, TsPsq, UcbPsq
from rigctl.core.policies.published.ucb_cvs import CostGroupEtc, UcbCvs
from rigctl.core.policies.value_per_cost import ValuePerCost
from rigctl.policies import Policy
from tests.core.conftest import make_space

MODEL = ModelOptions("fixed", lengthscales=(0.4, 0.5), signal_sd=1.0, noise_sd=0.1, mean=0.0)
POLICIES = (
    ExploreThenCommit(explore=Exploration(share=0.3, by="spend")),
    ExploreThenCommit(explore=Exploration(plays=2, share=None)),
    UcbCvs(),
    CostGroupEtc(),
    CostGroupEtc(plays=4, groups="size"),
    UcbPsq(per_cost=True),
    TsPsq(features=32, per_cost=True),
    GittinsIndex(cost_weight=0.1),
    ExpectedImprovementPerCost(),
    LikelyMaximisers(),
    ValuePerCost(),
)
WORDY = (
    *POLICIES,
    ExploreThenCommit(tolerance=0.3, explore=Exploration(plays=1, share=None), cost_bound="hoeffding"),
    CostGroupEtc(plays=2),
    UcbPsq(),
    TsPsq(features=32),
    EiPsq(fantasies=4),
    EiPsq(fantasies=4, per_cost=True),
    DecayingGittinsIndex(),
    ExpectedImprovement(),
)
SEVERAL = (MoUcb(), CaMobo(("a",)))
TRIALS = 20


def decisions(
    policy: Policy, seed: int, *, model: ModelOptions = MODEL, outcomes: int = 1, trials: int = TRIALS
) -> Iterator[tuple[Situation, Proposal, Mapping[int, Micros]]]:
    """Every decision of a campaign: what it depends on, what was proposed, and what trials were charged for one meter.

    Every third is to minimise, every fifth trial fails, and costs vary by a tenth.
    """
    rng = np.random.default_rng([seed, 7])
    peak, height = rng.random(2), rng.uniform(0.5, 2.0)
    costs = rng.uniform(0.1, 0.4, 3) * (1, 1, rng.uniform(1, 4))
    maximise = bool(seed % 3)
    further = tuple(FurtherOutcome(f"power{k}", "kW", maximise) for k in range(1, outcomes))
    problem = Problem(make_space(), to_micros(8), maximise=maximise, floor=-1.0 if maximise else 3.0, model=model)
    problem = replace(problem, further=further)
    history, state, stock = History(), None, {}
    for trial in range(1, trials):
        before = Situation(policy, state, problem, history, seed)
        try:
            proposal, state = next_proposal(policy, state, problem, history, trial_rng(seed, trial))
        except Finished:
            return
        yield before, proposal, stock
        x = rng.random(2)
        members = list(problem.space.control_sets[proposal.control_set].indices)
        x[members] = proposal.setting
        ys = [height * float(np.exp(-4 * np.square(x - peak - 0.2 * k).sum())) for k in range(outcomes)]
        first, *others = ((1 if maximise else -1) * (y + 0.1 * float(rng.standard_normal())) for y in ys)
        cost = to_micros(round(float(costs[proposal.control_set] * rng.uniform(0.9, 1.1)), 6))
        stock[trial] = round(cost * (0.5 if 0 in members else 0.0))
        at = tuple(float(v) for v in x)
        y = None if rng.random() < 0.1 else first
        history = history.append(Observation(trial, proposal.control_set, at, y, cost, further=tuple(others)))
