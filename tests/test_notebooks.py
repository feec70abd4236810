"""Every notebook runs from its first cell to its last, and is kept as it is written: without what it once printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_ends_in_an_answer_worth_money(notebook, tmp_path, monkeypatch):
    """Cell by cell, in one scope, beside nothing else."""
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in cells if cell["outputs"]] == []
    names = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), f"{notebook.name} ({cell['id']})", "exec"), names)  # noqa: S102
    answer = names["answer"]
    assert answer.certainty.kind == "clear"
    assert answer.why.net > 0
