"""`rigctl trial import`: past trials out of real spreadsheets, shown first, never charged, taken in once."""

import shutil
from itertools import product

import numpy as np
import pytest

from rigctl.campaign import decide as deciding
from rigctl.campaign.journal import Journal, open_reader
from rigctl.config.load import load
from rigctl.console import assemble
from rigctl.console.options import TableFlags
from rigctl.console.tables import importing
from rigctl.core.experiment.history import ALONE, BEFOREHAND
from rigctl.rig.clocks import RealClock
from tests.campaign.reaper import one_life
from tests.console.dough import TABLE, commas, put, text


def observations(state="state/dough"):
    loaded = load("dough.yaml")
    with open_reader(importing.Path(state)) as reader:
        return reader.history(loaded.problem.space).observations


@pytest.mark.slow
def test_past_trials_are_evidence_and_nobody_is_charged(dough):
    """Outcomes, costs, and what was controlled; nothing is spent, and the next trial is the one after them."""
    put(dough, text().encode())
    answer = dough.rigctl("import", "dough.yaml", "old.csv", "--force", "--json").json
    assert (answer["trials"], answer["spent"], answer["budget"]) == ([1, 2, 3, 4, 5], 0.0, 40.0)
    seen = observations()
    assert [o.control_set for o in seen] == [0, 1, 0, ALONE, BEFOREHAND]
    assert [o.y for o in seen] == [49.5, 61.0, None, 55.0, 58.0]
    assert [o.cost_known for o in seen] == [True, False, True, True, True]
    assert seen[0].x == pytest.approx((0.14, 0.5))
    assert {o.charged for o in seen} == {False}
    suggested = dough.rigctl("suggest", "dough.yaml", "--json").json
    assert (suggested["trial"], suggested["budget"]["spent"]) == (6, 0.0)
    assert [s["cost_mean"] for s in suggested["control_sets"]] == [0.625, None]
    assert dough.rigctl("export", "dough.yaml", "--records", "ledger", "--format", "jsonl").out == ""


@pytest.mark.slow
def test_what_no_trial_of_it_cost_is_not_called_metered(dough, golden):
    """Past trials without a cost say what came out, and nothing of money."""
    put(dough, text([[cell for n, cell in enumerate(row) if n != 3] for row in TABLE]).encode())
    dough.rigctl("import", "dough.yaml", "old.csv", "--force")
    said = " ".join(dough.rigctl("recommend", "dough.yaml").out.split())
    golden(said)
    assert "metered" not in said


ENCODINGS = {
    "utf-8": lambda t: t.encode(),
    "bom": lambda t: t.encode("utf-8-sig"),
    "latin-1": lambda t: t.encode("latin-1"),
    "utf-16": lambda t: t.encode("utf-16"),
    "utf-16 without a mark": lambda t: t.encode("utf-16-le"),
}
TITLED = [["Hydratation é"], [], *TABLE]
"""A title with a letter that encodings differ in, and a blank line."""
FORMS = {
    "comma": (TABLE, ",", "point"),
    "semicolon": (TABLE, ";", "point"),
    "semicolon, decimal comma": (commas(TABLE), ";", "comma"),
    "tab, decimal comma": (commas(TABLE), "\t", "comma"),
    "bar": (TABLE, "|", "point"),
    "title": (TITLED, ";", "point"),
    "blank lines and columns": ([[*row, ""] for row in [*TABLE[:3], [""] * 5, *TABLE[3:]]], ";", "point"),
    "quoted": ([TABLE[0], *([f'"{c}"' for c in row] for row in commas(TABLE)[1:])], ",", "comma"),
    "sep=": ([["sep=;"], *TABLE], ";", "point"),
}


@pytest.mark.parametrize(
    "encode", [pytest.param(v, id=k, marks=pytest.mark.slow if k != "bom" else ()) for k, v in ENCODINGS.items()]
)
def test_however_a_spreadsheet_saves_it(dough, encode):
    """The same trials come out of every form in every encoding, with either end of line."""
    loaded = load("dough.yaml")
    for (form, (table, separator, decimal)), end in product(FORMS.items(), ("\n", "\r\n")):
        put(dough, encode(text(table, separator, end)))
        plan = importing.planned(loaded, importing.Path("old.csv"), TableFlags())
        found = (plan.table.sheet.grid.separator, plan.table.decimals, len(plan.rows))
        assert found == (separator, decimal, 5), form
        assert [row.values["hydration"] for row in plan.rows] == [63.5, 70.0, 82.0, 66.0, 75.0]
        assert [row.known.amount for row in plan.rows] == [500_000, None, 750_000, 250_000, 1_234_500_000]


