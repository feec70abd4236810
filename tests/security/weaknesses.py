"""What bandit finds must be known: each place stands under a `noqa: S...` with its reason, as ruff's S rules ask.

`python -m tests.security.weaknesses` fails with what is not. Two markers at one place would only drift apart.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SOURCES = ("rigctl", "drivers", "sim_rig")
BY_USE = ("B403", "B404", "B405")
"""Importing pickle, subprocess or an XML parser harms nobody; each use is judged by itself."""
REASON = re.compile(r"noqa: (?:[A-Z]+\d+, )*S\d+(?:, [A-Z]+\d+)*\s*(?:#|-+)\s*\S")


def unknown(findings: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what no marker of its own number stands at."""
    for found in findings:
        code, path = found["test_id"].replace("B", "S", 1), Path(found["filename"])
        first, *_, last = (*found["line_range"], found["line_range"][-1])
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()[first - 1 : last + 1]
        marked = [line for line in lines if re.search(rf"noqa: .*\b{code}\b", line)]
        if found["test_id"] not in BY_USE and not any(map(REASON.search, marked)):
            yield f"{path}:{found['line_number']}: {found['test_id']}: {found['issue_text']}"


def main() -> int:
    """Run bandit over all that is installed; 1: something is not known."""
    command = [sys.executable, "-m", "bandit", "-q", "-r", *SOURCES, "-f", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    found = [*unknown(report["results"]), *(f"{e['filename']}: {e['reason']}" for e in report["errors"])]
    print("\n".join(found) or f"bandit: {len(report['results'])} findings, each with its reason")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
