"""Many trials: what inducing inputs keep of them, and that it does not matter how they came."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.surrogate import fit

H = Hyperparameters((0.25, 0.5), signal_sd=1.0, noise_sd=0.1, mean=0.1, y_shift=3.0, y_scale=2.0)
ROUGH = replace(H, lengthscales=(0.03, 0.05), mean=0.0)
FEW = ModelOptions(max_points=60, kernel="squared-exponential")
ALL = ModelOptions(max_points=10_000, kernel="squared-exponential")


def trials(n, seed=0):
    """Half of them repeats of a few settings, read back with a little scatter."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    x[n // 2 :] = x[rng.integers(5, size=n - n // 2)] + 1e-3 * rng.standard_normal((n - n // 2, 2))
    return x, 3 + 2 * np.sin(6 * x[:, 0]) * x[:, 1] + 0.2 * rng.standard_normal(n)


def conditioned(x, y, options, memo=None, h=H):
    return fit(x, y, options, h, refit=False, memo=memo)


def test_a_smooth_function_loses_nothing():
    """Where few inputs explain all, mean and sd are those of the exact process of ten times as many trials."""
    x, y = trials(600)
    exact, few = conditioned(x, y, ALL), conditioned(x, y, FEW)
    at = np.random.default_rng(1).random((200, 2))
    assert len(few.x) <= 60 < len(exact.x)
    sd = exact.sd(at)
    assert (np.abs(few.mean(at) - exact.mean(at)) < 0.1 * sd).all()
    assert np.sqrt(np.mean(np.square((few.mean(at) - exact.mean(at)) / sd))) < 0.03
    np.testing.assert_allclose(few.sd(at), sd, rtol=0.1)


def test_it_is_the_variational_posterior_of_its_inducing_inputs():
    """Mean and variance are those of Titsias 2009, eq. 6, written out for the inputs that were chosen."""
    x, y = trials(300)
    rough = Hyperparameters((0.05, 0.08), 1.2, 0.1, y_shift=3.0, y_scale=2.0)
    few = conditioned(x, y, FEW, h=rough)
    at = np.random.default_rng(1).random((100, 2))
    kernel, noise, s2 = rough.product_kernel, 0.01, 1.44
    Kuu, Kuf, Kut = (s2 * kernel.matrix(few.x, other) for other in (few.x, x, at))
    sigma = cho_factor(Kuu + Kuf @ Kuf.T / noise)
    mean = 3 + 2 * (Kut.T @ cho_solve(sigma, Kuf @ (y - 3) / 2 / noise))
    variance = s2 - (Kut * (np.linalg.solve(Kuu, Kut) - cho_solve(sigma, Kut))).sum(axis=0)
    np.testing.assert_allclose(few.mean(at), mean, atol=1e-6)
    np.testing.assert_allclose(few.sd(at), 2 * np.sqrt(variance), rtol=1e-5)


def test_it_hardly_ever_claims_to_know_more_than_the_exact_process():
    """Where 60 inputs are far too few, the spread is larger than the exact one; but what is best stays known."""
    x, y = trials(400)
    at = np.concatenate([np.random.default_rng(1).random((300, 2)), x[np.argsort(-y)[:5]]])
    exact, few = (conditioned(x, y, options, h=ROUGH).sd(at) for options in (ALL, FEW))
    ratios = few[:300] / exact[:300]
    assert np.median(ratios) > 1.2
    assert np.quantile(ratios, 0.02) > 0.99
    assert (ratios > 0.9).all()
    np.testing.assert_allclose(few[300:], exact[300:], rtol=0.05)


def test_a_trial_counts_at_once():
    """The last trial lowers the spread where it was done, also where no input had been chosen before."""
    x, y = trials(400)
    at = np.array([[1.4, 1.4]])
    before = conditioned(x, y, FEW, h=ROUGH)
    after = conditioned(np.concatenate([x, at]), np.append(y, 4.0), FEW, h=ROUGH)
    assert before.sd(at)[0] == pytest.approx(2.0)
    assert after.sd(at)[0] == pytest.approx(2 * np.sqrt(1 - 1 / 1.01), rel=1e-3)
    assert after.mean(at)[0] == pytest.approx(3 + 1.0 / 1.01, rel=1e-3)


def test_growing_trial_by_trial_gives_the_same_bits_as_a_fresh_start():
    """Through the limit and several choices of inputs; what is kept belongs to inputs and outcomes both."""
    x, y = trials(110)
    memo = Memo()
    counts = set()
    for n in range(55, len(x) + 1):
        grown, fresh = conditioned(x[:n], y[:n], FEW, memo), conditioned(x[:n], y[:n], FEW)
        for name in ("x", "L", "alpha"):
            np.testing.assert_array_equal(getattr(grown, name), getattr(fresh, name))
        counts.add(len(grown.x))
    assert max(counts) == 60
    x, y = trials(100)
    memo = Memo()
    conditioned(x, y, FEW, memo)
    y[3] += 1.0
    np.testing.assert_array_equal(conditioned(x, y, FEW, memo).alpha, conditioned(x, y, FEW).alpha)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4])
def test_hardly_any_noise_is_survived(noise):
    """With nearly equal inputs and no noise to speak of everything stays finite; noise that was added is noted."""
    x, y = trials(200)
    still = Hyperparameters((0.25, 0.5), 1.0, noise)
    posterior = conditioned(x, y, FEW, h=still)
    at = np.random.default_rng(1).random((50, 2))
    assert np.isfinite(posterior.mean(at)).all()
    assert np.isfinite(posterior.sd(at)).all()
    assert (posterior.jitter > 0) == bool(posterior.notes) == (noise < 1e-5)


def test_what_inducing_inputs_elsewhere_say_of_a_trial():
    """Of one of them it is what the others say, against the process given their values; of any other, what all do."""
    x, y = trials(150)
    posterior = conditioned(x, y, FEW)
    assert posterior.elsewhere is not None
    lift, left = posterior.elsewhere
    K, means = posterior.covariance(posterior.x), posterior.covariance(posterior.x) @ posterior.alpha
    at = posterior.covariance(x)
    for row in range(len(x)):
        kept = np.flatnonzero((posterior.x != x[row]).any(axis=1))
        weights = np.linalg.solve(K[np.ix_(kept, kept)], at[row, kept])
        assert left[row] == pytest.approx(H.signal_variance - weights @ at[row, kept], abs=1e-7)
        if len(kept) < len(K):
            assert lift[row] == pytest.approx(at[row] @ posterior.alpha - weights @ means[kept], abs=1e-6)
        else:
            assert lift[row] == 0.0
