import json

import pytest
from typer.testing import CliRunner

from rigctl.console import cli
from rigctl.page.access import TokenFile


@pytest.fixture
def rigctl(tmp_path):
    """Runs a verb on a state directory of its own; gives the result."""

    def run(*words, state=tmp_path):
        return CliRunner().invoke(cli.app, [*words, "--state", str(state)])

    return run


def test_a_token_is_made_listed_and_revoked(rigctl, tmp_path, golden):
    """It is shown when it is made, and never again; who made it is kept, and what was done."""
    made = json.loads(rigctl("token", "create", "Anna", "--json").stdout)
    assert TokenFile(tmp_path).found(made["token"]) is not None
    shown = rigctl("token", "list").stdout
    assert shown.startswith("Anna, ")
    assert made["token"] not in shown
    (entry,) = json.loads(rigctl("token", "list", "--json").stdout)
    assert set(entry) == {"name", "created", "by"}
    assert rigctl("token", "revoke", "Anna").exit_code == 0
    assert TokenFile(tmp_path).found(made["token"]) is None
    golden(rigctl("token", "list").stdout)
    audit = [json.loads(line) for line in (tmp_path / "page-audit.jsonl").read_text().splitlines()]
    assert [(entry["verb"], entry["argument"], entry["outcome"]) for entry in audit] == [
        ("token", "Anna", "created"),
        ("token", "Anna", "revoked"),
    ]
