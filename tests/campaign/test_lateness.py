"""How late the watch looked, as `rigctl status` has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.campaign.watchman import LEAST_S, STEP, Lateness
from tests.profiles import share


@share(0.2)
@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.99, 1.0]))
def test_a_quantile_is_told_to_a_tenth_of_itself_and_never_as_less(delays, quantile):
    """Whatever the delays; beside the exact one, which needs all of them."""
    lateness = Lateness()
    for delay_s in delays:
        lateness.add(delay_s)
    rank = next(n for n in range(1, len(delays) + 1) if n >= quantile * len(delays))
    exact_s = sorted(delays)[rank - 1]
    assert exact_s <= lateness.quantile_s(quantile) * (1 + 1e-9) + (exact_s < LEAST_S) * LEAST_S
    assert lateness.quantile_s(quantile) <= max(exact_s * STEP, LEAST_S) * (1 + 1e-9)
    told = lateness.to_json()
    assert (told["looks"], told["late_max_s"]) == (len(delays), max(delays))
    assert told["late_p50_s"] <= told["late_p99_s"] <= told["late_max_s"]


def test_before_the_first_look_nothing_was_late():
    """And a year of looks takes no more room than the sizes there are."""
    lateness = Lateness()
    assert lateness.quantile_s(0.99) == pytest.approx(0.0)
    for n in range(10_000):
        lateness.add(1e-6 * n**2)
    assert len(lateness._sizes) < 150
