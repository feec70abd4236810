"""`rigctl import` refuses what it cannot read: where it stands, and what to do."""

from __future__ import annotations

import pytest

from tests.console.dough import TABLE, put, text

BAD = {
    "no number": (["63", "hot", "49", "0.5", "proof"], (), 'old.csv:2: proof: got "hot", must be a number'),
    "below": (["63", "30", "<5", "0.5", "proof"], (), 'old.csv:2: rise: got "<5", must be a number'),
    "negative cost": (["63", "30", "49", "-1", "proof"], (), 'cost: got "-1", must not be negative'),
    "other unit": (["63 kg", "30", "49", "1", "proof"], (), 'hydration: got "63 kg", must be a number in %'),
    "unknown set": (["63", "30", "49", "1", "salt"], (), 'got "salt", must be variables joined by +, or nothing'),
    "either way": (["63", "30", "49", "1.234", "proof"], (), "which may be a thousand or a fraction; say --decimal"),
    "two marks": (["63.5", "30", "49", '"0,5"', "proof"], (), "say which with --decimal comma or --decimal point"),
    "map of nothing": (TABLE[1], ("Teig=proof",), "--map: no column 'Teig'; columns: hydration, proof"),
    "map to nothing": (TABLE[1], ("proof=prof",), 'did you mean "proof"?'),
    "map without =": (TABLE[1], ("proof",), "must be HEADER=NAME"),
    "too many": ([*TABLE[1], "9"], (), "old.csv:2: got 6 columns, the header in line 1 has 5"),
}


@pytest.mark.parametrize(("row", "maps", "what"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_named_with_line_and_column(dough, row, maps, what):
    """And nothing is imported."""
    put(dough, text([TABLE[0], row]).encode())
    options = [part for m in maps for part in ("--map", m)]
    assert what in dough.rigctl("import", "dough.yaml", "old.csv", *options, code=2).err
    assert not (dough.folder / "state").exists()


WRONG = {
    "column": (["hydration", "temp", "rise", "cost", "controlled"], "no column is proof (columns: hydration, temp"),
    "controlled": (["hydration", "proof", "rise", "cost", "what"], "no column says what was controlled"),
    "unit": (["hydration", "proof [bar]", "rise", "cost", "controlled"], "bar does not convert to degC"),
    "currency": (["hydration", "proof", "rise", "cost [USD]", "controlled"], "must be in the rig's currency EUR"),
    "twice": (["hydration", "proof", "rise", "Rise [cm]", "controlled"], "'rise' and 'Rise [cm]' are both rise"),
}


@pytest.mark.parametrize(("header", "what"), WRONG.values(), ids=WRONG)
def test_columns_that_do_not_fit_are_named_with_a_remedy(dough, header, what):
    """What is missing, in another unit, or there twice."""
    put(dough, text([header, *TABLE[1:]]).encode())
    assert what in dough.rigctl("import", "dough.yaml", "old.csv", code=2).err


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PK\x03\x04...", "an .xlsx or .ods spreadsheet, must be text; save it as CSV"),
        (b"\xd0\xcf\x11\xe0", "an .xls spreadsheet"),
        (b"", "is empty"),
        (b"hydration,proof,rise,cost,controlled\n", "can be learned; line 1 is its header, and no row follows"),
        (b"a;b\n1;2\n", "no column is hydration, proof, rise"),
    ],
)
def test_what_is_no_table_is_refused_with_advice(dough, data, what):
    """Other programs' files, and files without trials."""
    put(dough, data)
    assert what in dough.rigctl("import", "dough.yaml", "old.csv", code=2).err
    assert "cannot be read" in dough.rigctl("import", "dough.yaml", "none.csv", code=2).err


def test_a_dry_run_tells_what_looks_mistyped(dough):
    """It is what one looks at before anything is recorded; the import itself asks."""
    put(dough, text([TABLE[0], ["630", *TABLE[1][1:]]]).encode())
    dry = dough.rigctl("import", "dough.yaml", "old.csv", "--dry-run")
    assert "looks mistyped: old.csv:2: hydration: 630 % is 545 % above its range of 60 to 85; was 63 meant?" in dry.out
    assert dough.rigctl("import", "dough.yaml", "old.csv", "--dry-run", "--json").json["doubts"]
    assert "imported: trial 1\n" in dough.rigctl("import", "dough.yaml", "old.csv", "--force").out
