"""The command line itself: errors, exit codes, documentation."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer

from rigctl.console.assemble import find_state
from rigctl.console.cli import app
from rigctl.console.options import STATES
from rigctl.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent


def verbs(command, above=""):
    """Every verb that is listed, by its full name."""
    for name in command.list_commands(None):
        verb = command.get_command(None, name)
        yield from verbs(verb, f"{above}{name} ") if hasattr(verb, "commands") else [(above + name, verb)]


def test_debug_shows_the_traceback(bench):
    """With --debug the error comes through as it was raised."""
    from typer.testing import CliRunner

    found = CliRunner().invoke(app, ["--debug", "check", "none.yaml"])
    assert isinstance(found.exception, ConfigError)


def test_a_campaign_is_found_by_a_configuration_that_does_not_hold(tmp_path):
    """Whoever pauses a rig, or asks how it stands, need not mend its file first; only the name must hold."""
    config = tmp_path / "tank.yaml"
    config.write_text("rig: tank\nbudget: much\n", encoding="utf-8")
    assert find_state(config, None) == STATES / "tank"
    config.write_text("rig: ../tank\nbudget: much\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        find_state(config, None)
    assert {mistake.path for mistake in refused.value.mistakes} >= {("rig",), ("budget",)}


@pytest.mark.slow
def test_version_and_module_entry():
    """`python -m rigctl --version` works beside another program called rigctl."""
    command = [sys.executable, "-m", "rigctl", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("rigctl ")


DRIVEN = {"version": 1, "driven": True, "rig": "bench", "speedup": 1.0, "devices": []}
DRIVEN |= {"writer": {"pid": 1, "started": "1", "boot": "another"}}
MAIN = "from rigctl.entry import main\ntry: main()\nexcept SystemExit: pass"
LEAN = {
    "the entry, which catches signals": ("import rigctl.entry", "asyncio typer pydantic numpy"),
    "--help": (
        f"sys.argv[1:] = ['--help']; {MAIN}",
        "sklearn scipy numpy pint pydantic yaml pymodbus serial structlog asyncio",
    ),
    "safe": (f"sys.argv[1:] = ['safe', '--state', '.']; {MAIN}", "sklearn scipy numpy pint yaml sqlite3"),
    "check": (
        f"sys.argv[1:] = ['check', '{ROOT}/config/greenhouse.yaml']; {MAIN}",
        "pint sklearn scipy structlog apprise urllib.request sqlite3 rigctl.core.advice.recommend",
    ),
}
"""Code, and the modules that it must not load."""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "heavy"), LEAN.values(), ids=LEAN)
def test_what_is_done_at_once_loads_nothing_heavy(code, heavy, tmp_path):
    """Libraries that take their time: arrays, units, the configuration's language, what learns, what advises."""
    (tmp_path / "safe.json").write_text(json.dumps(DRIVEN), encoding="utf-8")
    program = f"import sys\n{code}\nprint(sorted(set({heavy!r}.split()) & set(sys.modules)))"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.splitlines()[-1] == "[]"


@cache
def commands() -> dict[str, typer.core.TyperCommand]:
    """Every verb by its full name, e.g. `tools bench latency`."""
    return dict(verbs(typer.main.get_command(app)))


def test_every_verb_and_option_is_documented():
    """Each option says what it is, in `--help` and the reference made of it; docs/cli.md says more of each verb."""
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    for verb, command in commands().items():
        assert [p.name for p in command.params if p.param_type_name == "option" and not p.help] == [], verb
        group, _, name = verb.rpartition(" ")
        assert f"\n### {verb}\n" in text or (f"\n### {group}\n" in text and f"`{name}" in text) or verb in text, verb


def test_every_verb_answers_programs_too():
    """Every verb has --json, except those that only ever write for programs."""
    silent = {verb for verb, command in commands().items() if not any("--json" in p.opts for p in command.params)}
    assert {tuple(verb.split()) for verb in silent} <= {("journal", "export"), ("tools", "schema")}
