"""Functions as sums of products of one-dimensional factors, whose expectations are then one-dimensional too.

    f(x) = sum_j w_j prod_l phi_jl(x_l)      E[f([x^i, X^-i])] = sum_j w_j prod_{l in I} phi_jl(x_l) prod_{l not in I} E[phi_jl(X_l)]

Every bench problem has this form exactly or to about ten digits, so the true value of a setting needs no sampling.
"""  # noqa: E501  # the two formulae belong side by side

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gamma
from typing import Protocol

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, blocks
from rigctl.core.experiment.kernels import Kernel1D, SquaredExponential

Factor = Callable[[int, FloatArray], FloatArray]
"""(variable l, x (n,), unit cube) -> phi_jl(x) of every term, (n, J)."""


class Natural(Protocol):
    """How an uncontrolled variable of a bench problem varies: a marginal with a quadrature rule."""

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        """Return E[k(X, b)], (n,), for b (n,)."""
        ...

    def rule(self, width: float) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights (sum 1) for expectations of functions with features no narrower than `width`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """J products of factors, and their weights. Factors may be complex; a value is the sum's real part."""

    weights: FloatArray
    """(J,)."""
    factor: Factor
    expected: Callable[[int, Natural], FloatArray]
    """(variable l, its marginal) -> E[phi_jl(X)] of every term, (J,)."""
    summed: Callable[[FloatArray, Sequence[int], FloatArray], FloatArray] | None = None
    """(weights w (J,), variables, x (n, k)) -> sum_j w_j prod_l phi_jl(x_l), (n,); None: multiply the factors."""


def gaussian_terms(weights: FloatArray, centres: FloatArray, precisions: FloatArray) -> Terms:
    """Return phi_jl(x) = exp(-p_gl (x - c_jl)^2 / 2): groups g of terms that share their precisions.

    Expectations are in closed form; a precision of 0 is a factor of 1.

    Args:
        weights: (J,), J = groups * centres per group, group by group.
        centres: (J / groups, d) shared by all groups, or (J, d), unit cube.
        precisions: (groups, d), inverse squares of lengthscales.
    """
    groups, d = precisions.shape
    size = len(weights) // groups
    shared = len(centres) == size
    each = np.broadcast_to(centres, (groups, size, d)) if shared else centres.reshape(groups, size, d)

    def factor(variable: int, x: FloatArray) -> FloatArray:
        apart = np.square(x[:, None, None] - each[None, :, :, variable])
        apart *= -0.5 * precisions[:, variable, None]
        return np.asarray(np.exp(apart, out=apart).reshape(len(x), -1))

    def expected(variable: int, marginal: Natural) -> FloatArray:
        out = [
            marginal.z(group[:, variable], SquaredExponential(precision[variable] ** -0.5))
            if precision[variable] > 0
            else np.ones(len(group))
            for precision, group in zip(precisions, each, strict=True)
        ]
        return np.concatenate(out)

    return Terms(weights, factor, expected)


def wave_terms(weights: FloatArray, frequencies: FloatArray) -> Terms:
    """Return phi_jl(x) = exp(i omega_jl x), with weights (J,), complex, a sum of cosines; omega (J, d), radians.

    Expectations are the marginal's characteristic function.
    """

    def factor(variable: int, x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(1j * x[:, None] * frequencies[:, variable]))

    def expected(variable: int, marginal: Natural) -> FloatArray:
        fastest = float(np.abs(frequencies[:, variable]).max())
        nodes, rule = marginal.rule(1.0 / max(fastest, 1.0))
        return np.asarray(rule @ factor(variable, nodes))

    def summed(w: FloatArray, variables: Sequence[int], x: FloatArray) -> FloatArray:
        return np.asarray(np.cos(x @ frequencies[:, list(variables)].T + np.angle(w)) @ np.abs(w))

    return Terms(weights, factor, expected, summed)


