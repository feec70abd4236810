"""What looks mistyped is asked about wherever a person says it."""

from __future__ import annotations

import pytest

from tests.console.conftest import BENCH


@pytest.mark.parametrize(
    ("values", "outcome", "what"),
    [("ph=6,ca=3", "901", "growth: 901 is outside the plausible 0 to 900"), ("ph=6,ca=8", "1", "ca: 8 mM is 0.3 mM")],
)
def test_what_is_not_plausible_is_asked_about_at_a_bench_too(bench, values, outcome, what):
    """Of an outcome from the first trial on, with no others to hold it against; of a variable within its margin."""
    pairs = (
        ("floor: 0", "floor: 0, plausible: [0, 900]"),
        ("range: [0, 7.7],", "range: [0, 7.7], plausible: [0, 7.7],"),
    )
    text = BENCH
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    bench.write("bench.yaml", text)
    told = ("--control-set", "ph", "--values", values, "--outcome", outcome, "--cost", "0.3")
    assert what in bench.rigctl("ingest", "bench.yaml", *told, code=2).err
    bench.rigctl("ingest", "bench.yaml", *told, "--force")


@pytest.mark.parametrize(
    ("slip", "what"),
    [
        (("--values", "ph=61"), "ph: 61 pH is 54.2 pH above its range of 5.2 to 6.8; was 6.1 meant?"),
        (("--outcome", "742"), "growth: 742 is 617 times the width of the 3 others (0.7 to 1.9) away from them"),
        (("--cost", "5000"), "cost: 5000 EUR is 1"),
    ],
)
def test_what_looks_mistyped_of_an_amendment_is_asked_about(ingested, slip, what):
    """In the words that a new trial is asked about in; what the trial was before says nothing of it."""
    change = ("amend", "bench.yaml", "1", *slip, "--why", "typo")
    assert what in ingested.rigctl(*change, code=2).err
    assert "was amended" not in ingested.rigctl("explain", "bench.yaml", "--trial", "1").out
    assert "recorded all the same" in ingested.rigctl(*change, "--force").err
    back = ("--values", "ph=6.1", "--outcome", "1.2", "--cost", "0.5")
    assert ingested.rigctl("amend", "bench.yaml", "1", *back, "--why", "back").err == ""