HEADERS = {
    "capitals": (["HYDRATION", "Proof", "Rise", "Cost", "Controlled"], (), (63.5, 30.0, 49.5)),
    "units": (["hydration [%]", "proof (degC)", "rise / mm", "cost [EUR]", "control set"], (), (63.5, 30.0, 49.5)),
    "converted": (
        ["Hydration", "Proof [degF]", "Rise [cm]", "cost (€)", "control_set"],
        (),
        (63.5, -1.11111111111, 495),
    ),
    "mapped": (
        ["Wasser [%]", "Gare", "Höhe", "Preis", "Was"],
        ("Wasser [%]=hydration", "gare=proof", "Höhe=rise", "Preis=cost", "Was=control_set"),
        (63.5, 30.0, 49.5),
    ),
    "mapped without the unit": (
        ["water [%]", "proof", "rise [cm]", "cost", "controlled"],
        ("water=hydration",),
        (63.5, 30.0, 495.0),
    ),
}


@pytest.mark.parametrize(("header", "maps", "first"), HEADERS.values(), ids=HEADERS)
def test_however_the_columns_are_called(dough, header, maps, first):
    """Capitals, units, which are converted, and names that the person maps."""
    put(dough, text([header, *TABLE[1:]]).encode())
    reading = TableFlags(maps=maps)
    row, *_ = importing.planned(load("dough.yaml"), importing.Path("old.csv"), reading).rows
    assert (*row.values.values(), row.outcome) == pytest.approx(first)
    assert (row.control_set, row.known.amount) == (("hydration",), 500_000)


CELLS = {
    "thousands and euro": ("1.234,5 €", "comma", 1_234_500_000),
    "spaces": ("1 234,5", "comma", 1_234_500_000),
    "narrow space": ("1\u202f234,50", "comma", 1_234_500_000),
    "swiss": ("1'234.50", "point", 1_234_500_000),
    "english": ('"1,234.50"', "point", 1_234_500_000),
    "code": ("0.5 EUR", "point", 500_000),
    "nothing": ("n/a", "point", None),
    "dash": ("–", "point", None),
    "exponent": ("5e-1", "point", 500_000),
}
"""Of a cost."""


@pytest.mark.parametrize(("cell", "decimal", "amount"), CELLS.values(), ids=CELLS)
def test_however_a_number_is_written(dough, cell, decimal, amount):
    """Thousands separators, currency signs, and all the ways of writing that there is nothing."""
    put(dough, text([TABLE[0], ["63", "30", "49", cell, "hydration"]], ";").encode())
    reading = TableFlags(decimal=decimal)
    (row,) = importing.planned(load("dough.yaml"), importing.Path("old.csv"), reading).rows
    assert row.known.amount == amount


@pytest.mark.parametrize("cell", ["30", "30 °C", "30degC", "30,0 °C"])
def test_a_unit_may_stand_behind_each_number(dough, cell):
    """If it is the column's own, however it is written."""
    put(dough, text([TABLE[0], ["63 %", cell, "49 mm", "1", "proof"]], ";").encode())
    (row,) = importing.planned(load("dough.yaml"), importing.Path("old.csv"), TableFlags()).rows
    assert (row.values, row.outcome) == ({"hydration": 63.0, "proof": 30.0}, 49.0)


SAID = {
    "yes and no": (["hydration controlled", "proof controlled"], ["x", ""], ("hydration",)),
    "both no": (["controlled hydration", "controlled proof"], ["no", "nein"], ()),
    "setpoints": (["setpoint.hydration", "set proof"], ["64", ""], ("hydration",)),
}


@pytest.mark.parametrize(("header", "cells", "members"), SAID.values(), ids=SAID)
def test_what_was_controlled_may_stand_in_columns_of_its_own(dough, header, cells, members):
    """Of yes and no, or of what was set."""
    put(dough, text([[*TABLE[0][:4], *header], [*TABLE[1][:4], *cells]]).encode())
    (row,) = importing.planned(load("dough.yaml"), importing.Path("old.csv"), TableFlags()).rows
    assert row.control_set == members
    assert dict(row.setpoints) == ({"hydration": 64.0} if "64" in cells else {})


