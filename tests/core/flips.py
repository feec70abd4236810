"""Whether what is said to flip decisions flips them, and just short of it does not: `python -m tests.core.flips 10000`.

Campaigns of all policies on small made-up problems. Of every decision what would change it is looked for; each
statement is then checked by inputs that are made anew here, from what the sentence says, and by deciding again.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from rigctl.campaign.algebra import keep_to_one_thread
from rigctl.core.counterfactuals import (
    Flip,
    changes_of_recommendation,
    counterfactuals,
    recommended,
    told,
)
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.core.levers import KINDS, Price, Situation
from rigctl.core.money import to_micros, to_units
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from rigctl.core.policies.gittins import ExpectedImprovementPerCost, GittinsIndex
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.psq import TsPsq, UcbPsq
from rigctl.core.policies.ucb_cvs import CostGroupEtc, UcbCvs
from rigctl.core.policies.value_per_cost import ValuePerCost
from rigctl.core.policy import Finished, next_proposal, trial_rng
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
RECOMMENDED_EVERY = 10
FEWEST = 4
"""Trials before the first decision that is looked at."""


@dataclass(slots=True)
class Tally:
    """Counts what was asked, and what came out wrong."""

    decisions: int = 0
    asked: int = 0
    flips: Counter = field(default_factory=Counter)
    """By kind."""
    wrong: list[str] = field(default_factory=list)
    recommendations: int = 0


def chosen(policy, state, problem, history, seed):
    """What a policy chooses; `` if it proposes nothing more."""
    try:
        proposal, _ = next_proposal(policy, state, problem, history, trial_rng(seed, len(history) + 1))
    except Finished:
        return ""
    return problem.space.control_sets[proposal.control_set].label


def remade(s: Situation, flip: Flip, value: float, stock) -> Situation:
    """The situation with that value, made from what the sentence says."""
    rows = list(s.history.observations)
    if flip.kind == "budget":
        return replace(s, problem=replace(s.problem, budget=to_micros(value)))
    if flip.kind == "tolerance":
        return (
            replace(s, tolerance=value)
            if s.tolerance is not None
            else replace(s, policy=replace(s.policy, tolerance=value))
        )
    if flip.kind == "outcome":
        rows[-1] = replace(rows[-1], y=value)
        return replace(s, history=History.of(rows))
    if flip.kind == "cost":
        index = next(i for i, c in enumerate(s.problem.space.control_sets) if c.label == flip.subject)
        mine = [o for o in rows if o.control_set == index]
        mean = np.mean([to_units(o.cost) for o in mine])
        rows = [replace(o, cost=round(o.cost * value / mean)) if o.control_set == index else o for o in rows]
    else:
        rows = [replace(o, cost=o.cost + round(stock[o.trial] * (value / 2.0 - 1))) for o in rows]
    before, after = (sum(o.cost for o in r) for r in (s.history.observations, rows))
    return replace(s, history=History.of(rows), problem=replace(s.problem, budget=s.problem.budget + after - before))


def check(tally: Tally, s: Situation, flips, answer, ask, stock):
    for flip in flips:
        tally.flips[flip.kind] += 1
        on, short = (ask(remade(s, flip, v, stock)) for v in (flip.at, flip.short))
        if (on, short) != (flip.after, answer) or on == short or flip.before != answer:
            tally.wrong.append(f"{s.policy} trial {s.trial}: {told(flip, currency='EUR')} gave {on!r}, {short!r}")


def campaign(tally: Tally, number: int, most: int):
    """One campaign; every decision from the fifth on is questioned about one kind of change, in turn."""
    rng = np.random.default_rng([number, 7])
    policy = POLICIES[number % len(POLICIES)]
    peak, height = rng.random(2), rng.uniform(0.5, 2.0)
    costs = rng.uniform(0.1, 0.4, 3) * (1, 1, rng.uniform(1, 4))
    maximise = bool(number % 3)
    problem = Problem(make_space(), to_micros(8), maximise=maximise, floor=-1.0 if maximise else 3.0, model=MODEL)
    history, state, stock = History(), None, {}
    for trial in range(1, 20):
        if trial > FEWEST and tally.decisions < most:
            question(tally, Situation(policy, state, problem, history, number), stock)
        try:
            proposal, state = next_proposal(policy, state, problem, history, trial_rng(number, trial))
        except Finished:
            return
        x = rng.random(2)
        members = list(problem.space.control_sets[proposal.control_set].indices)
        x[members] = proposal.setting
        y = height * float(np.exp(-4 * np.square(x - peak).sum())) + 0.1 * float(rng.standard_normal())
        cost = to_micros(round(float(costs[proposal.control_set] * rng.uniform(0.9, 1.1)), 6))
        stock[trial] = round(cost * (0.5 if 0 in members else 0.0))
        at = tuple(float(v) for v in x)
        history = history.append(Observation(trial, proposal.control_set, at, y if maximise else -y, cost))


def question(tally: Tally, s: Situation, stock):
    tally.decisions += 1
    kind = KINDS[tally.decisions % len(KINDS)]
    prices = [Price("stock", 2.0, "L", stock)]
    found = counterfactuals(s, prices=prices, kinds=[kind], most=30)
    tally.asked += found.asked
    check(
        tally,
        s,
        found.flips,
        chosen(s.policy, s.state, s.problem, s.history, s.seed),
        lambda t: chosen(t.policy, t.state, t.problem, t.history, t.seed),
        stock,
    )
    if tally.decisions % RECOMMENDED_EVERY == 0:
        tally.recommendations += 1
        r = replace(s, tolerance=0.1)
        changes = changes_of_recommendation(r, prices=prices)
        check(tally, r, changes.flips, recommended(r), recommended, stock)


def run(decisions: int) -> Tally:
    """Question as many decisions."""
    tally, number = Tally(), 0
    while tally.decisions < decisions:
        campaign(tally, number, decisions)
        number += 1
    return tally


if __name__ == "__main__":
    keep_to_one_thread()
    done = run(int(sys.argv[1]))
    print(f"{done.decisions} decisions and {done.recommendations} recommendations, {done.asked} re-decisions in search")
    print(f"{sum(done.flips.values())} flips ({dict(done.flips)}), {len(done.wrong)} of them wrong")
    print(*done.wrong[:20], sep="\n")
