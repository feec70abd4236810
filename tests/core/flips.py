"""Whether what is said to flip decisions flips them, and just short of it does not.

Campaigns of all policies on small made-up problems. Of every decision what would change it is looked for; each
statement is then checked by inputs that are made anew here, from what the sentence says, and by deciding again.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from rigctl import Finished, History
from rigctl.core.advice.flips import KINDS, Flip
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.counterfactuals import Price, Situation, changes_of_recommendation, counterfactuals, recommended, told
from rigctl.core.experiment.money import to_micros, to_units
from tests.core.made_up import POLICIES, decisions

RECOMMENDED_EVERY = 10
FEWEST = 4
"""Trials before the first decision that is looked at."""


@dataclass(slots=True)
class Tally:
    """Counts what was asked, and what came out wrong."""

    decisions: int = 0
    asked: int = 0
    flips: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    recommendations: int = 0


def chosen(policy, state, problem, history, seed):
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
            tally.wrong.append(
                f"{s.policy} trial {len(s.history) + 1}: {told(flip, currency='EUR')} gave {on!r}, {short!r}"
            )


def campaign(tally: Tally, number: int, most: int):
    """One campaign; every decision from the fifth on is questioned about one kind of change, in turn."""
    for situation, _, stock in decisions(POLICIES[number % len(POLICIES)], number):
        if len(situation.history) >= FEWEST and tally.decisions < most:
            question(tally, situation, stock)


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


def run(decisions: int, first: int = 0) -> Tally:
    """Question as many decisions, of the campaigns from number `first` on."""
    tally, number = Tally(), first
    while tally.decisions < decisions:
        campaign(tally, number, decisions)
        number += 1
    return tally
