"""`rigctl bench ...`: verbs and their options, and nothing else."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rigctl.console.options import AsJson
from rigctl.errors import UsageError

bench = typer.Typer(help="Measure policies and decisions on simulated problems.", no_args_is_help=True)


class Table(StrEnum):
    """Names the forms of a cell's results."""

    PARQUET = "parquet"
    CSV = "csv"


Hyperparameters = StrEnum("Hyperparameters", "LEARNED FIXED")
Image = StrEnum("Image", "HTML PNG SVG")

Results = Annotated[Path, typer.Argument(metavar="DIR", help="What `bench run` wrote.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results go; finished cells are kept.")]
TableFormat = Annotated[Table, typer.Option("--format", help="Of the tables.")]
Jobs = Annotated[int, typer.Option(min=1, help="Worker processes.")]
Dask = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this dask.distributed scheduler.")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Where plant_growth.npz and airfoil.npz are.")]
Images = Annotated[list[Image] | None, typer.Option("--image", help="Figures as html, png or svg; repeatable.")]


@bench.command()
def latency(
    sizes: Annotated[list[int] | None, typer.Option("--size", min=10, help="Trials known; repeatable.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Of which the median is taken.")] = 5,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="In the phase that takes it longest.")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Measure CPU seconds of one decision: five variables, seven control sets, both kinds of bounds."""
    from rigctl.bench.latency import SIZES, measure_latency
    from rigctl.console.output import print_json, print_rows
    from rigctl.core.policies.registry import USUAL_POLICY

    rows = measure_latency(sizes or SIZES, repeats=repeats, policy=policy or USUAL_POLICY)
    (print_json if json else print_rows)(rows)


@bench.command()
def run(
    out: Out,
    *,
    grid: Annotated[Path | None, typer.Option(metavar="FILE", help="A grid in YAML, instead of the options.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="Repeatable.")] = None,
    costs: Annotated[list[str] | None, typer.Option(help="Repeatable; default: each problem's usual ones.")] = None,
    variance: Annotated[list[float] | None, typer.Option(help="Of uncontrolled variables; repeatable.")] = None,
    policy: Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Repeatable.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many, from 0 on; default: 10.")] = None,
    budget: Annotated[float | None, typer.Option(help="Currency units.")] = None,
    model: Annotated[
        Hyperparameters | None,
        typer.Option(help="Hyper-parameters: learned (the default), or the papers' fixed ones."),
    ] = None,
    form: TableFormat = Table.PARQUET,
    jobs: Jobs = 1,
    dask: Dask = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Simulate campaigns: problems x costs x variances x policies x seeds; what is finished is skipped."""
    from rigctl.bench.asking.grid import SEEDS, from_options, read_grid
    from rigctl.console import bench_run
    from rigctl.console.output import print_json

    needed = {"--problem": problem, "--policy": policy, "--budget": budget}
    given = {**needed, "--costs": costs, "--variance": variance, "--seeds": seeds, "--model": model}
    if grid is not None:
        extra = [name for name, value in given.items() if value]
        if extra:
            raise UsageError(f"bench run: --grid names everything; leave out {', '.join(extra)}")
        asked = read_grid(grid)
    elif problem and policy and budget is not None:
        kind = (model or Hyperparameters.LEARNED).value
        asked = from_options(
            problem, policy, budget, costs=costs, variances=variance, seeds=seeds or SEEDS, hyperparameters=kind
        )
    else:
        missing = ", ".join(name for name, value in needed.items() if not value)
        raise UsageError(f"bench run: {missing} missing; give --problem, --policy and --budget, or a --grid FILE")
    ran = bench_run.run(asked, out, form.value, jobs=jobs, dask=dask, data=data, json=json)
    if json:
        print_json(bench_run.ran_json(ran))
    raise typer.Exit(1 if ran.failed else 0)


@bench.command()
def summary(
    directory: Results,
    *,
    ours: Annotated[str | None, typer.Option(metavar="LABEL", help="Compare this policy ...")] = None,
    published: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="... with the best of these; repeatable; default: all.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show means and standard errors of the regrets, per problem and policy."""
    from rigctl.bench.running.store import load
    from rigctl.console.bench_run import show_summary

    if published and ours is None:
        raise UsageError("bench summary: --published compares with --ours LABEL; give both, or neither")

    show_summary(load(directory), ours, published or (), json=json)


@bench.command()
def figures(
    directory: Results,
    *,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Default: DIR/figures.")] = None,
    style: Annotated[str, typer.Option(metavar="PAPER", help="Laid out as this paper's figures.")] = "overview",
    image: Images = None,
    json: AsJson = False,
) -> None:
    """Draw results as interactive HTML, PNG and SVG."""
    from rigctl.bench.running.store import load
    from rigctl.console.bench_run import draw, tell_files

    files = draw(load(directory), out or directory / "figures", style, [i.value for i in image or ()])
    tell_files(files, json=json)


@bench.command()
def paper(
    name: Annotated[str, typer.Argument(metavar="NAME", help="unknown-cost, ucb-cvs, gittins or ca-mobo.")],
    out: Out,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A small form of it, for a first look.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many, from 0 on; default: as published.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    costs: Annotated[list[str] | None, typer.Option(help="Only these; repeatable.")] = None,
    form: TableFormat = Table.PARQUET,
    jobs: Jobs = 1,
    dask: Dask = None,
    data: Data = None,
    image: Images = None,
    json: AsJson = False,
) -> None:
    """Run the published settings of a paper, draw its figures, and say which of its claims hold."""
    from rigctl.bench.papers.judge import findings_of, findings_text
    from rigctl.bench.papers.paper import grid_of
    from rigctl.bench.running.store import load
    from rigctl.console import bench_run

    asked = grid_of(name, quick, arrays=data is not None, seeds=seeds, problems=problem or (), costs=costs or ())
    ran = bench_run.run(asked, out, form.value, jobs=jobs, dask=dask, data=data, json=json)
    results = load(out)
    found = findings_of(name, results)
    files = bench_run.draw(results, out / "figures", name, [i.value for i in image or ()])
    if not json:
        typer.echo(f"\n{findings_text(found)}\n")
    bench_run.tell_files(files, json=json, findings=[f.by_name() for f in found], **bench_run.ran_json(ran))
    raise typer.Exit(1 if ran.failed else 0)
