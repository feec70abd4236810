from random import Random

import pytest

from rigctl.campaign.journal import Journal, open_reader
from rigctl.errors import UsageError
from tests.campaign.records import SetClock
from tests.simulation.disk import Disk
from tests.simulation.power import Lost, run


@pytest.mark.slow
def test_fault_28_the_journal_survives_the_end_of_the_world_at_any_operation(tmp_path):
    """Rows, seals, budget and caps, through three lives; all operations are looked at by the script."""
    assert run(0, tmp_path, share=0.04) > 50


@pytest.mark.nightly
def test_fault_28_the_journal_survives_it_at_every_operation(tmp_path):
    """The long form."""
    assert run(2, tmp_path) > 500


def test_fault_28_a_journal_whose_first_page_was_not_in_time_is_begun_anew(tmp_path, golden):
    """As long as it should be, all zeros, and beside it what SQLite needs to take the transaction back."""
    disk, left = Disk(Random(1)), []
    disk.on_operation = lambda operation, name: left.append(disk.if_power_failed()) if operation == "delete" else None
    with disk.installed(tmp_path / "first"):
        Journal(tmp_path / "first", SetClock(), "boot-1")._connection.close()
    (tmp_path / "after").mkdir()
    for name, content in left[0].items():
        (tmp_path / "after" / name).write_bytes(bytes(4096) if name == "journal.sqlite" else content)
    with golden.raises(UsageError), open_reader(tmp_path / "after"):
        pass
    Journal(tmp_path / "after", SetClock(), "boot-1").close()
    assert set(left[0]) == {"journal.sqlite", "journal.sqlite-journal"}


@pytest.mark.slow
def test_a_journal_that_does_not_sync_is_found(tmp_path):
    """The same look finds what `synchronous = OFF` loses."""
    with pytest.raises(Lost, match="after"):
        run(0, tmp_path, share=0.04, tamper=lambda j: j._connection.execute("PRAGMA synchronous = OFF"))


@pytest.mark.slow
def test_a_volume_that_is_forgotten_is_found(tmp_path, golden):
    """Caps are held against numbers that no journal has seen."""

    def forget(journal):
        journal._connection.execute(
            "CREATE TEMP TRIGGER forget AFTER INSERT ON main.doses BEGIN "
            "UPDATE doses SET volume_ml = volume_ml / 2.0 WHERE id = NEW.id; END"
        )

    with golden.raises(Lost):
        run(0, tmp_path, share=0.0, tamper=forget)
