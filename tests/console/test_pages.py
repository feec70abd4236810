"""What the pages tell people to type exists: every command, option and key."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rigctl.config.document import parse
from rigctl.config.findings import Findings
from rigctl.config.load import check_shape
from rigctl.config.profiles import Profile, profile_of
from rigctl.config.schema import DeviceSection
from rigctl.console.cli import app
from rigctl_drivers.ascii_instrument import AsciiDriver
from tests.config.test_schema import shipped

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/how-to").glob("*.md"))]
FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
SNIPPETS = {
    f"{page.stem}-{i}": text
    for page in sorted((ROOT / "docs/how-to").glob("*.md"))
    for i, text in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
}
ELSE = {
    "rig": "tank",
    "currency": "EUR",
    "budget": "1 EUR",
    "variables": {},
    "control_sets": "all",
    "outcome": {"name": "growth", "unit": "1"},
}
"""What a snippet leaves out and a configuration needs."""


COMMAND = get_command(app)


def typed_on(page: Path) -> list[str]:
    """Return what follows `rigctl` in blocks, where a line begins with it, and in sentences, between backquotes."""
    text = page.read_text(encoding="utf-8")
    blocks, sentences = "\n".join(FENCE.findall(text)), FENCE.sub("", text)
    lines = re.findall(r"^(?:\$ |\S*bin/|sudo \S*bin/)?rigctl ([a-z][^\n#|;]*)", blocks, re.MULTILINE)
    return [" ".join(line.split()) for line in (*lines, *re.findall(r"`(?:sudo )?rigctl ([a-z][^`]*)`", sentences))]


def strange(typed: str) -> str:
    """What of a command line does not exist."""
    words = [word for word in shlex.split(re.sub(r"[][]", "", typed)) if word != "--debug"]
    found: Any = COMMAND
    for word in words:
        if not hasattr(found, "commands"):
            break
        found = found.get_command(None, word)
        if found is None:
            return word
    known = {name for option in found.params for name in option.opts} | {"--help"}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return ", ".join(sorted(given - known))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists(page):
    """Verb and options, in blocks and in sentences."""
    assert [(line, what) for line in typed_on(page) if (what := strange(line))] == []


def found_in(text: str) -> tuple[Mapping[str, Any], Findings]:
    """Return a snippet's sections, and what is wrong with their keys and forms; what it leaves out is another one's."""
    document, mistakes = parse(text, "page")
    more = {key: value for key, value in ELSE.items() if key not in document.data}
    whole = replace(document, data={**document.data, **more})
    findings = Findings(whole, mistakes)
    check_shape(whole, findings)
    return document.data, findings


@pytest.mark.parametrize("text", SNIPPETS.values(), ids=SNIPPETS)
def test_every_snippet_of_a_how_to_has_known_keys_and_values_of_the_right_form(text):
    """Those of the drivers that it names among them."""
    if "\nquantities:" in text:
        document = parse(text, "page")[0]
        assert all(
            AsciiDriver.options.model_validate(Profile(document, q).options) for q in document.data["quantities"]
        )
        return
    data, findings = found_in(text)
    assert not findings
    for device in data.get("devices", {}).values():
        assert "driver" not in device or accepted(device)


def accepted(device: Mapping[str, Any]) -> object:
    """Return the options of a device as its driver takes them."""
    driver = shipped().driver(device["driver"])
    own = {key: value for key, value in device.items() if key not in DeviceSection.model_fields}
    beside = profile_of(driver, device["profile"], Path()).options if "profile" in device else {}
    return driver.options.model_validate({**beside, **own})


def test_a_misspelt_word_of_a_page_is_found():
    """A verb, an option, a key."""
    assert strange("statsu tank.yaml") == "statsu"
    assert strange("device dose pump --volum 3") == "--volum"
    assert found_in("saftey: {}")[1]
    assert not found_in("safety: {}")[1]
