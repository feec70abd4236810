"""The plain formulas, written without any of the closed forms: a Gaussian process and dense quasi-Monte-Carlo."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc, truncnorm

from rigctl import ModelOptions, Space, TruncatedNormal, Variable

NAMES = "abcdefghijkl"


@dataclass
class PlainProcess:
    """Textbook prediction with a squared-exponential kernel and known hyper-parameters."""

    x: np.ndarray
    y: np.ndarray
    lengthscales: np.ndarray
    signal: float
    noise: float
    mean: float

    def __post_init__(self):
        K = self.k(self.x, self.x) + self.noise**2 * np.eye(len(self.x))
        self.inverse = np.linalg.inv(K)
        self.alpha = self.inverse @ (self.y - self.mean)

    def k(self, a, b):
        """(p, q) covariances of points (p, d) and (q, d)."""
        a, b = a / self.lengthscales, b / self.lengthscales
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        return self.signal**2 * np.exp(-0.5 * squares)

    def mu(self, points):
        """(p,) posterior means."""
        return self.mean + self.k(points, self.x) @ self.alpha

    def variance(self, points):
        """(p,) posterior variances."""
        w = self.k(points, self.x)
        return self.signal**2 - ((w @ self.inverse) * w).sum(axis=1)

    def covariance(self, points, others):
        """(p, q) posterior covariances."""
        return self.k(points, others) - self.k(points, self.x) @ self.inverse @ self.k(self.x, others)


def natural(mean, sd, count, d, seed):
    """(count, d): every variable an independent truncated normal on [0, 1] given by its *parent*, by Sobol points."""
    uniform = qmc.Sobol(d, seed=seed).random(count)
    return truncnorm((0 - mean) / sd, (1 - mean) / sd, mean, sd).ppf(uniform)


def slopes(function, points, step=1e-6):
    """Central differences, (b, d), of a function of rows (b, d)."""
    ends = [[function(points + side * step * e) for side in (1, -1)] for e in np.eye(points.shape[1])]
    return np.stack([(up - down) / (2 * step) for up, down in ends], axis=1)


def at_setting(nodes, indices, setting):
    points = nodes.copy()
    points[:, list(indices)] = setting
    return points


@dataclass
class Case:
    """A space of d variables left to the same truncated normal, data, and the plain process of that data."""

    space: Space
    options: ModelOptions
    plain: PlainProcess
    nodes: np.ndarray
    """(q, d) of the variables left alone."""

    @property
    def outcome_range(self):
        return np.ptp(self.plain.y)


LOC, SCALE = 0.45, 0.25


def make_case(d, n, lengthscale, sets, seed=0, nodes=4096, **model):
    """Data from random waves as rough as the kernel."""
    rng = np.random.default_rng(seed)
    variables = [Variable(name, "", 0.0, 1.0, TruncatedNormal(LOC, SCALE)) for name in NAMES[:d]]
    x = rng.random((n, d))
    waves, phases = rng.standard_normal((100, d)) / lengthscale, 2 * np.pi * rng.random(100)
    y = 3.0 + 2.0 * np.cos(x @ waves.T + phases) @ rng.standard_normal(100) * np.sqrt(2 / 100)
    lengthscales = lengthscale * np.linspace(0.8, 1.2, d)
    options = ModelOptions("fixed", lengthscales=tuple(lengthscales), signal_sd=2.0, noise_sd=0.02, mean=3.0, **model)
    plain = PlainProcess(x, y, lengthscales, 2.0, 0.02, 3.0)
    return Case(Space.of(variables, sets), options, plain, natural(LOC, SCALE, nodes, d, seed))
