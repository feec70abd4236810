"""What is asked of runs of CA-MOBO: each combination of units and order, judged by what the paper reports."""

from collections.abc import Sequence
from typing import Any

import pytest

from rigctl.bench.papers.judge import JudgedClaim, findings_of
from rigctl.bench.papers.paper import grid_of
from tests.bench.tables import ending, frame

pytestmark = pytest.mark.slow


def judged(runs: Sequence[list[list[dict[str, Any]]]]) -> tuple[JudgedClaim, ...]:
    return findings_of("ca-mobo", frame([run for group in runs for run in group]))


def test_m_runs_both_orders_of_the_weights_in_both_kinds_of_units() -> None:
    """So that it shows which combination makes the paper's claims true; unscaled outcomes need their own units only."""
    mapped, unscaled = grid_of("ca-mobo").blocks
    options = {p.label: (p.policy, p.options.get("units"), p.options.get("sorted")) for p in mapped.policies}
    assert options == {
        "ca-mobo": ("ca-mobo", None, None),
        "ca-mobo-printed": ("ca-mobo", None, "paper"),
        "mo-ucb": ("mo-ucb", None, None),
        "ca-mobo-own": ("ca-mobo", "own", None),
        "ca-mobo-printed-own": ("ca-mobo", "own", "paper"),
        "mo-ucb-own": ("mo-ucb", "own", None),
    }
    assert (unscaled.problems, len(unscaled.policies)) == (("zdt3-unscaled",), 3)
    assert {p.label for p in unscaled.policies} < set(options)
    assert {(b.budget, len(b.seeds)) for b in (mapped, unscaled)} == {(500.0, 50)}


def m_run(
    policy: str, used: Sequence[float], reached: float, budget: float = 500.0, problem: str = "zdt3"
) -> list[list[dict[str, Any]]]:
    columns = {f"used_{i}": [0.1, u] for i, u in enumerate(used, 1)}
    setting = (problem, "unit", 0.0, budget)
    return ending(policy, 0.5, setting, dear_input=[0.1, used[0]], hypervolume=[0.1, reached], **columns)


@pytest.mark.parametrize(
    ("used", "volume", "parts", "verdict"),
    [
        ((20.0, 30.0, 60.0), 0.9, ("yes", "yes", "yes"), "yes"),
        ((80.0, 90.0, 99.0), 0.9, ("no", "yes", "yes"), "no"),
        ((20.0, 10.0, 60.0), 0.9, ("yes", "no", "yes"), "no"),
        ((20.0, 60.0, 30.0), 0.9, ("yes", "no", "yes"), "no"),
        ((20.0, 30.0, 60.0), 0.5, ("yes", "yes", "no"), "no"),
    ],
)
def test_m_claims_follow_the_data(
    used: tuple[float, ...], volume: float, parts: tuple[str, ...], verdict: str, golden
) -> None:
    """A fifth of the dear input, least of all inputs, the last one used most, at equal hypervolume: all are needed."""
    found = judged([m_run("mo-ucb", (85.0, 70.0, 90.0), 0.9), m_run("ca-mobo", used, volume)])
    assert tuple(found[0].numbers["verdicts"].values()) == parts
    assert found[0].verdict == verdict
    assert {f.verdict for f in found[1:]} == {"undecided"}  # no other combination was run
    golden(found[0].figures)


def test_m_combinations_are_judged_apart(golden) -> None:
    """Each against MO-UCB in the same units on the same scale; on the trays less use is enough."""
    runs = [m_run("mo-ucb-own", (85.0, 70.0), 9.0, problem="zdt3-unscaled")]
    runs += [m_run("ca-mobo-printed-own", (20.0, 30.0), 9.0, problem="zdt3-unscaled")]
    runs += [
        m_run("mo-ucb", (250.0, 240.0), 0.9, problem="trays"),
        m_run("ca-mobo", (200.0, 260.0), 0.9, problem="trays"),
    ]
    found = [f for f in judged(runs) if f.verdict != "undecided"]
    assert [f.verdict for f in found] == ["yes", "yes"]
    assert ["unscaled" in f.claim.place for f in found] == [True, False]
    golden([f.claim.place for f in found])


def test_m_needs_the_use_of_every_input() -> None:
    """A table without the columns of use leaves the claim open instead of judging half of it."""
    setting = ("zdt3", "unit", 0.0, 500.0)
    runs = [
        ending(p, 0.5, setting, dear_input=[1.0, v], hypervolume=[0.1, 0.9])
        for p, v in (("mo-ucb", 85.0), ("ca-mobo", 10.0))
    ]
    assert {f.verdict for f in judged(runs)} == {"undecided"}


def test_another_budget_than_the_published_one_judges_nothing(golden) -> None:
    """Its figures are shown, with a remark, but the claim stays undecided."""
    runs = [m_run(p, (v, 90.0), 0.9, budget=40.0) for p, v in (("mo-ucb", 85.0), ("ca-mobo", 10.0))]
    found = judged(runs)[0]
    assert found.verdict == "undecided"
    golden(found.figures)
    assert (found.settings, found.claim.published) == (0, 1)
