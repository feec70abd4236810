"""`rigctl ingest`: trials done by hand, from options, JSON or CSV, into the journal."""

import sqlite3

import pytest

from rigctl.campaign.journal.rows import TrialRecord
from rigctl.campaign.journal.writer import Journal

GOOD = ("--control-set", "ca+ph", "--values", "ph=6.0, ca=2", "--outcome", "1.1", "--cost", "0.25")


@pytest.mark.slow
def test_a_list_is_recorded_whole_or_not_at_all(bench, monkeypatch):
    """If the journal fails in the middle of a list, none of it is there, and the list can be given again."""
    bench.rigctl("ingest", "bench.yaml", *GOOD)
    insert = Journal._insert

    def full(self, kind, values, on_conflict=""):
        if kind is TrialRecord and values["trial"] == 4:
            raise sqlite3.OperationalError("full")
        return insert(self, kind, values, on_conflict)

    for does, code, trials in ((full, 1, 1), (insert, 0, 6)):
        monkeypatch.setattr(Journal, "_insert", does)
        bench.rigctl("ingest", "bench.yaml", "trials.csv", code=code)
        assert len(bench.rigctl("export", "--format", "jsonl").out.splitlines()) == trials
    assert bench.rigctl("status", "bench.yaml", "--json").json["spent"] == 2.35
