"""The lock names what `pyproject.toml` asks for, within its bounds, with hashes, and nobody's address."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.security.audit import LOCK, verdict

ROOT = Path(__file__).parent.parent.parent
EXTRAS = ("report", "notify", "mqtt")
"""What a machine that runs campaigns installs."""
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)(?: ; [^\\]+)? \\$", re.MULTILINE)
TEXT = LOCK.read_text(encoding="utf-8")


def asked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = map(Requirement, (*project["dependencies"], *(r for name in EXTRAS for r in extras[name])))
    return [requirement for requirement in named if requirement.name != project["name"]]  # an extra names another


def test_all_that_runs_is_locked_within_its_bounds():
    """Whoever raises a bound makes the lock anew (CONTRIBUTING.md)."""
    versions = {canonicalize_name(name): version for name, version in PINNED.findall(TEXT)}
    for requirement in asked():
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_every_package_has_hashes_and_no_host_is_named():
    """What is installed is what was locked, wherever it comes from."""
    blocks = re.split(r"^(?=[a-z0-9])", TEXT, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINNED.findall(TEXT)) > 30
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"://|--index|--find-links|--extra|\bfile:", TEXT)


@pytest.mark.parametrize(
    ("packages", "says", "well"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], "1 packages, none", True),
        ([{"name": "a", "skip_reason": "not found"}], "NOT REACHED for 1 of 1", True),
        (
            [
                {"name": "a", "skip_reason": "not found"},
                {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]},
            ],
            "b 2: CVE-1, mended in 3",
            False,
        ),
    ],
)
def test_an_audit_fails_only_for_what_is_known(packages, says, well):
    """Who was not reached has said nothing."""
    told, holds = verdict(packages)
    assert says in told
    assert holds is well


def test_the_page_on_security_names_tests_that_there_are():
    """What is defended is shown by something."""
    named = re.findall(r"`(tests/[\w/.]+)`", (ROOT / "docs/security.md").read_text(encoding="utf-8"))
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).exists()] == []
