"""A configuration that includes others: what wins, where mistakes are told, and one text that says the same."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigctl.config.document import Document, parse
from rigctl.config.including import MOST_FILES, as_one_text
from rigctl.config.load import load, load_text
from rigctl.errors import ConfigError, Mistake
from tests.config.texts import WHOLE

COMMON = WHOLE.replace("rig: tank\n", "").replace("  plc: modbus_tcp://127.0.0.1:5020\n", "  other: tcp://10.0.0.1:1\n")
OWN = "include: lines/common.yaml\nrig: tank-07\nbuses: {plc: modbus_tcp://10.0.0.7:502}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/common.yaml").write_text(COMMON)
    return tmp_path


def mistakes(file: Path) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        load(file)
    return list(caught.value.mistakes)


def test_twenty_rigs_that_differ_in_a_port_need_three_lines_each(folder: Path):
    """Mappings are put together at any depth; what the file says itself wins, and lists are replaced whole."""
    (folder / "rig.yaml").write_text(OWN + "variables: {ca: {range: [1, 5]}}\n")
    config = load(folder / "rig.yaml", to_run=True)
    assert config.name == "tank-07"
    assert config.rig.devices["ca_valve"].url == "modbus_tcp://10.0.0.7:502"
    assert config.document.data["buses"].keys() == {"plc", "other"}
    ca = config.problem.space.variables[1]
    assert (ca.low, ca.high, ca.unit) == (1.0, 5.0, "mM")


def test_of_several_files_the_later_wins(folder: Path):
    """Over the earlier, and a file over all that it includes."""
    (folder / "more.yaml").write_text("seed: 3\nmax_trials: 9\n")
    (folder / "rig.yaml").write_text(
        OWN.replace("lines/common.yaml", "[lines/common.yaml, more.yaml]") + "max_trials: 7\n"
    )
    (folder / "lines/common.yaml").write_text(COMMON + "seed: 2\n")
    config = load(folder / "rig.yaml")
    assert (config.seed, config.max_trials) == (3, 7)


def test_a_mistake_is_told_where_it_stands(folder: Path):
    """With the file and the line that somebody has to change, those of the file itself first."""
    (folder / "lines/common.yaml").write_text(COMMON.replace("settle: 20 min", "settle: 20 mM"))
    (folder / "rig.yaml").write_text(OWN + "variables:\n  ca: {range: [1 C, 5]}\n  ph: {sensr: probe}\n")
    line = COMMON.split("\n").index("  settle: 20 min") + 1
    told = [(Path(m.file).name, m.line, m.path) for m in mistakes(folder / "rig.yaml")]
    assert told == [
        ("rig.yaml", 5, ("variables", "ca", "range", 0)),
        ("rig.yaml", 6, ("variables", "ph", "sensr")),
        ("common.yaml", line, ("trial", "settle")),
    ]


@pytest.mark.parametrize("named", ["none.yaml", "lines", "3", "[lines/common.yaml, rig.yaml]", "back.yaml"])
def test_what_cannot_be_included_is_told_alone(folder: Path, named: str):
    """A file that is not there, a folder, a number, the file itself, one that leads back to it."""
    (folder / "back.yaml").write_text("include: rig.yaml\n")
    (folder / "rig.yaml").write_text(OWN.replace("lines/common.yaml", named))
    (mistake,) = mistakes(folder / "rig.yaml")
    assert (mistake.line, mistake.path[0]) == (1, "include")
    assert Path(mistake.file).name == ("back.yaml" if named == "back.yaml" else "rig.yaml")


def test_files_that_include_each_other_twice_do_not_grow_without_end(folder: Path):
    """Not even where each names the next one twice."""
    for i in range(MOST_FILES):
        (folder / f"{i}.yaml").write_text(f"include: [{i + 1}.yaml, {i + 1}.yaml]\n")
    (folder / f"{MOST_FILES}.yaml").write_text("seed: 1\n")
    (mistake,) = mistakes(folder / "0.yaml")
    assert mistake.flaw.allowed


def test_the_text_that_is_kept_includes_nothing_and_says_the_same(folder: Path):
    """A journal keeps the whole; a configuration without includes stays as it was written."""
    (folder / "rig.yaml").write_text(OWN)
    config = load(folder / "rig.yaml")
    again = load_text(config.text, folder / "lines/journal.db")
    assert again.document.data == config.document.data
    assert (again.problem, again.rig) == (config.problem, config.rig)
    assert load_text(WHOLE, folder / "rig.yaml").text == WHOLE


SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=12)
TRICKY = st.sampled_from(
    ["off", "12:30", "1e3", "012", "0o6", "<<", "=", "~", "null", "1_0", ".5", "- a", "a: b", "#", "°C"]
)
VALUES = st.recursive(
    SCALARS | WORDS | TRICKY, lambda v: st.lists(v, max_size=3) | st.dictionaries(WORDS, v, max_size=3)
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.dictionaries(WORDS | TRICKY, VALUES, max_size=4))
def test_whatever_is_put_together_is_read_again_as_it_was(data):
    """Also text that looks like a number, a time or a word of another YAML."""
    again, wrong = parse(as_one_text(Document("rig.yaml", data, {})), "journal")
    assert wrong == []
    assert dict(again.data) == data