def curve_terms(weights: FloatArray, curves: Factor, width: float) -> Terms:
    """Return factors that are any smooth curves, none with a feature narrower than `width`; expected by quadrature."""

    def expected(variable: int, marginal: Natural) -> FloatArray:
        nodes, rule = marginal.rule(width)
        return np.asarray(rule @ curves(variable, nodes))

    return Terms(weights, curves, expected)


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """F_i of one control set: the uncontrolled factors are replaced by their expectations, once."""

    terms: tuple[Terms, ...]
    variables: tuple[int, ...]
    """The controlled ones, in the order of a setting's columns."""
    weights: tuple[FloatArray, ...]
    """Per kind of terms (J,): weight times the expected uncontrolled factors."""
    constant: float

    @classmethod
    def of(
        cls, terms: Sequence[Terms], constant: float, controlled: Sequence[int], marginals: Sequence[Natural]
    ) -> Partial:
        free = [v for v in range(len(marginals)) if v not in controlled]
        weights = []
        for kind in terms:
            w = kind.weights
            for variable in free:
                w = w * kind.expected(variable, marginals[variable])
            weights.append(w)
        return cls(tuple(terms), tuple(controlled), tuple(weights), constant)

    def __call__(self, settings: FloatArray) -> FloatArray:
        """Return the true values of settings (n, k), unit cube, (n,)."""
        out = np.full(len(settings), self.constant)
        for kind, weights in zip(self.terms, self.weights, strict=True):
            for part in blocks(len(settings), len(weights), 1 << 20):
                if kind.summed is not None:
                    out[part] += kind.summed(weights, self.variables, settings[part])
                    continue
                product = np.broadcast_to(weights, (len(settings[part]), len(weights)))
                for column, variable in enumerate(self.variables):
                    product = product * kind.factor(variable, settings[part, column])
                out[part] += product.sum(axis=1).real
        return out

    def on_grid(self, axes: Sequence[FloatArray]) -> FloatArray:
        """Return the values on the grid of axes, one per controlled variable, in index order; by matrix products."""
        shape = tuple(len(a) for a in axes)
        out = np.full(shape, self.constant)
        for kind, weights in zip(self.terms, self.weights, strict=True):
            left = weights[None, :]
            for variable, axis in zip(self.variables[:-1], axes[:-1], strict=True):
                left = (left[:, None, :] * kind.factor(variable, axis)[None, :, :]).reshape(-1, len(weights))
            if axes:
                right = kind.factor(self.variables[-1], axes[-1])
                out += (left @ right.T).real.reshape(shape)
            else:
                out += left.sum().real
        return out


def matern52_as_gaussians(step: float = 0.35) -> tuple[FloatArray, FloatArray]:
    """Return weights and squared lengthscales (q,): sum_q w_q exp(-r2 / (2 t_q)) is the Matern-5/2 correlation of r2.

    A Matern correlation of smoothness nu is the mean of squared-exponential ones whose squared lengthscale is
    Gamma(nu, nu) distributed (Gradshteyn and Ryzhik 3.471.9). The trapezoid rule on ln t converges exponentially in
    1/step: to 6e-10 here, which the weights of a fitted process (thousands in all) turn into 1e-7 at most.
    """
    nu = 2.5
    u = np.arange(-11.0, 3.2, step)
    t = np.exp(u)
    return step * nu**nu / gamma(nu) * np.exp(nu * (u - t)), t


def root_exponential_as_gaussians(step: float = 0.2) -> tuple[FloatArray, FloatArray]:
    """Return weights and rates (q,) with sum_q w_q exp(-s t_q) = exp(-sqrt(s)), for s of 1e-9 and more.

    exp(-sqrt(s)) is the Laplace transform of the Levy distribution with scale 1/2 (Feller volume 2, XIII.3). What is
    cut off at large t only matters at s = 0, where its weight is 1e-5.
    """
    u = np.arange(-4.5, 23.0, step)
    t = np.exp(u)
    return step * np.exp(-0.25 / t - 0.5 * u) / (2.0 * np.sqrt(np.pi)), t
