"""Ackley, Levy and Rosenbrock against the paper's equations at points worked out by hand, and their costs."""

import numpy as np
import pytest

from rigctl.bench.problems.full_control import full_control

NAMES = ("ackley", "levy", "rosenbrock")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dimension", [2, 4, 8, 16])
def test_the_best_value_is_where_it_is_said_to_be_and_nowhere_else(name, dimension):
    """The function is best there, and of thousands of other points none comes up to it."""
    problem = full_control(name, dimension)
    (best,) = problem.truth.best
    at = np.array([best.setting])
    assert problem.objective(at)[0] == pytest.approx(best.value, abs=1e-12)
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random((4000, dimension)), at + 0.01 * rng.standard_normal((1000, dimension))])
    assert (problem.objective(points) < best.value).all()
    assert problem.objective(points).shape == (5000,)


def test_functions_have_the_papers_values():
    """Eqs. 74 to 76, negated, at points whose terms are easily summed by hand."""
    corner, middle = np.ones((1, 3)), np.full((1, 3), 0.5)
    ackley, levy, rosenbrock = (full_control(name, 3).objective for name in NAMES)
    assert ackley(corner)[0] == pytest.approx(-20 * (1 - np.exp(-0.2)))  # all x = 1, all cosines 1
    quarter = np.full((1, 3), 0.625)  # all x = 1/4, all cosines 0
    assert ackley(quarter)[0] == pytest.approx(-(20 - 20 * np.exp(-0.05) - 1 + np.e))
    fifths = np.array([[0.75, 0.75, 0.75]])  # x = 5, so w = 2: (w - 1)^2 = 1, sines of 2 pi and 2 pi + 1
    assert levy(fifths)[0] == pytest.approx(-(0 + 2 * (1 + 10 * np.sin(1.0) ** 2) + 1))
    assert levy(middle)[0] == pytest.approx(  # x = 0, w = 3/4
        -(0.5 + 2 * 0.0625 * (1 + 10 * np.sin(0.75 * np.pi + 1) ** 2) + 0.0625 * 2)
    )
    assert rosenbrock(middle)[0] == pytest.approx(-2 * (100 * (2.5 - 6.25) ** 2 + 1.5**2))
    assert rosenbrock(np.array([[0.4, 0.4, 1 / 3]]))[0] == pytest.approx(-(0 + 100.0 + 0))  # (1, 1, 0)


@pytest.mark.parametrize(
    ("costs", "cheapest", "dearest"),
    [("uniform", 1, 1), ("varying", 1, 21), ("varying-sum", 1, 161)],
)
def test_costs_are_the_papers(costs, cheapest, dearest):
    """Eq. 77 at both corners of the cube, its slope everywhere the same; as many free points as in the paper."""
    problem = full_control("levy", 8, costs)
    field = problem.costs.field
    corners = np.array([np.zeros(8), np.ones(8)])
    np.testing.assert_allclose(field.mean(0, corners), [cheapest, dearest])
    np.testing.assert_array_equal(field.upper(0, corners), field.mean(0, corners))
    slope = (dearest - cheapest) / 8
    np.testing.assert_allclose(field.gradient(0, corners), np.full((2, 8), slope))
    assert problem.initial_points(np.random.default_rng(0)).shape == (18, 8)
