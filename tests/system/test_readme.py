"""Each command that the README shows is one that works."""

import shlex
from importlib.metadata import entry_points

import pytest
import typer
from typer.core import TyperGroup

from rigctl.console.cli import app
from tests.system.stack import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
THE_USERS_OWN = ("bench.yaml", "trials.csv", "DIR")
"""Files and directories that the README leaves to its reader."""


def commands() -> list[list[str]]:
    """Every `rigctl` command of the README's blocks, in words."""
    blocks = [part.split("```")[0] for part in README.split("```sh\n")[1:]]
    lines = [line for block in blocks for line in block.splitlines()]
    parts = [words for line in lines for words in _split(line)]
    return [words[1:] for words in parts if words and words[0].endswith("rigctl")]


def _split(line: str) -> list[list[str]]:
    """The commands of a shell line, without its comment."""
    return [part.split() for part in " ".join(shlex.split(line, comments=True)).split("&&")]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_readme_is_understood(words):
    """Verb, options and arguments are those of the command line, and the files it names are there."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    verb, rest = group.get_command(None, words[0]), words[1:]
    while isinstance(verb, TyperGroup):
        verb, rest = verb.get_command(None, rest[0]), rest[1:]
    context = verb.make_context(words[0], rest)
    assert context.params
    named = [word for word in words[1:] if word.endswith((".yaml", ".csv")) and word not in THE_USERS_OWN]
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_the_demo_block_runs_what_is_installed():
    """The README's first command ends in `rigctl demo`, and installing makes a program of that name."""
    block = README.split("<!-- demo -->")[1].split("```sh\n")[1].split("```")[0]
    assert _split(block)[-1] == [".venv/bin/rigctl", "demo"]
    (script,) = entry_points(group="console_scripts", name="rigctl")
    assert script.value == "rigctl.entry:main"


def test_every_page_the_readme_names_is_there():
    """No link to a page of ours leads nowhere."""
    pages = [part.split(")")[0] for part in README.split("](")[1:]]
    ours = [page for page in pages if not page.startswith("http")]
    assert ours
    assert [page for page in ours if not (ROOT / page).exists()] == []
