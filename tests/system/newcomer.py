"""A newcomer's path: demo, init, check, trials by hand, past trials, a report; each step names the next.

Nothing is read but the README and what the program says. `python -m tests.system.newcomer` takes the long way: a fresh
clone of this repository in a new virtual environment, as the README says, which needs a package index and minutes.
"""

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
LEFT_ALONE = {"ph": (6.3, 0.2), "ca": (2.6, 0.5)}
"""Mean and spread of what this newcomer measures."""
BEST_AT = {"ph": 6.1, "ca": 4.0}
PREFERENCES = ("--by-hand",)
"""What this newcomer chooses where the program offers a choice."""


@dataclass
class Newcomer:
    """Runs what it was told to run, in a folder of its own, where nobody can be asked."""

    folder: Path
    program: tuple[str, ...]
    begin: Callable[..., subprocess.Popen[str]] = subprocess.Popen
    said: list[str] = field(default_factory=list)
    """Every command with its answer."""

    def run(self, command: str, code: int = 0) -> str:
        """Run a `rigctl ...` line and return all that it says."""
        words = [*self.program, *shlex.split(command)[1:]]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with self.begin(words, cwd=self.folder, **streams) as done:
            said, _ = done.communicate(timeout=STEP_S)
        self.said.append(f"$ {command}\n{said}")
        if done.returncode and "with --force it is" in said:  # what is measured here is never mistyped
            return self.run(f"{command} --force", code)
        assert done.returncode == code, f"exit {done.returncode}, {code} was expected:\n" + "\n".join(self.said[-3:])
        return said

    def next_of(self, said: str) -> str:
        """Return the one command that an answer names as the next."""
        found = NEXT.findall(said)
        assert len(found) == 1, f"names {len(found)} next steps, must be one:\n{said}"
        return found[0]

    def aside(self, said: str, verb: str) -> str:
        """Return the command of this verb that an answer names beside the next step."""
        (found,) = re.findall(rf"(rigctl {verb} [^)]*)\)", said)
        return str(found)

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
            ingest = re.sub(r"(\w+)=MEASURED", lambda m: f"{m[1]}={weather.gauss(*LEFT_ALONE[m[1]]):.2f}", ingest)
            (values,) = re.findall(r"--values (\S+)", ingest)
            measured = {name: float(x) for name, x in (pair.split("=") for pair in values.split(","))}
            ingest = ingest.replace("MEASURED", f"{truth(measured):.1f}").replace("PAID", "0.45")
            suggest = self.next_of(self.run(ingest))
        return suggest


def growth(measured: dict[str, float]) -> float:
    """Say what really comes of it."""
    return 300.0 - sum(40.0 * (x - BEST_AT[name]) ** 2 / BEST_AT[name] for name, x in measured.items())


def old_table(file: Path, rows: int) -> None:
    """Write past trials as a spreadsheet saves them: semicolons, decimal commas, units in headers, missing costs."""
    past = random.Random(3)
    lines = ["Versuch;pH;CA [mM];Growth [cm2/day];Cost [EUR];controlled"]
    for row in range(rows):
        measured = {"ph": past.uniform(5.2, 6.9), "ca": past.uniform(0.6, 5.8)}
        cells = [*(f"{x:.2f}" for x in measured.values()), f"{growth(measured):.1f}", "" if row % 10 == 9 else "0.45"]
        controlled = ("nothing", "ph", "ca", "ph+ca")[row % 4]
        lines.append(";".join([str(row + 1), *(cell.replace(".", ",") for cell in cells), controlled]))
    file.write_bytes("\r\n".join(lines).encode("latin-1"))


def path(newcomer: Newcomer, *, demo: str, by_hand: int = 10, before: int = 60) -> None:
    """Walk it, from the demo over so many trials by hand, and so many of before, to a report."""
    config = newcomer.initialise(newcomer.next_of(newcomer.run(demo)))
    assert config.startswith("rigctl check ")
    checked = newcomer.run(config)
    past = newcomer.aside(checked, "trial import")
    after = newcomer.trials(newcomer.next_of(checked), by_hand, growth)
    old_table(newcomer.folder / "old.csv", before)
    said = newcomer.run(past.replace("OLD.csv", "old.csv"))
    assert f"{before} trials" in said
    assert newcomer.next_of(said) == after
    report = newcomer.next_of(newcomer.run(newcomer.aside(said, "recommend")))
    assert report.startswith("rigctl report ")
    newcomer.run(report)
    assert "growth" in (newcomer.folder / "report.html").read_text(encoding="utf-8")


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
        sys.stdout.write(f"\nfrom the clone to a report: {time.monotonic() - began_s:.0f} s\n")


if __name__ == "__main__":
    main()
