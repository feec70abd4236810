"""Nothing is gone that 0.1.0 had, as `docs/formats.md` promises of four formats. `python -m tests.test_formats`.

Run as a program it writes what is promised, which is done once for each release.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import rigctl
from rigctl.campaign.acts import ACTS
from rigctl.campaign.journal.rows import TABLES, VERSION
from rigctl.campaign.requests import Requests
from rigctl.campaign.status import Status, StatusFold
from rigctl.config.editor import json_schema
from rigctl.console.journals import _columns, _trial_columns
from rigctl.console.options import Records
from tests.config.test_schema import shipped

ROOT = Path(__file__).parents[1]
PROMISED = ROOT / "tests/fixtures/formats/0.1.json"
Format = dict[str, Any]


def configuration() -> Format:
    """Every section's keys, and whether each must be given."""
    schema = json_schema(shipped())
    sections = {"": schema, **schema["$defs"]}
    return {
        name: {key: key in section.get("required", ()) for key in section.get("properties", {})}
        for name, section in sections.items()
    }


def journal() -> Format:
    return {"version": VERSION, **{t.name: [f"{c.name} {c.kind}" for c in t.columns.values()] for t in TABLES.values()}}


def socket() -> Format:
    """What may be asked for, with its arguments, and what `status` answers."""
    verbs = {verb: [f.name for f in fields(kind)] for verb, kind in ACTS.items()}
    others: Format = {verb: [] for verb in sorted(Requests.verbs(Requests.__new__(Requests)).keys() - verbs.keys())}
    return {**verbs, **others, "status": [f.name for f in fields(Status)]}


def export() -> Format:
    space = rigctl.Experiment.of([rigctl.variable("x", 0.0, 1.0, "")], [["x"]], budget=1.0).problem.space
    return {what: list(_trial_columns(space, ("y",)) if what == "trials" else _columns(what)) for what in Records}


FORMATS = {"configuration": configuration, "journal": journal, "socket": socket, "export": export}


def broken(then: Format, now: Format) -> list[str]:
    """What was there then and is not now; of a mapping to whether it must be given, also what became necessary."""
    gone = [name for name in then if name not in now]
    for name in then.keys() & now.keys():
        if isinstance(then[name], dict):
            gone += [f"{name}.{key}" for key in broken(then[name], now[name])]
            gone += [f"{name}.{key} is needed now" for key in now[name].keys() - then[name].keys() if now[name][key]]
        elif isinstance(then[name], list):
            gone += [f"{name}.{one}" for one in then[name] if one not in now[name]]
        elif now[name] is True and then[name] is False:
            gone.append(f"{name} is needed now")
    return gone


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_that_was_promised_is_gone(name):
    """Keys, columns, verbs, arguments and fields may be added; of a journal only with another version."""
    then, now = json.loads(PROMISED.read_text(encoding="utf-8"))[name], FORMATS[name]()
    if name == "journal":
        assert then == now or now["version"] > then["version"]
    else:
        assert broken(then, now) == []


def test_what_would_break_a_promise_is_seen():
    """A key that is gone, one that must be given suddenly, a column and an argument that are gone."""
    then = {"a": {"x": False, "y": True}, "b": [1, 2]}
    assert broken(then, {"a": {"x": False, "y": True, "z": False}, "b": [2, 1, 3], "c": {}}) == []
    assert broken(then, {"a": {"x": True, "z": True}, "b": [1]}) != []
    assert len(broken(then, {"a": {"x": True, "z": True}, "b": [1]})) == 4
    assert broken(then, {}) == ["a", "b"]


def test_the_page_names_the_version_of_the_journal():
    """And `status` says which rigctl answers."""
    assert f"this is {VERSION}." in (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert StatusFold.of("rig", "EUR", 1.0).status.to_json()["version"]


if __name__ == "__main__":
    PROMISED.parent.mkdir(exist_ok=True)
    made = {name: format_() for name, format_ in FORMATS.items()}
    PROMISED.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
