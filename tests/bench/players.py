"""Policies that are easy to predict, and small cells."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

from rigctl.bench.cell import Cell, PolicySpec
from rigctl.core.experiment.policy import BudgetSpent, NotWorthIt, Proposal

QUICK = PolicySpec("quick", "explore-then-commit", {}, {"hyperparameters": "fixed"})


def quick_cell(seed: int = 0, budget: float = 0.5, policy: PolicySpec = QUICK) -> Cell:
    """A few trials of hartmann3 with nothing to learn."""
    return Cell("hartmann3", "moderate", 0.04, policy, seed, budget)


@dataclass(frozen=True)
class InTurn:
    """Every control set in turn, all variables at `at`; remembers what it was given."""

    at: float = 0.5
    only: int | None = None
    stop_after: int | None = None
    name = "in-turn"

    def initial_state(self, problem):
        return {"played": [], "third": 1 / 3}

    def propose(self, state, problem, history, rng):
        if self.stop_after is not None and len(state["played"]) >= self.stop_after:
            raise NotWorthIt("enough")
        if history.spent >= problem.budget:
            raise BudgetSpent("all gone")
        sets = problem.space.control_sets
        chosen = len(state["played"]) % len(sets) if self.only is None else self.only
        proposal = Proposal(
            trial=len(history) + 1,
            policy=self.name,
            phase="turn",
            control_set=chosen,
            setting=(self.at,) * len(sets[chosen].indices),
            reason=f"{rng.random()}",
        )
        return proposal, {**state, "played": (*state["played"], chosen)}


def install_plugin(directory: Path, module: str, source: str, name: str, attribute: str) -> None:
    """A third party's policy, found by its entry point once `directory` is on the path."""
    (directory / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    info = directory / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[rigctl.policies]\n{name} = {module}:{attribute}\n", encoding="utf-8")


POLICY = """
from dataclasses import dataclass
from rigctl import Proposal

@dataclass(frozen=True)
class Policy:
    name = "{name}"

    def initial_state(self, problem):
        return {{}}

    def propose(self, state, problem, history, rng):
        trial = len(history) + 1
{lines}
"""


def install_policy(directory: Path, name: str, lines: str, before: str = "") -> None:
    """As `install_plugin`, in `NAME_policy.py`: proposes by these lines, where `trial` is the next one's number."""
    source = textwrap.dedent(before) + POLICY.format(name=name, lines=textwrap.indent(textwrap.dedent(lines), " " * 8))
    install_plugin(directory, f"{name.replace('-', '_')}_policy", source, name, "Policy")


RAISES = 'raise ZeroDivisionError("a bug of its own")'
