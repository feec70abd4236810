"""Hyper-parameters that the data leave open: draws from their posterior, by elliptical slice sampling.

The most likely hyper-parameters alone make a model of few outcomes too sure of itself. Draws are those of Murray, Adams
and MacKay (2010) with a Gaussian at the mode, by its curvature, in the place of the prior, and the rest as likelihood
(Nishihara, Murray and Adams 2014), so that nearly every step moves far.
"""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import OutcomeRecord
from rigctl.core.gp.priors import LogPosterior, PriorName

DRAWS = 24
SKIPPED = 4
"""Steps before the first draw."""
STEPS = 2
"""From one draw to the next."""
MOST_ROWS = 128
"""Of more outcomes as many count, spread over time, so that of many a little more is left open than they do."""
STEP = 1e-3
"""Of the differences that give the curvature, in the logarithms."""
WIDER = 2.0
"""How much wider the Gaussian is than the curvature says: tails are long where outcomes are few."""
FLATTEST = 0.2
"""The least curvature: what is left open by data and prior alike."""
SHRINKS = 30
"""A step that is shrunk so often ends where it began."""


def _root(density: LogPosterior, mode: FloatArray) -> FloatArray:
    """Return a square root, (d + 2, d + 2), of the covariance of the Gaussian at the mode of theta."""
    each = STEP * np.eye(len(mode))
    rises = [density.value_and_gradient(mode + e)[1] - density.value_and_gradient(mode - e)[1] for e in each]
    curvature = -np.array(rises) / (2 * STEP)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray(WIDER * vectors / np.sqrt(np.maximum(values, FLATTEST)))


def plausible(
    record: OutcomeRecord, mode: Hyperparameters, prior: PriorName, rng: np.random.Generator
) -> tuple[Hyperparameters, ...]:
    """Return `DRAWS` hyper-parameters, equally likely given the outcomes, of which there must be one.

    `mode` are the likeliest under this prior, without terms of ageing. The same state of `rng` gives the same draws.
    """
    density = LogPosterior.of(record.x, record.y, mode, prior, record.noise, most=MOST_ROWS)
    drawn = _drawn(density, mode.theta, _root(density, mode.theta), rng)
    return tuple(map(mode.with_values, np.exp(drawn)))


def _drawn(density: LogPosterior, centre: FloatArray, root: FloatArray, rng: np.random.Generator) -> list[FloatArray]:
    """Return draws of theta, (d + 2,) each."""

    def beyond(u: FloatArray) -> float:
        """Return the log density at the centre + root u, less that of the Gaussian."""
        return density.value_and_gradient(centre + root @ u, alone=True)[0] + 0.5 * float(u @ u)

    u, drawn = np.zeros(len(centre)), []
    at = beyond(u)
    for step in range(SKIPPED + STEPS * DRAWS):
        other, least = rng.standard_normal(len(u)), at + np.log(rng.random())
        angle = 2 * np.pi * rng.random()
        low, high = angle - 2 * np.pi, angle
        for _ in range(SHRINKS):
            moved = u * np.cos(angle) + other * np.sin(angle)
            there = beyond(moved)
            if there > least:
                u, at = moved, there
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = low + (high - low) * rng.random()
        if step >= SKIPPED and (step - SKIPPED) % STEPS == STEPS - 1:
            drawn.append(centre + root @ u)
    return drawn
