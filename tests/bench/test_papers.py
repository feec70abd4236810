"""The papers' grids and claims, and findings that follow the data wherever they go."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import pytest
import yaml

from rigctl.bench.asking.grid import Grid
from rigctl.bench.asking.options import build, predefined
from rigctl.bench.figures.layouts import figures_of
from rigctl.bench.papers.judge import JudgedClaim, findings_of, findings_text
from rigctl.bench.papers.paper import (
    PAPERS,
    Claim,
    Effect,
    Expected,
    both,
    difference,
    effect,
    grid_of,
    interval,
    paper_of,
)
from rigctl.bench.problems.catalogue import catalogue
from rigctl.bench.problems.functions import DATA_FILES
from rigctl.bench.tables.results import COLUMNS, PolicyScenario, Stat, at_share, trials_of
from rigctl.console.output import print_json
from rigctl.errors import UsageError
from tests.bench.tables import SEEDS, ending, frame, rows
from tests.profiles import slow_beyond

pytestmark = pytest.mark.slow

ALL_COSTS = ("cheap-known", "moderate-known", "expensive-known")
BASELINES, VARIANTS = ("ts-psq", "ucb-psq"), ("etc-50", "etc-100", "etc-ada")


def judged(paper: str, runs: Sequence[list[list[dict[str, Any]]]]) -> tuple[JudgedClaim, ...]:
    return findings_of(paper, frame([run for group in runs for run in group]))


def about(findings: Sequence[JudgedClaim], words: str) -> JudgedClaim:
    (found,) = [f for f in findings if words in f.claim.statement]
    return found


def c_results(
    ends: Mapping[str, float], problem: str = "gp-sample3", costs: str = "cheap-known", variance: float = 0.04
) -> list[list[list[dict[str, Any]]]]:
    return [ending(policy, regret, (problem, costs, variance, 50.0)) for policy, regret in ends.items()]


def of_groups(baselines: float, variants: float) -> dict[str, float]:
    return dict.fromkeys(BASELINES, baselines) | dict.fromkeys(VARIANTS, variants)


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("quick", slow_beyond(1, [True, False]))
def test_every_grid_names_what_exists(paper: str, quick: bool) -> None:
    """Problems, costs, policies and options of each paper are known to the bench, in both forms."""
    grid = grid_of(paper, quick, arrays=False)
    assert Grid(tuple(replace(block, seeds=block.seeds[:1]) for block in grid.blocks)).cells()
    assert {p for block in grid_of(paper, quick).blocks for p in block.problems} <= set(catalogue())


def test_c_runs_the_published_settings() -> None:
    """Four objectives, three cost sets, three variances, five policies, ten seeds; and appendix B."""
    main, plant, naive = grid_of("ucb-cvs").blocks
    assert main.problems + plant.problems == ("gp-sample3", "hartmann3", "airfoil", "plant")
    assert (main.variances, main.costs) == ((0.02, 0.04, 0.08), ALL_COSTS)
    assert (main.budget, plant.budget, main.model["hyperparameters"]) == (50.0, 200.0, "fixed")
    assert len(main.seeds) == len(naive.seeds) == 10
    assert [p.label for p in main.policies] == [*BASELINES, *VARIANTS]
    assert naive.problems == ("gp-sample3",)


def test_p_budgets_grow_with_the_number_of_variables():
    """10 d where costs are uniform, 25 d where they vary, by the library's prior; M's combinations of units."""
    blocks = grid_of("gittins").blocks
    assert [(b.costs, b.budget) for b in blocks[:2]] == [(("uniform",), 40.0), (("varying",), 100.0)]
    assert [b.budget for b in blocks[-2:]] == [160.0, 400.0]
    assert {len(b.seeds) for b in blocks} == {16}
    for quick in (False, True):
        assert {b.model["prior"] for b in grid_of("gittins", quick).blocks} == {"gamma"}
    assert not any("prior" in b.model for paper in PAPERS if paper != "gittins" for b in grid_of(paper).blocks)
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


@pytest.mark.parametrize("quick", [False, True])
def test_a_part_of_a_paper_is_made_of_its_own_cells(quick: bool) -> None:
    """So many seeds, these problems: the same runs as in the whole, so that they count when the rest follows."""
    whole = {cell.id for cell in grid_of("gittins", quick).cells()}
    part = grid_of("gittins", quick, seeds=2, problems=["ackley4", "rosenbrock4"]).cells()
    assert {(c.problem, c.seed) for c in part} == {(p, s) for p in ("ackley4", "rosenbrock4") for s in (0, 1)}
    assert {cell.id for cell in part} <= whole


@pytest.mark.parametrize("paper", PAPERS)
def test_without_arrays_no_problem_needs_them(paper: str) -> None:
    """Quick forms never do, full ones on request."""
    for grid in (grid_of(paper, quick=True), grid_of(paper, arrays=False)):
        assert not {p for block in grid.blocks for p in block.problems} & set(DATA_FILES)


def test_what_a_paper_does_not_have_is_refused(golden) -> None:
    """Papers, problems and costs by name, with the nearest; problems without arrays; what never goes together."""
    assert {c.costs for c in grid_of("gittins", costs=["varying"]).cells()} == {"varying"}
    for asked in (
        lambda: grid_of("ucb-cv"),
        lambda: findings_of("ucb-cv", frame([])),
        lambda: grid_of("gittins", problems=["ackley6"]),
        lambda: grid_of("ucb-cvs", arrays=False, problems=["plant"]),
        lambda: grid_of("gittins", costs=["cheap"]),
        lambda: grid_of("ucb-cvs", quick=True, problems=["gp-sample3"], costs=["expensive-known"]),
    ):
        with golden.raises(UsageError):
            asked()


def test_an_effect_is_the_geometric_mean_over_settings_of_the_ratio():
    """Ratios 1/4 and 1 in two settings, for every seed: 1/2, lower in one; a seed of one policy says nothing."""
    one, other = ("toy", "cheap", 0.04, 10.0), ("toy", "moderate", 0.04, 10.0)
    table = frame(
        [
            rows(policy, seed, [2.0, end], setting=setting, best=2.0)
            for setting, ours in ((one, 0.1), (other, 0.4))
            for policy, end in (("a", ours), ("b", 0.4))
            for seed in (0, 1)
        ]
    )
    found = effect(at_share(trials_of(table), "simple"), ("a",), ("b",))
    assert found is not None
    assert found.ratio == pytest.approx(0.5)
    assert found.interval == pytest.approx((0.5, 0.5))
    assert (found.settings, found.lower_in, found.logs.n) == (2, 1, 2)
    assert Expected(below=1.0).verdict(found.interval) == "yes"
    assert Expected(above=1.0).verdict(found.interval) == "no"
    setting = ("toy", "cheap", 0.04, 10.0)
    trials = trials_of(frame([*ending("a", 0.5, setting, 3), *ending("b", 0.5, setting, 2)]))
    found = effect(at_share(trials, "simple"), ("a",), ("b",))
    assert found is not None
    assert found.logs.n == 2


@pytest.mark.parametrize(
    ("expected", "ratio", "error", "seeds", "verdict"),
    [
        *(
            (expected, 0.01, float("nan"), 1, "undecided")
            for expected in ({"below": 1.0}, {"above": 1.0}, {"within": 2.0})
        ),
        *(({"within": 1.5}, ratio, 0.02, 10, v) for ratio, v in ((1.0, "yes"), (2.0, "no"), (1.45, "undecided"))),
    ],
)
def test_equality_needs_the_whole_interval_inside_and_one_seed_decides_nothing(
    expected: dict[str, float], ratio: float, error: float, seeds: int, verdict: str
) -> None:
    """Inside: yes; outside: no; across the border: undecided, and so is what has no spread, however small the ratio."""
    assert Expected(**expected).verdict(Effect(Stat(log(ratio), error, seeds), 1, 0).interval) == verdict


def test_effects_and_verdicts_are_put_together():
    """0.5 against 2: 1/4 with the errors of both; one no is a no, a yes needs all; three seeds: 4.303 errors."""
    apart = difference(Effect(Stat(log(0.5), 0.03, 5), 2, 2), Effect(Stat(log(2.0), 0.04, 4), 3, 0))
    assert apart.ratio == pytest.approx(0.25)
    assert apart.logs.se == pytest.approx(sqrt(0.03**2 + 0.04**2))
    assert apart.logs.n == 4
    assert both("yes", "yes") == "yes"
    assert both("yes", "undecided") == "undecided"
    assert both("undecided", "no") == "no"
    assert both() == "undecided"
    assert interval(Stat(0.0, 1.0, 3)) == pytest.approx((-4.302653, 4.302653), abs=1e-6)
    found = Effect(Stat(log(0.5), 0.1, 3), 1, 1)
    assert found.interval == pytest.approx((0.5 * exp(-0.4302653), 0.5 * exp(0.4302653)))


@pytest.mark.parametrize("paper", PAPERS)
def test_without_runs_nothing_is_found(paper: str, golden) -> None:
    """Every claim is undecided, and says that its runs are missing."""
    found = findings_of(paper, frame([rows("someone", 0, [0.5])]))
    golden({finding.figures for finding in found})
    for finding in found:
        assert finding.verdict == "undecided"
        assert finding.settings == 0
        assert finding.claim.statement
        assert finding.claim.test


@pytest.mark.parametrize(
    ("words", "runs", "verdict"),
    [
        *(
            ("end with less simple regret than TS-PSQ", c_results(of_groups(*ends)), verdict)
            for ends, verdict in (((0.4, 0.1), "yes"), ((0.1, 0.4), "no"), ((0.2, 0.2), "undecided"))
        ),
        *(
            (
                "shrinks as costs rise",
                c_results(of_groups(0.4, cheap)) + c_results(of_groups(0.4, dear), costs="expensive-known"),
                verdict,
            )
            for cheap, dear, verdict in ((0.1, 0.2, "yes"), (0.2, 0.1, "no"))
        ),
    ],
)
def test_c_1_follows_the_data(words: str, runs: list[list[list[dict[str, Any]]]], verdict: str) -> None:
    """Less regret under cheap costs is a yes, more is a no, a wide spread neither; 1/4 where cheap, 1/2 where dear."""
    assert about(judged("ucb-cvs", runs), words).verdict == verdict


@pytest.mark.parametrize(("ends", "verdict"), [((0.1, 0.1, 0.3, 0.4, 0.11), "yes"), ((0.4, 0.4, 0.1, 0.1, 0.9), "no")])
def test_c_2_follows_the_data(ends: tuple[float, ...], verdict: str) -> None:
    """As published: ETC-50 and ETC-100 worse than the baselines, ETC-Ada between; then the other way round."""
    runs = c_results(dict(zip((*BASELINES, *VARIANTS), ends, strict=True)), costs="expensive-known")
    found = [f for f in judged("ucb-cvs", runs) if f.claim.place == "C section 5 (2)"]
    assert [f.verdict for f in found] == [verdict] * 3


def test_c_3_has_a_strict_and_a_mild_reading() -> None:
    """Baselines behind on airfoil, but less so than elsewhere: not as printed, yet relatively better."""
    runs = c_results(of_groups(0.4, 0.2), "airfoil") + c_results(of_groups(0.4, 0.02), "hartmann3")
    strict, mild = [f for f in judged("ucb-cvs", runs) if "(3)" in f.claim.place]
    assert (strict.verdict, mild.verdict) == ("no", "yes")


@pytest.mark.parametrize(
    ("ends", "costs", "wins", "verdict"),
    [
        ((0.3, 0.2, 0.1), ALL_COSTS, (0, 0, 9), "yes"),
        ((0.1, 0.2, 0.3), ALL_COSTS, (9, 0, 0), "no"),
        ((0.3, 0.2, 0.1), ALL_COSTS[:1], (0, 0, 3), "undecided"),
    ],
)
def test_c_4_counts_the_lowest_variance(
    ends: tuple[float, ...], costs: tuple[str, ...], wins: tuple[int, ...], verdict: str
) -> None:
    """Three policies by three cost sets: nine combinations, all won by one variance; three are too few to decide."""
    variances = ("0.02", "0.04", "0.08")
    runs = [
        group
        for variance, end in zip(variances, ends, strict=True)
        for each in costs
        for group in c_results(dict.fromkeys(VARIANTS, end), costs=each, variance=float(variance))
    ]
    found = about(judged("ucb-cvs", runs), "0.08")
    assert (found.verdict, found.numbers["wins"]) == (verdict, dict(zip(variances, wins, strict=True)))


@pytest.mark.parametrize(
    ("good", "stuck", "late", "verdict"),
    [(0.01, 0.5, ("x1+x2+x3", "x1"), "yes"), (0.5, 0.01, ("x1", "x1+x2+x3"), "no")],
)
def test_appendix_b_looks_at_regrets_and_at_late_plays(
    good: float, stuck: float, late: tuple[str, str], verdict: str
) -> None:
    """TS and UCB per cost that stay on a cheap set are stuck; EI per cost that leaves it is idle; and the reverse."""
    setting = ("gp-sample3", "moderate-known", 0.04, 50.0)
    runs = [ending(policy, good, setting, sets=["x1", late[0]]) for policy in VARIANTS]
    runs += [ending(p, stuck, setting, sets=["x1", late[1]]) for p in ("ts-psq-per-cost", "ucb-psq-per-cost")]
    runs += [ending("ei-psq-per-cost", 0.2, setting, sets=["x1", late[0]])]
    found = [f for f in judged("ucb-cvs", runs) if f.claim.place == "C appendix B"]
    assert [f.verdict for f in found] == [verdict] * 5


U_SETTING = ("hartmann6+6", "moderate", 0.04, 100.0)


def u_results(regret: float, late: int) -> list[list[list[dict[str, Any]]]]:
    """Algorithm 1 explores for 60, then has so many trials; the baselines play the dear set throughout."""
    ours = [
        rows(
            *("u-alg1-share", s, [1.0, *[regret * (1 + 0.01 * s)] * late]),
            costs=[60.0, *[40.0 / late] * late],
            phase=["explore", *["commit"] * late],
            setting=U_SETTING,
        )
        for s in range(SEEDS)
    ]
    others = [
        [rows(policy, s, [0.4] * 10, costs=10.0, setting=U_SETTING) for s in range(SEEDS)]
        for policy in ("ts-psq", "ucb-psq", "etc-50-size")
    ]
    return [ours, *others]


@pytest.mark.parametrize(("regret", "late", "verdict"), [(0.1, 40, "yes"), (0.9, 2, "no")])
def test_u_claims_follow_the_data(regret: float, late: int, verdict: str) -> None:
    """Less regret and 40 trials against 4 after committing; then more regret and 2 against 4."""
    found = judged("unknown-cost", u_results(regret, late))
    assert {f.verdict for f in found if "at the end" in f.claim.place} == {verdict}
    more = about(found, "many more evaluations")
    assert (more.verdict, more.numbers["ts-psq"]["ratio"]) == (verdict, pytest.approx(late / 4))


def test_u_evaluations_are_counted_only_where_every_run_commits(golden) -> None:
    """A run that explores to its end says nothing of what comes after."""
    runs = u_results(0.1, 40)
    for row in runs[0][0]:
        row["phase"] = "explore"
    found = about(judged("unknown-cost", runs), "many more evaluations")
    golden(found.figures)
    assert found.verdict == "undecided"


@pytest.mark.parametrize(("worse", "verdict"), [(0.1, "yes"), (0.9, "no")])
def test_p_claims_follow_the_data(worse: float, verdict: str) -> None:
    """On Ackley PBGI and PBGI-D below EIPC and EI is a yes; one of them above is a no."""
    ends = {"pbgi": 0.1, "pbgi-d": worse, "eipc": 0.4, "ei": 0.5}
    found = judged("gittins", [ending(p, r, ("ackley16", "varying", 0.0, 400.0)) for p, r in ends.items()])
    assert about(found, "many-peaked").verdict == verdict


@pytest.mark.parametrize(("other", "verdict"), [(0.11, "yes"), (0.4, "no")])
def test_p_small_dimensions_are_a_draw_if_all_are_alike(other: float, verdict: str) -> None:
    """Within a factor of 1.5 of each baseline, with d = 4 and 8, whatever costs do; one of them far off is a no."""
    for problem, costs, budget, theirs in (
        ("levy4", "varying", 100.0, ("eipc", "ei")),
        ("levy8", "uniform", 80.0, ("ei", "ucb", "ts")),
    ):
        ends = {"pbgi": 0.1, "pbgi-d": 0.1} | dict.fromkeys(theirs, 0.1) | {theirs[0]: other}
        found = judged("gittins", [ending(p, r, (problem, costs, 0.0, budget)) for p, r in ends.items()])
        (claim,) = [f for f in found if f"{problem}, {costs}" in f.claim.place]
        assert claim.verdict == verdict


def test_p_rosenbrock_turns_with_the_budget() -> None:
    """Behind at a quarter of the budget, ahead at its end: both of the paper's claims hold."""
    more = {"costs": [50.0, 350.0], "setting": ("rosenbrock16", "varying", 0.0, 400.0)}
    ends = {"pbgi": (0.3, 0.2), "pbgi-d": (0.3, 0.2), "eipc": (0.6, 0.1), "ei": (0.6, 0.3)}
    runs = [[rows(p, s, [early + 0.001 * s, late], **more) for s in range(SEEDS)] for p, (early, late) in ends.items()]
    found = judged("gittins", runs)
    assert about(found, "best on the unimodal Rosenbrock").verdict == "yes"
    assert about(found, "EIPC overtakes").verdict == "yes"


