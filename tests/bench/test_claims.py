"""Claims as data: every file holds together, and verdicts, figures and cells are those they have always been."""

from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from rigctl.bench.asking.options import build, predefined
from rigctl.bench.papers.paper import PAPERS, Claim, Expected, grid_of, paper_of
from rigctl.bench.problems.catalogue import catalogue
from rigctl.bench.tables.results import COLUMNS, PolicyScenario

CELLS = {
    ("unknown-cost", False): (640, "99324ecbc7c0"),
    ("unknown-cost", True): (12, "59457e8e04e3"),
    ("ucb-cvs", False): (1890, "d55e50e857b3"),
    ("ucb-cvs", True): (32, "496207aa5b59"),
    ("gittins", False): (1296, "2294dbb33028"),
    ("gittins", True): (36, "80c24a967932"),
    ("ca-mobo", False): (750, "03e9d0b00478"),
    ("ca-mobo", True): (27, "d62c24a46af5"),
}
"""How many each paper and quick form has, and a digest of their names: others would leave stored results behind."""


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "quick"), CELLS)
def test_the_papers_cells_keep_their_names(paper, quick):
    """So that results that are there are found, whatever form the grids are written in."""
    names = sorted(cell.id for block in grid_of(paper, quick).blocks for cell in block.cells())
    assert (len(names), sha256("\n".join(names).encode()).hexdigest()[:12]) == CELLS[paper, quick]


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_claims_name_what_exists(paper):
    """Ids differ; policies, problems and quantities are known; a paper is published at its grids' own budgets."""
    read = paper_of(paper)
    assert len({claim.id for claim in read.claims}) == len(read.claims)
    for claim in read.claims:
        places = [claim.where, *(p.where for p in claim.parts), *(c.where for c in claim.cases)]
        assert {*claim.ours, *claim.theirs, *(p for c in claim.cases for p in c.policies)} <= set(predefined())
        assert {p for where in places for p in where.problems or ()} <= set(catalogue())
        assert claim.quantity in {*COLUMNS, "late-evaluations"}
        assert 0 < claim.share <= 1
    for cell in grid_of(paper).blocks[0].cells():
        assert read.published(PolicyScenario(cell.problem, cell.costs, cell.variance, cell.budget))
        assert not read.published(PolicyScenario(cell.problem, cell.costs, cell.variance, cell.budget / 2))


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_tested_is_said(paper):
    """A threshold stands in the words of its claim, so that they cannot drift apart."""
    for claim in paper_of(paper).claims:
        for number in thresholds(claim):
            words = {f"{number:g}", f"{number:.0%}", f"{number:.0%}".replace("%", " %")}
            assert any(w in claim.test for w in words | ({"half"} if number == 0.5 else set())), claim.id


def thresholds(claim: Claim) -> list[float]:
    of = [claim.expect, *([claim.hypervolume] if claim.kind == "inputs" else [])]
    bounds = [b for e in of for b in (e.below, e.above, e.within) if b not in {None, 1.0}]
    return bounds + ([claim.share] if claim.share < 1 and "budget" not in claim.place else [])


def test_the_page_shows_a_claim_as_it_stands():
    """docs/papers.md explains how a claim is written by one that is judged so."""
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
    (shown,) = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])
    assert build(Claim, shown, "docs/papers.md") in paper_of("ucb-cvs").claims


@pytest.mark.parametrize("given", [{}, {"below": 1.0, "above": 2.0}])
def test_a_claim_expects_one_thing(given):
    """Neither nothing nor two sides at once."""
    with pytest.raises(ValueError, match="exactly"):
        Expected(**given)
