"""All rows of the fault matrix, again and again: `python -m tests.system.rows [--times 2] [--row N] [--jobs 3]`.

Runs the tests that docs/faults.md names for each row and prints a table: number, how often its tests passed, and how
long it took, at most, from the fault until the simulated rig said that everything was safe. Exit code 1 if any failed.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Row:
    """One fault: what shows it, and what came of that."""

    fault: str
    tests: tuple[str, ...]
    passed: int = 0
    failed: int = 0
    safe_after_s: list[float] = field(default_factory=list)

    def take(self, cases: Mapping[str, list[ET.Element]]) -> None:
        """Count the cases of this row's tests; one that was not run counts as failed."""
        for test in self.tests:
            of_it = (several for name, several in cases.items() if test in (name, name.split("::")[0]))
            found = [case for several in of_it for case in several]
            bad = sum(case.find(kind) is not None for case in found for kind in ("failure", "error", "skipped"))
            self.failed += bad if found else 1
            self.passed += len(found) - bad
            for value in (p for case in found for p in case.iter("property") if p.get("name") == "safe_after_s"):
                self.safe_after_s.append(float(value.get("value", "nan")))

    def line(self, number: int) -> str:
        """Return it as a line of the table."""
        result = "passed" if self.passed and not self.failed else f"{self.failed} FAILED"
        safe = f"{max(self.safe_after_s):.2f} s" if self.safe_after_s else ""
        return f"| {number} | {self.fault} | {self.passed} {result} | {safe} |"


def rows_of(page: str) -> dict[int, Row]:
    """Return the page's rows by number, with the tests that each names."""
    lines = [[cell.strip() for cell in line.split("|")] for line in page.splitlines()]
    return {
        int(cells[1]): Row(cells[2], tuple(re.findall(r"`(tests/[^`]+)`", cells[-2])))
        for cells in lines
        if len(cells) > 3 and cells[1].isdigit()
    }


def run(tests: list[str], jobs: int, report: Path) -> None:
    """Run these tests, whatever their marks."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "-m", "", f"--junitxml={report}", *tests]
    subprocess.run(command, cwd=ROOT, check=False)


def cases(report: Path) -> dict[str, list[ET.Element]]:
    """Return the cases of a run by test, whatever its parameters."""
    found: dict[str, list[ET.Element]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        module = case.get("classname", "").replace(".", "/")
        found.setdefault(f"{module}.py::{case.get('name', '').split('[')[0]}", []).append(case)
    return found


def main(arguments: list[str]) -> int:
    """Run them and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=2)
    options.add_argument("--row", type=int, action="append")
    options.add_argument("--jobs", type=int, default=3)
    given = options.parse_args(arguments)
    rows = rows_of((ROOT / "docs/faults.md").read_text(encoding="utf-8"))
    chosen = {number: rows[number] for number in given.row or sorted(rows)}
    tests = sorted({test for row in chosen.values() for test in row.tests})
    with tempfile.TemporaryDirectory(prefix="rigctl-rows-") as folder:
        for time in range(given.times):
            report = Path(folder) / f"{time}.xml"
            run(tests, given.jobs, report)
            found = cases(report)
            for row in chosen.values():
                row.take(found)
    print(f"| # | fault | tests, in {given.times} runs | safe after, at most |\n|---|---|---|---|")
    print(*(row.line(number) for number, row in chosen.items()), sep="\n")
    return int(any(row.failed or not row.passed for row in chosen.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
