"""The simulation itself: replayed bit for bit, clean where nothing is wrong."""

from __future__ import annotations

from tests.simulation.fleet import outcome_of


def test_a_seed_is_replayed_bit_for_bit():
    """Two runs of one seed do the same things at the same times."""
    first, again = outcome_of(1), outcome_of(1)
    assert first.starts > 1
    assert (first.violation, first.digest, first.events) == ("", again.digest, again.events)
