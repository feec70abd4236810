"""Tests run in forked processes: what becomes of each is heard, whatever becomes of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    "conftest.py": """
        from tests.workers import pytest_addoption, pytest_runtestloop
    """,
    "test_a.py": """
        import os, warnings, pytest
        @pytest.fixture(scope="module")
        def place(tmp_path_factory):
            yield tmp_path_factory.mktemp("of_all")
            raise OSError("torn down once")
        def test_first(place): assert place.is_dir()
        def test_second(place, capfd): os.write(1, b"said"); assert capfd.readouterr().out == "said"
        def test_warns(): warnings.warn("beware")
        def test_fails(place): print("by the way"); assert place is None
    """,
    "test_b.py": """
        import os, signal
        def test_before(): assert True
        def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
        def test_after(): assert os.getpid() != os.getppid()
    """,
    "test_c.py": """
        import pytest
        @pytest.mark.parametrize("number", range(9))
        def test_many(number): assert number >= 0
        @pytest.mark.skip(reason="not here")
        def test_skipped(): assert False
    """,
}


def pytest_of(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder as a person does."""
    for name, text in FILES.items():
        (folder / name).write_text("\n".join(line[8:] for line in text.splitlines()), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL
    )


@pytest.mark.slow
def test_every_test_is_run_and_told_of_once(tmp_path: Path):
    """A process that dies costs the test it ran; another process runs the tests after it."""
    report = tmp_path / "report.xml"
    ran = pytest_of(tmp_path, "-n", "3", f"--junitxml={report}")
    ends: dict[str, list[str]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        ends.setdefault(case.attrib["name"], []).extend(child.tag for child in case if child.tag != "system-out")
    came = {name: kinds for name, kinds in ends.items() if kinds}
    assert came == {"test_fails": ["failure", "error"], "test_dies": ["failure"], "test_skipped": ["skipped"]}
    assert len(ends) == 17
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert [said for said in ("by the way", "beware", "torn down once") if said not in ran.stdout] == []


@pytest.mark.slow
def test_enough_failures_end_all(tmp_path: Path):
    """As with one process, `-x` begins no test after the first that fails."""
    ran = pytest_of(tmp_path, "-n", "2", "-x")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in ran.stdout
