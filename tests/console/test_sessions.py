"""Sessions at a terminal, letter by letter: commands, what they answer, and their exit codes.

Each file of `golden/sessions` names the world that it plays in. `WRITE_GOLDEN=1 pytest tests/console/test_sessions.py`
writes what is answered anew; look at what has changed.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rigctl.console import output
from rigctl.console.cli import app
from tests.console.conftest import GOLDEN, ROOT, assert_golden
from tests.console.test_alarms import alarmed  # noqa: F401  # a world
from tests.console.test_outcome import awaited  # noqa: F401  # another
from tests.profiles import nightly_beyond, slow_between

NARROW = 60
TOLD = ("alarms", "check", "import", "refused-calls")
"""Sessions with long messages; the gate looks at their width, the night at that of all."""
SESSIONS = sorted((GOLDEN / "sessions").glob("*.txt"))
WORLD = re.compile(r"# in: (\w+)")
TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?|\d{8}T\d{6}Z|\b\d\d:\d\d\b")


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command with what it is given as input, and comments with none; answers are left out."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("#"):
            yield line, ""
        elif line.startswith("$ "):
            given = ""
            if line.endswith(" <<END"):
                while (more := next(lines)) != "END":
                    given += f"{more}\n"
            yield line, given


def answer(folder: Path, command: str, given: str) -> str:
    """Do one command: rigctl in this process; `write`, `copy` from here, `edit`, `cat` and `ls` of the folder."""
    verb, *words = shlex.split(command.removeprefix("$ ").removesuffix(" <<END"))
    if verb == "write":
        (folder / words[0]).write_text(given, encoding="utf-8")
        return ""
    if verb == "copy":
        return answer(folder, f"$ write {words[1]}", (ROOT / words[0]).read_text(encoding="utf-8"))
    if verb == "edit":
        name, old, new = (word.replace("\\n", "\n") for word in words)
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text, command
        return answer(folder, f"$ write {name}", text.replace(old, new))
    if verb == "cat":
        return "".join(f"| {line}\n" for line in (folder / words[0]).read_text(encoding="utf-8").splitlines())
    if verb == "ls":
        return "".join(f"{path.name}\n" for path in sorted((folder / words[0]).glob("*")))
    done = CliRunner().invoke(app, words, input=given or None)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    text = f"{done.stdout}{done.stderr}".replace(f"{folder}", "~")
    whole = "\n".join(line.rstrip() for line in TIMES.sub("TIME", text).splitlines())
    return f"{whole}\n" * bool(whole) + (f"exit {done.exit_code}\n" if done.exit_code else "")


@pytest.fixture
def ada(monkeypatch):
    """It is Ada who sits there, whoever runs the tests."""
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr("rigctl.people.person", lambda _: "Ada (uid 7)")


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize("session", slow_between(4, SESSIONS), ids=lambda path: path.stem)
def test_a_session_is_answered_as_it_was(session, request):
    """Every answer and exit code is what the file has."""
    text = session.read_text(encoding="utf-8")
    world = WORLD.search(text)
    assert world is not None
    bench = request.getfixturevalue(world[1])
    played = ""
    for line, given in parts(text):
        ends = f"{given}END\n" if line.endswith(" <<END") else ""
        played += f"{line}\n{ends}" + ("" if line.startswith("#") else answer(bench.folder, line, given))
    assert_golden(f"sessions/{session.stem}", played)


@pytest.mark.slow
@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    "session",
    nightly_beyond(len(TOLD), sorted(SESSIONS, key=lambda path: path.stem not in TOLD)),
    ids=lambda path: path.stem,
)
def test_no_line_of_a_session_is_wider_than_the_terminal(session, request, monkeypatch):
    """All is broken at spaces but what is copied as it stands: commands, JSON, tables, and files that are shown."""
    monkeypatch.setattr(output, "columns", lambda _: NARROW)
    text = session.read_text(encoding="utf-8")
    bench = request.getfixturevalue(WORLD.search(text)[1])
    wide, as_it_stands = [], re.compile("--json|export")
    for line, given in parts(text):
        shown = "" if line.startswith(("#", "$ cat")) else answer(bench.folder, line, given)
        wide += [each for each in shown.splitlines() if len(each) > NARROW and not as_it_stands.search(line)]
    assert [each for each in wide if not each.startswith("Next: ")] == []