def test_findings_are_told_with_verdict_figures_and_extent(capsys: pytest.CaptureFixture[str], golden) -> None:
    """The text says in how many of the published settings there were runs; JSON takes it all."""
    found = judged("ucb-cvs", c_results(of_groups(0.4, 0.1)))
    golden(next(line for line in findings_text(found).splitlines() if "reproduced" in line))
    print_json([f.by_name() for f in found])
    first = json.loads(capsys.readouterr().out)[0]
    assert (first["id"], first["reproduced"]) == ("cheap-sets-help", "yes")
    assert first["numbers"]["ratio"] == pytest.approx(0.25)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_on_the_papers_has_every_paper_and_figure(paper: str) -> None:
    """docs/papers.md names each command and explains each figure it leaves behind."""
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
    assert f"rigctl tools bench paper {paper} " in page
    settings = [("gp-sample3", "moderate-known", 0.04, 50.0), ("ackley16", "varying", 0.0, 400.0)]
    settings += [("ackley16", "uniform", 0.0, 160.0)]
    table = frame([rows(p, 0, [0.5], setting=s) for s in settings for p in ("pbgi", "ucb-psq-per-cost")])
    for figure in figures_of(paper, table):
        assert f"`{figure.name}`" in page or f"`{figure.name.removeprefix(paper)}`" in page, figure.name


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
    found = judged("ca-mobo", [m_run("mo-ucb", (85.0, 70.0, 90.0), 0.9), m_run("ca-mobo", used, volume)])
    assert tuple(found[0].numbers["verdicts"].values()) == parts
    assert found[0].verdict == verdict
    assert {f.verdict for f in found[1:]} == {"undecided"}  # no other combination was run
    golden(found[0].figures)


