"""What false outcomes do to campaigns of the default policy; the figures are in docs/benchmarks.md."""

from __future__ import annotations

import pytest

from rigctl.bench.running.simulate import one_thread
from tests.bench.measure_outliers import results


@pytest.mark.parametrize(("problem", "seed"), [("hills", 1), pytest.param("draws", 2, marks=pytest.mark.slow)])
def test_a_campaign_survives_false_outcomes(problem, seed):
    """One in twenty lucky, hundredfold, or a last one: what is recommended is no worse than a tenth of a spread."""
    kinds = ["clean", "last", "lucky5", "gross5", "typed11"]
    with one_thread():
        regrets = {kind: regret for kind, _, _, regret, _ in results(problem, kinds, range(seed, seed + 1), 10.0)}
    assert regrets["clean"] < 0.1
    assert max(regrets.values()) < 0.2
