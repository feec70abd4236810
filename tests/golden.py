"""What the program says, as it said it last: tests assert kinds and fields, and the sentences lie in files.

Beside each file of tests, `said/NAME.yaml` holds what each of its tests was told, in order. `WRITE_GOLDEN=1 pytest
PATHS` writes them anew; the difference is then read like any other change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

WRITES = os.environ.get("WRITE_GOLDEN") == "1"
ROOT = Path(__file__).parents[1]
LONGEST = 2000
"""Characters; what is longer is looked at as a file of its own, or better by its fields."""

VARIES = {
    r"(?<=127\.0\.0\.1:)\d+": "PORT",
    r"(?<=localhost:)\d+": "PORT",
    r"(?<=/dev/pts/)\d+": "N",
    r"(?<=\bprocess )\d+": "PID",
    r"(?<=\bpid )\d+": "PID",
    r"\b0x[0-9a-f]{6,}\b": "ADDRESS",
    r"\b[\w-]+ \(uid \d+\)": "WHO",
    r"(?<=\()\S+(?=, this very process)": "python",
}

Told = dict[str, list[Any]]
Kinds = type[BaseException] | tuple[type[BaseException], ...]


def plain(what: object) -> Any:
    """Return what was told as YAML has it: text, numbers, and lists and mappings of them."""
    if what is None or type(what) in (bool, int, float, str):
        return what
    if isinstance(what, Mapping):
        return {str(plain(key)): plain(value) for key, value in what.items()}
    if isinstance(what, set | frozenset):
        return sorted((plain(item) for item in what), key=str)
    if isinstance(what, list | tuple | Iterator):
        return [plain(item) for item in what]
    return str(what)


def steady(text: str, places: Mapping[str, str]) -> str:
    """Replace what differs from run to run: places of this run, ports, processes, addresses, and times of today."""
    for place, name in places.items():
        text = text.replace(place, name)
    for pattern, name in VARIES.items():
        text = re.sub(pattern, name, text)
    return re.sub(r"(\d{4}-\d\d-\d\d)([ T]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z|\+00:00)?)?", _unless_today, text)


def _unless_today(found: re.Match[str]) -> str:
    try:
        away = abs(date.fromisoformat(found[1]) - datetime.now(UTC).date())
    except ValueError:
        return found[0]
    return "TODAY" if away <= timedelta(days=1) else found[0]


@dataclass
class Golden:
    """Compares what one test is told with what it was told last."""

    test: str
    file: Path
    places: dict[str, str]
    came: list[Any] = field(default_factory=list)

    def __call__(self, what: object) -> None:
        text = yaml.dump(plain(what), Dumper=_Dumper, allow_unicode=True, width=10 * LONGEST, sort_keys=False)
        text = steady(text, self.places)
        if "Traceback" in text:
            raise ValueError(f"{self.test}: a traceback changes with each line of the program: assert what raised it")
        if len(text) > LONGEST:
            raise ValueError(
                f"{self.test}: {len(text)} characters, at most {LONGEST}: assert fields, or a file of its own"
            )
        found = yaml.load(text, LOADER)  # noqa: S506 - the safe one, in C
        self.came.append(found)
        if not WRITES:
            known = _told(self.file).get(self.test, [])
            index = len(self.came) - 1
            assert index < len(known), f"nothing is kept of it in {self.file.name}: WRITE_GOLDEN=1 pytest writes it"
            assert found == known[index]

    @contextmanager
    def raises(self, kind: Kinds, match: str | None = None) -> Iterator[pytest.ExceptionInfo[BaseException]]:
        """Expect an error of a kind, and compare its sentence with the one kept of it."""
        with pytest.raises(kind, match=match) as caught:
            yield caught
        self(caught.value)


_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _told(file: Path) -> Told:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return yaml.load(text, LOADER) or {}  # noqa: S506 - the safe one, in C


def _write(file: Path, told: Told) -> None:
    """Keep what the tests that ran were told, and of the others what the file has, as long as they exist."""
    source = (file.parents[1] / f"{file.stem}.py").read_text(encoding="utf-8")
    old = {test: lines for test, lines in _told(file).items() if f"def {test.partition('[')[0]}(" in source}
    file.parent.mkdir(exist_ok=True)
    text = yaml.dump(dict(sorted((old | told).items())), Dumper=_Dumper, allow_unicode=True, width=120, sort_keys=False)
    file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def said_here(request: pytest.FixtureRequest) -> Iterator[Told]:
    """Collect what the tests of one file are told, to be written when they are done."""
    told: Told = {}
    yield told
    if WRITES and told:
        _write(_file_of(request.path), told)


@pytest.fixture
def golden(request: pytest.FixtureRequest, said_here: Told, tmp_path: Path) -> Iterator[Golden]:
    """Give a test what compares sentences with those kept of it."""
    name = request.node.name
    said = Golden(name, _file_of(request.path), {str(tmp_path): "TMP", str(ROOT): "ROOT"})
    yield said
    said_here[name] = said.came


def _file_of(test: Path) -> Path:
    return test.parent / "said" / f"{test.stem}.yaml"