def test_m_combinations_are_judged_apart(golden) -> None:
    """Each against MO-UCB in the same units on the same scale; on the trays less use is enough."""
    runs = [
        m_run(policy, used, volume, problem=problem)
        for policy, used, volume, problem in (
            ("mo-ucb-own", (85.0, 70.0), 9.0, "zdt3-unscaled"),
            ("ca-mobo-printed-own", (20.0, 30.0), 9.0, "zdt3-unscaled"),
            ("mo-ucb", (250.0, 240.0), 0.9, "trays"),
            ("ca-mobo", (200.0, 260.0), 0.9, "trays"),
        )
    ]
    found = [f for f in judged("ca-mobo", runs) if f.verdict != "undecided"]
    assert [(f.verdict, "unscaled" in f.claim.place) for f in found] == [("yes", True), ("yes", False)]
    golden([f.claim.place for f in found])


def test_m_needs_the_use_of_every_input(golden):
    """Without the columns of use the claim stays open; figures of another budget are shown, but judge nothing."""
    more = {"setting": ("zdt3", "unit", 0.0, 500.0), "hypervolume": [0.1, 0.9]}
    used = {"mo-ucb": 85.0, "ca-mobo": 10.0}
    runs = [ending(p, 0.5, dear_input=[1.0, v], **more) for p, v in used.items()]
    assert {f.verdict for f in judged("ca-mobo", runs)} == {"undecided"}
    runs = [m_run(p, (v, 90.0), 0.9, budget=40.0) for p, v in (("mo-ucb", 85.0), ("ca-mobo", 10.0))]
    found = judged("ca-mobo", runs)[0]
    assert found.verdict == "undecided"
    golden(found.figures)
    assert (found.settings, found.claim.published) == (0, 1)


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
