from __future__ import annotations

import pytest

from tests.simulation.power import Lost, run


def test_fault_28_the_journal_survives_the_end_of_the_world_at_any_operation(tmp_path):
    """Rows, seals, budget and caps, through three lives; all operations are looked at by the script."""
    assert run(0, tmp_path, share=0.04) > 100


@pytest.mark.slow
def test_fault_28_the_journal_survives_it_at_every_operation(tmp_path):
    """The long form."""
    assert run(2, tmp_path) > 500


def test_a_journal_that_does_not_sync_is_found(tmp_path):
    """The same look finds what `synchronous = OFF` loses."""
    with pytest.raises(Lost, match="after"):
        run(0, tmp_path, share=0.04, tamper=lambda j: j._connection.execute("PRAGMA synchronous = OFF"))


def test_a_volume_that_is_forgotten_is_found(tmp_path):
    """Caps are held against numbers that no journal has seen."""

    def forget(journal):
        journal._connection.execute(
            "CREATE TEMP TRIGGER forget AFTER INSERT ON main.doses BEGIN "
            "UPDATE doses SET volume_ml = volume_ml / 2.0 WHERE id = NEW.id; END"
        )

    with pytest.raises(Lost, match="against the cap"):
        run(0, tmp_path, share=0.0, tamper=forget)
