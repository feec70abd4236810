"""A newcomer's path: demo, init, check, trials by hand, each step as the one before it names it; a script.

Nothing is read but the README and what the program says. `python -m tests.system.newcomer` takes the long way: a fresh
clone of this repository in a new virtual environment, as the README says, which needs a package index and minutes.
"""

from __future__ import annotations

import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STEP_S = 600.0
NEXT = re.compile(r"^Next: (rigctl .*?)(?:   \(.*)?$", re.MULTILINE)
EXAMPLE = re.compile(r"^  --\S+.*?  e\.g\. (--.*)$", re.MULTILINE)
PREFERENCES = ("--by-hand",)
"""What this newcomer chooses where the program offers a choice."""


@dataclass
class Newcomer:
    """Runs what it was told to run, in a folder of its own, where nobody can be asked."""

    folder: Path
    program: tuple[str, ...]
    said: list[str] = field(default_factory=list)
    """Every command with its answer."""

    def run(self, command: str, code: int = 0) -> str:
        """Run a `rigctl ...` line and return all that it says."""
        words = [*self.program, *shlex.split(command)[1:]]
        done = subprocess.run(
            words,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
        said = done.stdout + done.stderr
        self.said.append(f"$ {command}\n{said}")
        assert done.returncode == code, f"exit {done.returncode}, {code} was expected:\n" + "\n".join(self.said[-3:])
        return said

    def next_of(self, said: str) -> str:
        """Return the one command that an answer names as the next."""
        found = NEXT.findall(said)
        assert len(found) == 1, f"names {len(found)} next steps, must be one:\n{said}"
        return found[0]

    def initialise(self, command: str) -> str:
        """Start a configuration from what is said to be missing, by the examples given; return the next command."""
        said = self.run(command, code=2)
        command += "".join(f" {flag}" for flag in PREFERENCES if flag in said)
        said = self.run(command, code=2)
        examples = EXAMPLE.findall(said)
        assert examples, said
        return self.next_of(self.run(" ".join([command, *examples])))

    def trials(self, suggest: str, count: int, truth: Callable[[dict[str, float]], float]) -> str:
        """Do trials by hand as they are suggested; return the next command after the last."""
        weather = random.Random(7)
        for _ in range(count):
            ingest = self.next_of(self.run(suggest))
            ingest = re.sub(r"(\w+)=MEASURED", lambda m: f"{m[1]}={weather.gauss(6.3, 0.2):.2f}", ingest)
            (values,) = re.findall(r"--values (\S+)", ingest)
            measured = {name: float(x) for name, x in (pair.split("=") for pair in values.split(","))}
            ingest = ingest.replace("MEASURED", f"{truth(measured):.1f}").replace("PAID", "0.45")
            suggest = self.next_of(self.run(ingest))
        return suggest


def growth(measured: dict[str, float]) -> float:
    """Say what really comes of it: best at pH 6.1."""
    return 300.0 - sum(80.0 * (x - 6.1) ** 2 for x in measured.values())


def path(newcomer: Newcomer, *, demo: str) -> None:
    """Walk it, from the demo to a recommendation."""
    config = newcomer.initialise(newcomer.next_of(newcomer.run(demo)))
    assert config.startswith("rigctl check ")
    suggest = newcomer.next_of(newcomer.run(config))
    after = newcomer.trials(suggest, 10, growth)
    assert after == suggest
    newcomer.run(after.replace("suggest", "recommend"))


def readme_demo() -> list[str]:
    """Return the README's first block, command by command."""
    block = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- demo -->")[1].split("```sh\n")[1]
    return [command.strip() for command in block.split("```")[0].split("&&")]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="newcomer-") as temporary:
        clone = Path(temporary) / "rigctl"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        began_s = time.monotonic()
        *install, demo = readme_demo()
        for command in install:
            subprocess.run(shlex.split(command), cwd=clone, check=True)
        program = clone / ".venv/bin/rigctl"
        newcomer = Newcomer(clone, (str(program),))
        try:
            path(newcomer, demo=demo.replace(".venv/bin/", ""))
        finally:
            sys.stdout.write("\n".join(newcomer.said))
        sys.stdout.write(f"\nfrom the clone to a recommendation: {time.monotonic() - began_s:.0f} s\n")


if __name__ == "__main__":
    main()
