import json

import pytest
from typer.testing import CliRunner

from rigctl.console import cli
from rigctl.page.access import TokenFile
from tests.fixtures import FINISHED, unpacked


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


@pytest.mark.slow
def test_a_trial_is_voided_and_taken_in_again_without_a_campaign(finished_state, golden):
    """What it cost stays spent; the export says who did it."""
    runner = CliRunner()
    options = ["--state", str(finished_state), "--json"]
    left_out = runner.invoke(cli.app, ["void", "2", "--why", "the lamp was off", *options])
    again = runner.invoke(cli.app, ["void", "2", "--why", "the lamp was off", *options])
    taken_in = runner.invoke(cli.app, ["void", "2", "--undo", "--why", "it was not", *options])
    assert [r.exit_code for r in (left_out, again, taken_in)] == [0, 2, 0]
    golden(json.loads(left_out.stdout)["outcome"])
    out = finished_state / "acts.jsonl"
    runner.invoke(
        cli.app, ["export", "--state", str(finished_state), "--records", "acts", "--format", "jsonl", "--out", str(out)]
    )
    acts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(act["verb"], act["argument"], act["why"]) for act in acts] == [
        ("void", "trial 2", "the lamp was off"),
        ("restore", "trial 2", "it was not"),
    ]
    status = json.loads(runner.invoke(cli.app, ["status", *options]).stdout)
    assert [act["verb"] for act in status["acts"]] == ["void", "restore"]


@pytest.fixture
def finished_state(tmp_path):
    """A campaign of the greenhouse that has ended."""
    return unpacked(FINISHED, tmp_path)
