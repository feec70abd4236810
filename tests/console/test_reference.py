"""The reference pages are what the command line and the configuration say of themselves."""

from functools import cache

import pytest
import typer

from rigctl.config import editor as configuration
from rigctl.config.editor import json_schema
from rigctl.console import verbs as commands
from rigctl.console.cli import app
from tests.config.test_schema import keys_of, shipped, sources
from tests.console.test_cli import verbs

COMMAND = typer.main.get_command(app)
PAGES = {
    "cli.md": lambda: commands.page(COMMAND),
    "configuration.md": lambda: configuration.page(json_schema(shipped())),
}
UNASKED = {"What", "Who", "Whether", "Where", "Whatever", "How", "Of", "In", "Instead", "It"}
"""First words of a question, or of half a sentence."""


@cache
def documented(name: str) -> str:
    return PAGES[name]()


@pytest.mark.slow
def test_every_verb_and_option_is_explained():
    """Each has a help text that begins with a noun or a verb, and stands in the reference with it."""
    page = documented("cli.md")
    for name, verb in verbs(COMMAND):
        section = page.split(f"# `rigctl {name}`\n")[1].split("# `rigctl ")[0]
        assert verb.help, name
        for parameter in [p for p in verb.params if not getattr(p, "hidden", False)]:
            assert parameter.help.split()[0] not in UNASKED, parameter.help
            named = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
            assert all(word in section for word in named), (name, named)


@pytest.mark.slow
@pytest.mark.parametrize("source", sources())
def test_every_key_is_in_the_reference_with_its_meaning(source):
    """Of the configuration, each driver and each policy."""
    rows = [line.split(" | ") for line in documented("configuration.md").splitlines() if line.startswith("| `")]
    meanings = {}
    for key, _, _, meaning in rows:
        meanings.setdefault(key.strip("| `"), []).append(meaning.strip(" |"))
    assert keys_of(sources()[source]) <= set(meanings)
    assert not [key for key, said in meanings.items() if not all(said)]


@pytest.mark.slow
def test_the_schema_verb_writes_the_pages(bench, golden):
    """`rigctl tools schema --as` commands or configuration; without it the JSON schema for editors."""
    assert bench.rigctl("schema", "--as", "commands").out == commands.page(COMMAND)
    golden(bench.rigctl("schema", "--as", "configuration").out.splitlines()[0])
    assert bench.rigctl("schema").out.startswith('{\n  "$schema"')
