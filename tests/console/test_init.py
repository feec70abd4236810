"""`rigctl init` by hand and by flags: what it writes holds, what it refuses it refuses whole."""

from __future__ import annotations

import pytest

from rigctl.config.load import load

OUTCOME = ("--outcome", "growth cm2/day maximise target=300")
PH = ("--variable", "ph pH 5 7 natural=6.3+-0.3 cost=0.4")
CA = ("--variable", "ca mM 0.5 6 cost=0.2")
FLAGS = ("init", "new.yaml", "--by-hand", *OUTCOME, *PH, *CA, "--budget", "20 EUR", "--per-trial", "0.05")


def test_a_bench_by_hand_is_checked_suggested_for_and_ingested(bench):
    """The file holds at once, and the first trial can be done with it; each answer names the next command."""
    said = bench.rigctl(*FLAGS).out
    assert "Next: rigctl check new.yaml" in said
    bench.rigctl("check", "new.yaml")
    trial = bench.rigctl("suggest", "new.yaml", "--json").json
    names = "+".join(trial["control_set"])
    values = {"ph": 6.2, "ca": 3.0} | trial["setpoints"]
    measured = ",".join(f"{name}={value}" for name, value in values.items())
    done = ("--control-set", names, "--values", measured, "--outcome", "210", "--cost", "0.45")
    assert bench.rigctl("ingest", "new.yaml", *done, "--json").json["trials"] == [1]


def test_what_was_said_stands_in_the_file(bench):
    """Every flag has its key, with what a person may want instead beside it."""
    bench.rigctl(*FLAGS)
    loaded = load(bench.folder / "new.yaml")
    assert (loaded.name, loaded.currency, loaded.problem.budget) == ("new", "EUR", 20_000_000)
    ph, ca = loaded.problem.space.variables
    assert [(v.name, v.unit, v.low, v.high) for v in (ph, ca)] == [("ph", "pH", 5.0, 7.0), ("ca", "mM", 0.5, 6.0)]
    assert loaded.problem.known_costs == (0.45, 0.25, 0.65)
    text = (bench.folder / "new.yaml").read_text(encoding="utf-8")
    assert "natural: {truncated_normal: {mean: 6.3, sd: 0.3}}" in text
    assert "natural: learned" in text
    assert "# target: 300 cm2/day." in text
    lines = ["#", *text.splitlines()]
    sections = [i for i, line in enumerate(lines) if line[:1].isalpha()]
    assert len(sections) >= 7
    assert [lines[i] for i in sections if "#" not in lines[i] and not lines[i - 1].startswith("#")] == []


def test_what_is_missing_is_named_flag_by_flag(bench):
    """Where nobody can be asked: each missing flag with an example, and no file."""
    said = bench.rigctl("init", "new.yaml", "--by-hand", *OUTCOME, code=2).err
    assert '--variable  e.g. --variable "ph pH 5 7 natural=6.3+-0.3"' in said
    assert '--budget    e.g. --budget "40 EUR"' in said
    assert "--outcome" not in said
    assert not (bench.folder / "new.yaml").exists()


def test_neither_by_hand_nor_wired_is_refused(bench):
    """Without wiring and without --by-hand it says that one of them is needed."""
    said = bench.rigctl("init", "new.yaml", *OUTCOME, *PH, "--budget", "20 EUR", code=2).err
    assert "--by-hand" in said
    assert "--probe" in said


def test_every_wrong_flag_is_told_at_once(bench):
    """All that is wrong with the flags, each with its flag, and no file."""
    wrong = ("--outcome", "growth furlongs/fortnite", "--variable", "ph pH 7 5", "--budget", "much")
    said = bench.rigctl("init", "new.yaml", "--by-hand", *wrong, "--settle", "soon", code=2).err
    for part in ("--outcome: ", "--variable: ", "did you mean 5 to 7?", "--budget: ", "--settle: "):
        assert part in said
    assert list(bench.folder.glob("*new*")) == []


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("ph pH five 7", '"five", must be a number'),
        ("ph pH 5", "NAME UNIT LOW HIGH"),
        ("ph blub 5 7", "known unit"),
        ("cost pH 5 7", "a column of every history"),
        ("growth pH 5 7", "in use already"),
        ("p+h pH 5 7", "must begin with a letter"),
        ("ph pH 5 7 natural=9+-1", "must lie within 5 to 7"),
        ("ph pH 5 7 natural=6+-0", "must be more than nothing"),
        ("ph pH 5 7 natural=often", "uniform or unknown"),
        ("ph pH 5 7 nature=6+-1", 'the key "nature"'),
        ("ph pH 5 7 cost=cheap", "amount of money"),
        ("ph pH 5 7 cost='1 USD'", "EUR"),
        ("ph pH '5 7", "quotation mark"),
    ],
)
def test_a_wrong_variable_is_explained(bench, variable, told):
    """What was got, and what is allowed."""
    said = bench.rigctl("init", "new.yaml", "--by-hand", *OUTCOME, "--variable", variable, "--budget", "9", code=2).err
    assert told in said
    assert not (bench.folder / "new.yaml").exists()


def test_a_file_that_is_there_is_kept(bench):
    """Nothing is written over it without --force, and with it the whole file is new."""
    before = bench.write("new.yaml", "mine")
    assert "--force" in bench.rigctl(*FLAGS, code=2).err
    assert (bench.folder / before).read_text(encoding="utf-8") == "mine"
    bench.rigctl(*FLAGS, "--force")
    assert load(bench.folder / "new.yaml").name == "new"
    assert [path.name for path in bench.folder.glob(".*")] == []


def test_a_folder_that_is_not_there_is_told(bench):
    """Before anything is asked."""
    said = bench.rigctl("init", "no/such/new.yaml", *FLAGS[2:], code=2).err
    assert "no folder" in said


def test_many_variables_do_not_make_more_sets_than_allowed(bench):
    """With ten variables each alone, each pair and all together; the costs are those of these sets."""
    many = [part for i in range(10) for part in ("--variable", f"v{i} mM 0 {i + 1} cost=0.{i}")]
    bench.rigctl("init", "new.yaml", "--by-hand", *OUTCOME, *many, "--budget", "99")
    assert len(load(bench.folder / "new.yaml").problem.space.control_sets) == 10 + 45 + 1
