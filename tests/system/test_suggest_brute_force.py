"""`rigctl suggest --json` against brute force: the plain formulas of a Gaussian process over dense nodes.

Nothing here is shared with the program: the kernel, the Cholesky solve, the truncated normals (scipy's) and the
averages over uncontrolled variables are written out again, and the search is exhaustive where it can be.
"""

import csv
import json
from itertools import combinations

import numpy as np
import pytest
import yaml
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from scipy.stats import qmc, truncnorm

from tests.forked import run
from tests.profiles import nightly_beyond

BETA = 2.0
SIGNAL, NOISE, LENGTHSCALE = 1.0, 0.01, 0.3
PROBLEMS = {
    3: [c for size in (1, 2, 3) for c in combinations(range(3), size)],
    5: [(0, 1), (2, 3), (3, 4), (0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 1, 2, 3, 4)],
    12: [(0, 1), (2, 3), (0, 1, 2, 3, 4, 5), (6, 7), (0, 6), (4, 5), tuple(range(12))],
}


def lengthscale(d):
    return LENGTHSCALE if d <= 5 else 0.8


def parent(sd):
    """The parent's scale of a truncated normal on [0, 1] that has mean 0.5 and this sd."""
    return brentq(lambda s: truncnorm(-0.5 / s, 0.5 / s, 0.5, s).std() - sd, 0.02, 20.0)


def f(x):
    return np.sin(4 * x[:, 0]) + np.cos(3 * x[:, 1] + x[:, 2])


class BruteForce:
    """Plain Gaussian-process formulas on the unit cube."""

    def __init__(self, x, y, sd):
        self.x, self.d = x, x.shape[1]
        self.factor = cho_factor(self.kernel(x, x) + NOISE**2 * np.eye(len(x)), lower=True)
        self.alpha = cho_solve(self.factor, y)
        scale = parent(sd)
        points = qmc.Sobol(self.d, rng=np.random.default_rng(5)).random(4096)
        self.nature = truncnorm(-0.5 / scale, 0.5 / scale, 0.5, scale).ppf(np.clip(points, 1e-9, 1 - 1e-9))

    def kernel(self, a, b):
        squared = cdist(a, b, "sqeuclidean")
        return SIGNAL**2 * np.exp(-squared / (2 * lengthscale(self.d) ** 2))

    def situations(self, members, setting, count):
        rows = self.nature[:count].copy()
        rows[:, list(members)] = setting
        return rows

    def mean(self, members, setting, count=None):
        rows = self.situations(members, setting, count)
        return float(np.mean(self.kernel(rows, self.x) @ self.alpha))

    def pointwise_sd(self, members, setting, count=None):
        rows = self.situations(members, setting, count)
        cross = self.kernel(rows, self.x)
        explained = (cross * cho_solve(self.factor, cross.T).T).sum(axis=1)
        return float(np.mean(np.sqrt(np.maximum(SIGNAL**2 - explained, 0))))

    def integrated_sd(self, members, setting, count=2048):
        """The double average of the posterior covariance, over every pair of nodes (two independent draws)."""
        first = self.situations(members, setting, count)
        second = first[np.random.default_rng(0).permutation(len(first))]
        pairs = np.mean([self.kernel(a, second).mean() for a in np.array_split(first, 16)])
        weight = self.kernel(first, self.x).mean(axis=0)
        return float(np.sqrt(max(pairs - weight @ cho_solve(self.factor, weight), 0.0)))


def write_bench(folder, d, sets, kind):
    """A configuration without devices, and a history generated here."""
    names = [f"v{i}" for i in range(d)]
    config = {
        "rig": f"bench-{d}",
        "currency": "EUR",
        "budget": "100 EUR",
        "seed": 7,
        "policy": {"name": "explore-then-commit", "tolerance": 0.05},
        "model": {
            "hyperparameters": "fixed",
            "lengthscales": dict.fromkeys(names, lengthscale(d)),
            "signal_sd": SIGNAL,
            "noise_sd": NOISE,
            "mean": 0,
            "bounds": kind,
            "beta": BETA,
        },
        "variables": {
            n: {"unit": "mM", "range": [10, 30], "natural": {"truncated_normal": {"mean": 20, "sd": 4}}} for n in names
        },
        "control_sets": [[names[i] for i in members] for members in sets],
        "outcome": {"name": "yield", "unit": "g", "direction": "maximise", "floor": -3},
    }
    (folder / "bench.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    rng = np.random.default_rng(d)
    x = np.round(rng.random((30, d)), 4)
    y = np.round(f(x) + NOISE * rng.standard_normal(30), 6)
    with (folder / "trials.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "control_set", "yield", "cost"])
        for i, (row, value) in enumerate(zip(x, y, strict=True)):
            members = sets[i % len(sets)]
            writer.writerow([*(10 + 20 * row).round(6), "+".join(names[j] for j in members), value, 0.1])
    return names, x, y


def suggested(folder):
    answer = run(["rigctl", "suggest", "bench.yaml", "--history", "trials.csv", "--json"], cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["integrated", "pointwise"])
@pytest.mark.parametrize("d", nightly_beyond(1, sorted(PROBLEMS, reverse=True)))
def test_suggested_numbers_agree_with_brute_force(tmp_path, d, kind):
    """Upper, lower, mean and sd agree to 1e-3 of the outcome's range, and no random search beats the maximisers."""
    sets = PROBLEMS[d]
    names, x, y = write_bench(tmp_path, d, sets, kind)
    answer = suggested(tmp_path)
    brute = BruteForce(x, y, sd=0.2)
    tolerance = 1e-3 * (y.max() - y.min())
    rng = np.random.default_rng(1)
    for members, report in zip(sets, answer["control_sets"], strict=True):
        assert report["control_set"] == [names[i] for i in members]
        at = np.array([(report["at"][names[i]] - 10) / 20 for i in members])
        spread = brute.integrated_sd if kind == "integrated" else brute.pointwise_sd
        mean, sd = brute.mean(members, at), spread(members, at)
        assert report["mean"] == pytest.approx(mean, abs=tolerance)
        assert report["sd"] == pytest.approx(sd, abs=tolerance)
        assert report["upper"] == pytest.approx(report["mean"] + BETA * report["sd"], abs=1e-9)
        assert report["lower"] == pytest.approx(report["mean"] - BETA * report["sd"], abs=1e-9)
        low_at = np.array([(report["best_lower_at"][names[i]] - 10) / 20 for i in members])
        lower = brute.mean(members, low_at) - BETA * spread(members, low_at)
        assert report["best_lower"] == pytest.approx(lower, abs=tolerance)
        rivals = np.clip(
            np.vstack([rng.random((30, len(members))), at + 0.05 * rng.standard_normal((10, len(at)))]), 0, 1
        )
        for rival in rivals:
            value, width = brute.mean(members, rival, 256), spread(members, rival, 256)
            assert value + BETA * width <= report["upper"] + 10 * tolerance
            assert value - BETA * width <= report["best_lower"] + 10 * tolerance
