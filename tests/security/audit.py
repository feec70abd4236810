"""Whether anything that the lock names is known to be vulnerable; who cannot be reached is no reason to fail.

`python -m tests.security.audit` fails with what is known. Without a network it says so, and succeeds.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parent.parent.parent / "requirements.lock"
AT_MOST_S = 9.0
"""Wall seconds; an audit is not worth more of the gate's."""


def verdict(packages: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return what is to be said of a report's packages, and whether all is well."""
    weak = [
        f"{p['name']} {p['version']}: {v['id']}, mended in {', '.join(v['fix_versions']) or 'no version yet'}"
        for p in packages
        for v in p.get("vulns", ())
    ]
    looked = sum("vulns" in package for package in packages)
    if weak:
        return "known to be vulnerable:\n" + "\n".join(weak), False
    if looked < len(packages):
        return f"NOT REACHED for {len(packages) - looked} of {len(packages)} packages; the others hold", True
    return f"{looked} packages, none known to be vulnerable", True


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--disable-pip", "--require-hashes"]
    command += ["-f", "json", "--progress-spinner", "off", "--timeout", "3"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=AT_MOST_S)
        said, well = verdict(json.loads(done.stdout)["dependencies"])
    except (subprocess.TimeoutExpired, ValueError) as problem:  # no answer, or none that is a report
        said, well = f"NOT REACHED: {type(problem).__name__}", True
    print(f"audit: {said}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
