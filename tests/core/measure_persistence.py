"""Measures how well persistence is learned, and what a look costs: docs/decisions/0015-readings.md.

python -m tests.core.measure_persistence --supplies 500
python -m tests.core.measure_persistence --rigs
python -m tests.core.measure_persistence --cpu
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import median

import numpy as np
import sklearn.gaussian_process  # noqa: F401 - for its thread pool: a limit only holds for what is loaded by then
from scipy.stats import norm, rankdata
from threadpoolctl import threadpool_limits

from rigctl.bench.latency import fitted_state, history, plant_problem, policy_to_measure
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.marginals.conditional import spread_of
from rigctl.core.experiment.marginals.families import Empirical, TruncatedNormal, Uniform
from rigctl.core.experiment.natural import Learned, fitted
from rigctl.core.experiment.persistence import ReadingPairs, shares_that_persist

TWO_TANKS = (*np.random.default_rng(5).normal(0.25, 0.04, 100), *np.random.default_rng(6).normal(0.7, 0.06, 100))
SUPPLIES = {
    "truncated normal": TruncatedNormal.from_moments(0.5, 0.2),
    "severely cut": TruncatedNormal.from_moments(0.3, 0.2),
    "uniform": Uniform(),
    "two tanks": Empirical(tuple(map(float, TWO_TANKS))),
}


def pairs_of(marginal, rho, tau, count, seed):
    """Pairs of a supply of which rho persists."""
    rng = np.random.default_rng(seed)
    before, apart, error = rng.standard_normal((3, count))
    read = marginal.quantile(norm.cdf(before)) + tau * error
    during = marginal.quantile(norm.cdf(rho * before + np.sqrt(1 - rho**2) * apart))
    return ReadingPairs(np.arange(count), read, np.full(count, tau), during)


def by_correlation(marginal, pairs, shrinkage=8):
    """The normal scores' correlation, corrected for the readings' errors and shrunk towards 0."""
    n = len(pairs.rows)
    scores = [norm.ppf((rankdata(v) - 0.5) / n) for v in (pairs.before, pairs.during)]
    counts = 1 / (1 + (pairs.errors[0] / spread_of(marginal)) ** 2)
    return float(np.clip(np.corrcoef(scores)[0, 1] / np.sqrt(counts) * n / (n + shrinkage), 0.0, 1.0))


def estimates(supplies, count, tau):
    """Mean error and share within 0.1, by supply, rho and estimator."""
    for name, marginal in SUPPLIES.items():
        for rho in (0.0, 0.5, 0.9, 1.0):
            found = {"learned": [], "known": [], "correlation": []}
            for seed in range(supplies):
                pairs = pairs_of(marginal, rho, tau, count, seed)
                learned = fitted(pairs.during)
                found["learned"].extend(shares_that_persist([learned], [pairs]))
                found["known"].extend(shares_that_persist([marginal], [pairs]))
                found["correlation"].append(by_correlation(learned, pairs))
            errors = {key: np.abs(np.array(values) - rho) for key, values in found.items()}
            told = (f"{key} {e.mean():.3f} {np.mean(e <= 0.1):.0%}" for key, e in errors.items())
            print(f"{name:17} rho {rho}: {', '.join(told)}", flush=True)


RIGS = {
    "all 0.5": (0.5,) * 5,
    "two, both 0.5": (0.5,) * 2,
    "all 0": (0.0,) * 5,
    "all 0.9": (0.9,) * 5,
    "all 1": (1.0,) * 5,
    "0, 0, 0.9, 0.9, 1": (0.0, 0.0, 0.9, 0.9, 1.0),
    "0.1, 0.3, 0.5, 0.7, 0.9": (0.1, 0.3, 0.5, 0.7, 0.9),
    "0.8, and four of 0": (0.8, 0.0, 0.0, 0.0, 0.0),
}
"""Of every variable of a rig what persists."""


def of_a_rig(rhos, count, tau, seed):
    """What is learned of each variable from its own pairs, and from all; marginals are learned, too."""
    marginal = SUPPLIES["truncated normal"]
    pairs = [pairs_of(marginal, rho, tau, count, 100 * seed + i) for i, rho in enumerate(rhos)]
    learned = [fitted(p.during) for p in pairs]
    alone = [shares_that_persist([m], [p])[0] for m, p in zip(learned, pairs, strict=True)]
    return np.array(alone), np.array(shares_that_persist(learned, pairs))


def rigs(supplies, tau):
    """Root mean squared error and share within 0.1, of both."""
    for count in (15, 40):
        for name, rhos in RIGS.items():
            found = np.array([of_a_rig(rhos, count, tau, seed) for seed in range(supplies)]) - np.array(rhos)
            rmse, near = np.sqrt(np.square(found).mean(axis=(0, 2))), (np.abs(found) <= 0.1).mean(axis=(0, 2))
            both = ", ".join(f"{r:.3f} {n:.0%}" for r, n in zip(rmse, near, strict=True))
            print(f"{count} pairs, {name}: alone, together {both}", flush=True)


def decision_s(trials, *, learned, look, repeats=7):
    """CPU seconds of decisions of the default policy, one trial after the other, every variable read or none."""
    problem, rng = plant_problem("integrated"), np.random.default_rng(3)
    policy = policy_to_measure("likely-maximisers")
    if learned:
        variables = tuple(replace(v, marginal=Learned()) for v in problem.space.variables)
        problem = replace(problem, space=replace(problem.space, variables=variables))
    errors = (0.02,) * problem.space.dimension
    rows = list(history(trials, 0).observations)
    if look:
        near = [Look(tuple((np.array(o.x) + 0.05 * rng.standard_normal(len(errors))).tolist()), errors) for o in rows]
        rows = [replace(o, look=before) for o, before in zip(rows, near, strict=True)]
    growing = [History.of(rows[: trials - repeats])]
    for row in rows[trials - repeats :]:
        growing.append(growing[-1].append(row))
    state, spent = fitted_state(policy, plant_problem("integrated"), len(growing[0])), []
    for past in growing:
        now = Look(tuple(rng.random(len(errors)).tolist()), errors)
        asked = replace(problem, looks=True, look=now) if look else problem
        began = time.process_time()
        next_proposal(policy, state, asked, past, trial_rng(0, len(past) + 1))
        spent.append(time.process_time() - began)
    return spent[1:]


def cpu():
    """With and without a look, in turn."""
    for trials in (20, 60, 200):
        spent = {(learned, look): [] for learned in (False, True) for look in (False, True)}
        for _ in range(3):
            for (learned, look), seconds in spent.items():
                seconds.extend(decision_s(trials, learned=learned, look=look))
        middle = {key: median(seconds) for key, seconds in spent.items()}
        for learned, word in ((False, "declared"), (True, "learned")):
            blind, seeing = middle[learned, False], middle[learned, True]
            print(f"{trials} trials, marginals {word}: {blind:.3f} s, with a look {seeing:.3f} s: {seeing / blind:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--supplies", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--tau", type=float, default=0.05)
    parser.add_argument("--rigs", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    with threadpool_limits(limits=1):
        if given.cpu:
            cpu()
        elif given.rigs:
            rigs(given.supplies, given.tau)
        else:
            estimates(given.supplies, given.pairs, given.tau)
