"""What lateness costs, against what fewer known outcomes would: figures known by hand."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from tests.bench import measure_delays
from tests.bench.measure_delays import Regret, by_what_is_known, known


def test_an_outcome_is_known_before_the_trial_after_its_delay() -> None:
    """Trial 1 takes three more, 2 none, 3 never comes, 4 one more."""
    late = {1: 3, 2: 0, 3: None, 4: 1}
    assert known(late.get, 4).tolist() == [0, 0, 1, 1]
    assert known({**late, 5: None, 6: None}.get, 6).tolist() == [0, 0, 1, 1, 2, 3]


def test_late_trials_are_given_the_gaps_of_those_that_knew_as_much() -> None:
    """With one outcome always missing each trial loses what the one before it loses at once."""
    costs = np.full(4, 2.0)
    at_once = Regret(0.0, 0.0, np.array([8.0, 4.0, 2.0, 2.0]), costs)
    at_once = Regret(float(at_once.gaps.sum() / costs.sum()), 0.0, at_once.gaps, costs)
    with patch.object(measure_delays, "delays", lambda _: lambda _: 1):
        expected = by_what_is_known([at_once], [at_once])
    assert expected == pytest.approx((8 + 8 + 4 + 2) / (8 + 4 + 2 + 2))
