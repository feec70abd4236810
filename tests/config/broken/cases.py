"""The broken configurations of `cases.yaml`, what is said of each (`said.yaml`), and the site's page that lists them.

`python -m tests.config.broken.cases` writes `said.yaml` anew; read what has changed before it is committed.
"""

import difflib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rigctl.config.load import load
from rigctl.console.checking import checked
from rigctl.errors import ConfigError, Mistake
from tests.config.test_schema import shipped
from tests.config.texts import BASES
from tests.golden import LOADER

HERE = Path(__file__).parent
GOLDEN = HERE / "said.yaml"
FILE = Path("rig.yaml")
HEAD = """\
# What is said of a broken configuration

`rigctl check` tells every mistake at once: file and line, key, what it got, what it must be, and what to do. A program
takes `rigctl check --json`, which has a column besides. Where the file is no YAML the rest can only be checked once
that is mended.

Each of these was broken on purpose; lines that begin with `-` were replaced by those that begin with `+`. This page is
made from `tests/config/broken/cases.yaml` when the site is built.
"""
VISIBLE = str.maketrans({"\t": "→", "\u00a0": "⍽", "\a": "␇"})
SHOWN = {"rig": "`rig.yaml`, before it is broken", "bench": "The bench by hand, before it is broken"}


@dataclass(frozen=True, eq=False)
class Case:
    """One way to break a configuration."""

    family: str
    name: str
    spec: Mapping[str, Any] = field(repr=False)

    @property
    def at(self) -> Sequence[int]:
        """Return the lines that something must be said of, counted by hand; 0 is the file as a whole."""
        lines: Sequence[int] = self.spec["at"]
        return lines

    @property
    def warns(self) -> bool:
        return bool(self.spec.get("warns", False))

    @property
    def text(self) -> str | None:
        """Return the broken file; None where it is no text."""
        if "from" not in self.spec:
            text: str | None = self.spec.get("text")
            return text
        broken = base(self.spec["from"])
        for old, new in [(self.spec["old"], self.spec["new"]), *self.spec.get("also", ())]:
            assert broken.count(old) == 1, f"{self.name}: {old!r} is not unique"
            broken = broken.replace(old, new)
        return broken

    def write(self, path: Path) -> None:
        if self.spec.get("folder"):
            path.mkdir()
        elif "bytes" in self.spec:
            path.write_bytes(bytes.fromhex(self.spec["bytes"]))
        elif self.text is not None:
            path.write_bytes(self.text.encode(self.spec.get("encoding", "utf-8")))


@cache
def base(name: str) -> str:
    return BASES[name] if name in BASES else (HERE / f"{name}.yaml").read_text(encoding="utf-8")


@cache
def cases() -> tuple[Case, ...]:
    """Return those of the page, then those that only the golden file has."""
    return (*_read("cases"), *_read("more"))


@cache
def _read(name: str) -> tuple[Case, ...]:
    families = yaml.load((HERE / f"{name}.yaml").read_text(encoding="utf-8"), LOADER)  # noqa: S506 - the safe one, in C
    return tuple(Case(family, spec["case"], spec) for family, specs in families.items() for spec in specs)


@contextmanager
def alone() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@cache
def said_of(case: Case) -> tuple[Sequence[Mistake], Sequence[str]]:
    """Return what speaks against running it, and what only should be known."""
    with alone():
        case.write(FILE)
        try:
            return (), checked(load(FILE, registry=shipped(), to_run=True)).warnings
        except ConfigError as error:
            return error.mistakes, ()


def words_of(case: Case) -> list[str]:
    mistakes, warnings = said_of(case)
    return [*map(str, mistakes), *(f"warning: {warning}" for warning in warnings)]


def section(case: Case) -> str:
    said = "\n".join(words_of(case))
    return f"### {case.name[0].upper()}{case.name[1:]}\n\n{_broken(case)}```\n{said}\n```\n"


def _broken(case: Case) -> str:
    text = case.text
    if text is None or "encoding" in case.spec:
        return ""
    if "from" not in case.spec:
        return f"```yaml\n{text}```\n\n" if text else ""
    changes = difflib.unified_diff(base(case.spec["from"]).splitlines(), text.splitlines(), n=0, lineterm="")
    shown = [line for line in list(changes)[2:] if not line.startswith("@@")]
    return "```diff\n" + "\n".join(shown).translate(VISIBLE) + "\n```\n\n"


def page() -> str:
    parts = [HEAD]
    for name, title in SHOWN.items():
        parts.append(f"## {title}\n\n```yaml\n{base(name)}```\n")
    family = ""
    for case in _read("cases"):
        if case.family != family:
            family = case.family
            parts.append(f"## {family}\n")
        parts.append(section(case))
    return "\n".join(parts)


if __name__ == "__main__":
    said = {case.name: words_of(case) for case in cases()}
    GOLDEN.write_text(yaml.safe_dump(said, allow_unicode=True, width=100_000, sort_keys=False), encoding="utf-8")
