"""Kinds of spreadsheets, and what becomes of each; the table of them all is `golden/spreadsheets.txt`."""

from functools import cache
from pathlib import Path

import pytest

from rigctl.config.load import LoadedConfig, load
from rigctl.console import trial_cli
from rigctl.console.output import PIPE_WIDTH
from rigctl.console.tables import importing
from rigctl.errors import ConfigError, UsageError
from tests.console.conftest import assert_golden
from tests.console.dough import DOUGH
from tests.console.spreadsheets import xlsx


@cache
def loaded(folder: Path) -> LoadedConfig:
    (folder / "dough.yaml").write_text(DOUGH, encoding="utf-8")
    return load(folder / "dough.yaml")


def became(kind) -> tuple[importing.ImportPlan | None, str]:
    """Return what would be imported, and that in words."""
    Path(kind.name).write_bytes(kind.data)
    try:
        plan = importing.planned(loaded(Path.cwd()), Path(kind.name), kind.flags, kind.controlled)
    except (ConfigError, UsageError) as error:
        return None, str(error)
    form, *rest = importing.preview(loaded(Path.cwd()), plan, PIPE_WIDTH)
    return plan, "\n".join([form, *(line for line in rest if " left out" in f" {line}" or " trial" in line)])


@pytest.mark.slow
def test_what_becomes_of_every_kind(tmp_path, monkeypatch):
    """It is taken in as it is meant, or refused with what to do; nothing is guessed, and nothing is a traceback."""
    from tests.console.kinds import KINDS

    monkeypatch.chdir(tmp_path)
    table = []
    for kind in KINDS:
        plan, said = became(kind)
        trials = None if plan is None else len(plan.rows)
        assert (kind.what, trials) == (kind.what, kind.trials), said
        if plan is not None:
            row = plan.rows[0]
            assert [*row.values.values(), row.outcome or 0][: len(kind.first)] == pytest.approx(kind.first), kind.what
        table.append(f"{kind.what}\n" + "".join(f"    {line}\n" for line in said.splitlines()))
    assert_golden("spreadsheets", "".join(table))


@pytest.mark.parametrize(("typed", "code", "trials"), [("skip\n", 0, 3), ("what\nkeep\n", 0, 4), ("", 2, None)])
def test_at_a_terminal_a_person_is_asked_once(dough, monkeypatch, typed, code, trials, golden):
    """An answer that is none is asked for again; whoever goes away records nothing."""
    monkeypatch.setattr(trial_cli, "at_a_terminal", lambda: True)
    from tests.console.kinds import last_row

    Path("old.xlsx").write_bytes(last_row(66.5, 28.75, 55.17, 0.375, "proof"))
    answer = dough.rigctl("trial", "import", "dough.yaml", "old.xlsx", stdin=typed, code=code)
    golden(answer.err)
    assert (Path("state/dough").exists()) == (trials is not None)
    if trials:
        assert dough.rigctl("status", "dough.yaml", "--json").json["imported"] == trials


def test_ingest_and_outcomes_ask_too(bench, golden):
    """What is recorded as the rig's own is read in the same way; a script is told how to answer."""
    cells = [["ph", "ca", "control_set", "growth", "cost"], [6.0, 3.3, "ph", "~1.2", 0.5]]
    Path("trials.xlsx").write_bytes(xlsx({"T": cells}))
    golden(bench.rigctl("ingest", "bench.yaml", "trials.xlsx", code=2).err)
    answer = bench.rigctl("ingest", "bench.yaml", "trials.xlsx", "--answer", "inexact=number", "--json").json
    assert answer["trials"] == [1]
    assert "FILE" in bench.rigctl("ingest", "bench.yaml", "--control-set", "ph", "--sheet", "T", code=2).err
