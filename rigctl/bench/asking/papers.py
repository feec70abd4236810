"""The papers' experiments as grids: problems, costs, variances, policies, seeds, budgets and model as published.

`quick` forms are for continuous integration: the same code on a few cells. What was ambiguous, and how it was decided:
docs/papers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rigctl.bench.asking.grid import Block, Grid
from rigctl.bench.asking.labels import policy_spec
from rigctl.bench.cell import PolicySpec
from rigctl.bench.names import must_be_one_of
from rigctl.errors import UsageError

PAPERS = ("unknown-cost", "ucb-cvs", "gittins", "ca-mobo")
VARIANTS = ("etc-50", "etc-100", "etc-ada")
BASELINES = ("ts-psq", "ucb-psq")
PER_COST = ("ts-psq-per-cost", "ucb-psq-per-cost", "ei-psq-per-cost")
CA_MOBO = ("ca-mobo", "ca-mobo-printed", "mo-ucb")
FUNCTIONS = ("ackley", "levy", "rosenbrock")
ARRAYS = ("plant", "airfoil")
"""Problems that need the arrays of `--data`."""


def grid_of(
    name: str,
    quick: bool = False,
    *,
    arrays: bool = True,
    seeds: int | None = None,
    problems: Sequence[str] = (),
    costs: Sequence[str] = (),
) -> Grid:
    """The grid of a paper, or its quick form.

    Args:
        name: one of `PAPERS`.
        quick: a few cells that finish within about a minute on one core, without arrays.
        arrays: False leaves out the problems that need a directory of arrays.
        seeds: how many instead of the published number, from 0 on.
        problems: only these; none: all of the paper's.
        costs: likewise.

    Raises:
        UsageError: there is no such paper, or it has no such problem or costs.
    """
    must_be_one_of(name, PAPERS, "paper")
    quick_forms = {"unknown-cost": _quick_u, "ucb-cvs": _quick_c, "gittins": _quick_p, "ca-mobo": _quick_m}
    forms = {"unknown-cost": _unknown_cost, "ucb-cvs": _ucb_cvs, "gittins": _gittins, "ca-mobo": _ca_mobo}
    blocks = (quick_forms if quick else forms)[name]()
    there = dict.fromkeys(p for block in blocks for p in block.problems if arrays or p not in ARRAYS)
    any_costs = dict.fromkeys(c for block in blocks for c in block.costs or ())
    for problem in problems:
        must_be_one_of(problem, there, f"paper {name}: problem")
    for one in costs:
        must_be_one_of(one, any_costs, f"paper {name}: costs")
    kept = _only(blocks, problems or [*there], costs or [*any_costs])
    if not kept:
        raise UsageError(f"paper {name}: runs none of {', '.join(problems)} with {', '.join(costs)} costs")
    return Grid(kept if seeds is None else tuple(replace(block, seeds=tuple(range(seeds))) for block in kept))


def _only(blocks: tuple[Block, ...], problems: Sequence[str], costs: Sequence[str]) -> tuple[Block, ...]:
    kept = [
        (block, tuple(p for p in block.problems if p in problems), tuple(c for c in block.costs or () if c in costs))
        for block in blocks
    ]
    return tuple(replace(block, problems=some, costs=of) for block, some, of in kept if some and of)


def published_model() -> Mapping[str, Any]:
    """C appendix C: fixed hyper-parameters (each problem's), pointwise bounds, beta_t = 2."""
    return {"hyperparameters": "fixed", "bounds": "pointwise", "beta": 2.0}


def gittins_model() -> Mapping[str, Any]:
    """P appendix C: BoTorch's defaults, which were its earlier prior then."""
    return {"prior": "gamma"}


def _specs(*labels: str) -> tuple[PolicySpec, ...]:
    return tuple(policy_spec(label) for label in labels)


def _ucb_cvs() -> tuple[Block, ...]:
    """C section 5 and appendix B. Budgets are those of the published code: 50, plant 200."""
    costs = ("cheap-known", "moderate-known", "expensive-known")
    common: dict[str, Any] = {"variances": (0.02, 0.04, 0.08), "seeds": tuple(range(10)), "model": published_model()}
    return (
        Block(("gp-sample3", "hartmann3", "airfoil"), _specs(*BASELINES, *VARIANTS), 50.0, costs, **common),
        Block(("plant",), _specs(*BASELINES, *VARIANTS), 200.0, costs, **common),
        Block(("gp-sample3",), _specs(*PER_COST), 50.0, ("moderate-known",), **common),
    )


def _unknown_cost() -> tuple[Block, ...]:
    """U Experiments: unknown noisy costs, budget 100, of which Algorithm 1 explores with 60."""
    return (
        Block(
            problems=("hartmann6+6", "ackley6+6", "plant", "airfoil"),
            policies=_specs("u-alg1-share", *BASELINES, "etc-50-size"),
            budget=100.0,
            costs=("cheap", "moderate"),
            variances=(0.02, 0.04),
            seeds=tuple(range(5)),
            model=published_model(),
        ),
    )


def _gittins() -> tuple[Block, ...]:
    """P section 4.2: budgets 10 d (uniform costs) and 25 d (varying ones), Matern-5/2, learned hyper-parameters."""
    blocks = []
    for d in (4, 8, 16):
        problems = tuple(f"{function}{d}" for function in FUNCTIONS)
        blocks += [_uniform(problems, d, range(16)), _varying(problems, d, range(16))]
    return tuple(blocks)


def _uniform(problems: tuple[str, ...], d: int, seeds: range) -> Block:
    ucb, ts = PolicySpec("ucb", "ucb-psq"), PolicySpec("ts", "ts-psq")
    policies = (*_gittins_policies(), *_specs("ei"), ucb, ts)
    return Block(problems, policies, 10.0 * d, ("uniform",), seeds=tuple(seeds), model=gittins_model())


def _varying(problems: tuple[str, ...], d: int, seeds: range) -> Block:
    policies = (*_gittins_policies(), *_specs("eipc", "ei"))
    return Block(problems, policies, 25.0 * d, ("varying",), seeds=tuple(seeds), model=gittins_model())


def _gittins_policies() -> tuple[PolicySpec, ...]:
    """Lambda is per unit of the benchmark's own cost, in spreads of the outcome so far: the paper standardises too."""
    return tuple(PolicySpec(name, name, {"cost_unit": 1.0}) for name in ("pbgi", "pbgi-d"))


def _ca_mobo() -> tuple[Block, ...]:
    """M Experiments: 50 repeats of 500 trials."""
    return _two_outcomes(("zdt3", "trays"), 500.0, range(50))


def _two_outcomes(problems: tuple[str, ...], budget: float, seeds: range) -> tuple[Block, ...]:
    """CA-MOBO with both orders of its weights, in units of both kinds.

    Ranges are the same however an outcome is scaled, so the unscaled ZDT3 needs own units only.
    """
    ranged, own = _specs(*CA_MOBO), _specs(*(f"{name}-own" for name in CA_MOBO))
    common: dict[str, Any] = {"budget": budget, "costs": ("unit",), "seeds": tuple(seeds)}
    return (Block(problems, (*ranged, *own), **common), Block(("zdt3-unscaled",), own, **common))


def _quick_c() -> tuple[Block, ...]:
    """Both kinds of claim about costs need cheap and expensive ones; integrated bounds, as they are the faster."""
    model = {**published_model(), "bounds": "integrated"}
    common: dict[str, Any] = {"variances": (0.04,), "seeds": (0, 1), "model": model}
    return (
        Block(("hartmann3",), _specs(*BASELINES, *VARIANTS), 8.0, ("moderate-known", "expensive-known"), **common),
        Block(("gp-sample3",), _specs(*VARIANTS, *PER_COST), 4.0, ("moderate-known",), **common),
    )


def _quick_u() -> tuple[Block, ...]:
    model = {**published_model(), "bounds": "integrated"}
    policies = _specs("u-alg1-share", *BASELINES, "etc-50-size")
    return (Block(("hartmann6+6",), policies, 10.0, ("moderate",), (0.04,), (0, 1, 2), model),)


def _quick_p() -> tuple[Block, ...]:
    problems = ("ackley4", "rosenbrock4")
    return (
        replace(_uniform(problems, 4, range(2)), budget=12.0),
        replace(_varying(problems, 4, range(2)), budget=60.0),
    )


def _quick_m() -> tuple[Block, ...]:
    return _two_outcomes(("zdt3",), 40.0, range(3))