@pytest.mark.slow
def test_a_noise_of_their_own_widens_what_is_believed(dough):
    """Told that the old outcomes scatter widely, the model trusts them less, by as much as scikit-learn would."""
    put(dough, text(TABLE[:3]).encode())
    for state, noise in {"plain": (), "sd": ("--noise", "5"), "factor": ("--noise-factor", "5")}.items():
        dough.rigctl("import", "dough.yaml", "old.csv", "--state", state, *noise)
    sds = {
        state: [s["sd"] for s in dough.rigctl("suggest", "dough.yaml", "--state", state, "--json").json["control_sets"]]
        for state in ("plain", "sd", "factor")
    }
    assert np.all(np.array(sds["sd"]) > np.array(sds["plain"]))
    assert sds["sd"] == pytest.approx(sds["factor"])  # the model's own is 1


@pytest.mark.slow
def test_an_export_of_past_trials_read_as_a_history_is_the_same_campaign(dough):
    """Nobody is charged for them there either, and they are as noisy."""
    put(dough, text(TABLE[:3]).encode())
    dough.rigctl("import", "dough.yaml", "old.csv", "--noise", "5")
    dough.rigctl("export", "--out", "again.csv")
    ours, theirs = (
        dough.rigctl("suggest", "dough.yaml", "--json", *more).json for more in ((), ("--history", "again.csv"))
    )
    assert {**ours, "decision_s": 0} == {**theirs, "decision_s": 0}


def test_no_row_costs_a_decision(dough, monkeypatch):
    """The policy is not asked what it would have done: nobody followed it."""
    rng = np.random.default_rng(0)
    rows = [
        [f"{60 + 25 * a:.2f}", f"{20 + 20 * b:.2f}", f"{50 + 10 * a:.2f}", "0.5", "proof"]
        for a, b in rng.random((60, 2))
    ]
    put(dough, text([TABLE[0], *rows]).encode())
    for name in ("decide", "next_proposal"):
        monkeypatch.setattr(deciding, name, lambda *_: pytest.fail("asked the policy"))
    assert dough.rigctl("import", "dough.yaml", "old.csv", "--json").json["trials"] == list(range(1, 61))


@pytest.mark.slow
def test_a_kill_leaves_all_of_an_import_or_nothing(dough):
    """Killed before each row and each commit: never a trial without its import, or the other way round."""
    put(dough, text(TABLE[:3]).encode())
    loaded = load("dough.yaml")
    plan = importing.planned(loaded, importing.Path("old.csv"), TableFlags())
    instants = ("BEGIN", "COMMIT", "INSERT INTO trials", "INSERT INTO imports", "INSERT INTO by_hand")

    def live(state):
        def work(reaper):
            class Watched(Journal):
                def __init__(self, *arguments):
                    super().__init__(*arguments)
                    self._connection.set_trace_callback(lambda sql: reaper(sql) if sql.startswith(instants) else None)

            assemble.Journal = Watched
            importing.record(loaded, state, plan, (None, 1.0), lambda _: None)

        return work

    code, kill_at, found, before = -9, 0, [], dough.folder / "before"
    before.mkdir()
    Journal(before, RealClock(), "boot-1").close()
    while code:
        kill_at += 1
        state = shutil.copytree(before, dough.folder / f"killed-{kill_at}")
        code, _ = one_life(live(state), kill_at)
        with open_reader(state) as read:
            trials, imports = len(read.trials()), len(read.people.imports())
            assert (trials, len(read.people.by_hand())) == (2 * imports, 2 * imports)
            found.append(imports)
    assert found == sorted(found)
    assert set(found) == {0, 1}


@pytest.mark.parametrize("data", [b"PK\x03\x04...", b"\xd0\xcf\x11\xe0", b"%PDF-1.7", b""])
def test_what_is_no_table_is_refused(dough, data):
    """Other programs' files, and an empty one, before anything is made of them."""
    put(dough, data)
    dough.rigctl("import", "dough.yaml", "old.csv", code=2)
    assert not (dough.folder / "state").exists()
