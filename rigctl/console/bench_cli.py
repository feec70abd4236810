"""`rigctl tools bench ...`: policies and decisions measured on simulated problems; its verbs, and what they show."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rigctl.console.options import AsJson, CellFlags
from rigctl.console.output import Answer, console, rows
from rigctl.console.verbs import Commands, Group
from rigctl.errors import UsageError, counted
from rigctl.plugins import need

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from rigctl.bench.asking.grid import Grid
    from rigctl.bench.cell import Cell
    from rigctl.bench.running.parallel import Attempt, Ran
    from rigctl.bench.tables.standings import Coverage, Standing


bench = Commands(cls=Group, help="Measure policies and decisions on simulated problems.", no_args_is_help=True)

Hyperparameters = StrEnum("Hyperparameters", "LEARNED FIXED")
Image = StrEnum("Image", "HTML PNG SVG")

Results = Annotated[Path, Argument(metavar="DIR", help="Results of `bench run`.")]
Out = Annotated[Path, Option("--out", metavar="DIR", help="Folder for results; finished cells are kept.")]
Images = Annotated[list[Image] | None, Option("--image", help="Figures as html, png or svg; repeatable.")]


@bench.command()
def latency(
    sizes: Annotated[list[int] | None, Option("--size", min=10, help="Trials known; repeatable.")] = None,
    repeats: Annotated[int, Option(min=1, help="Repeats; the median is shown.")] = 5,
    policy: Annotated[str | None, Option(metavar="NAME", help="Policy, timed in its slowest phase.")] = None,
) -> Answer:
    """Measure CPU seconds of one decision: five variables, seven control sets, both kinds of bounds."""
    from rigctl.bench.latency import SIZES, measure_latency
    from rigctl.core.policies.registry import USUAL_POLICY

    found = measure_latency(sizes or SIZES, repeats=repeats, policy=policy or USUAL_POLICY)
    return Answer(found, rows(found))


@bench.command()
def run(
    out: Out,
    *,
    grid: Annotated[Path | None, Option(metavar="FILE", help="A grid in YAML, instead of the options.")] = None,
    problem: Annotated[list[str] | None, Option(help="Repeatable.")] = None,
    costs: Annotated[list[str] | None, Option(help="Repeatable; default: each problem's usual ones.")] = None,
    variance: Annotated[list[float] | None, Option(help="Variance of uncontrolled variables; repeatable.")] = None,
    policy: Annotated[list[str] | None, Option(metavar="LABEL", help="Repeatable.")] = None,
    seeds: Annotated[int | None, Option(min=1, help="Number of seeds, from 0 on; default: 10.")] = None,
    budget: Annotated[float | None, Option(help="Currency units; default: the problem's own.")] = None,
    model: Annotated[
        Hyperparameters | None, Option(help="Hyper-parameters: learned (the default), or the papers' fixed ones.")
    ] = None,
    how: CellFlags,
    json: AsJson = False,
) -> Answer:
    """Simulate campaigns: problems x costs x variances x policies x seeds; what is finished is skipped."""
    from rigctl.bench.asking.grid import SEEDS, from_options, read_grid

    needed = {"--problem": problem, "--policy": policy}
    given = {**needed, "--budget": budget, "--costs": costs, "--variance": variance, "--seeds": seeds, "--model": model}
    if grid is not None:
        extra = [name for name, value in given.items() if value]
        if extra:
            raise UsageError(f"bench run: --grid names everything; leave out {', '.join(extra)}")
        asked = read_grid(grid)
    elif problem and policy:
        kind = (model or Hyperparameters.LEARNED).value
        asked = from_options(
            problem, policy, budget, costs=costs, variances=variance, seeds=seeds or SEEDS, hyperparameters=kind
        )
    else:
        missing = ", ".join(name for name, value in needed.items() if not value)
        raise UsageError(f"bench run: {missing} missing; give --problem and --policy, or a --grid FILE")
    ran = run_cells(asked, out, how, json=json)
    return Answer(ran_json(ran), (), exit_code=1 if ran.failed else 0)


@bench.command()
def draw(
    *,
    seed: Annotated[int, Option(min=0, help="Seed of the first problem; 0 to 199 are for development.")] = 0,
    count: Annotated[int, Option(min=1, help="Number of problems, from consecutive seeds.")] = 20,
    play: Annotated[list[str] | None, Option(metavar="LABEL", help="A policy to play; repeatable.")] = None,
    seeds: Annotated[int, Option(min=1, help="Campaigns of each policy on each problem.")] = 1,
    out: Annotated[Path | None, Option(metavar="DIR", help="Folder for results; finished cells are kept.")] = None,
    jobs: Annotated[int, Option(min=1, help="Worker processes.")] = 1,
    json: AsJson = False,
) -> Answer:
    """Draw problems from seeds, and show them or play policies on them."""
    from rigctl.bench.asking.grid import from_options
    from rigctl.bench.problems.drawn import PREFIX, drawn
    from rigctl.bench.running.store import load
    from rigctl.bench.tables.standings import coverage, standings

    numbers = range(seed, seed + count)
    if not play:
        found = [drawn(number).by_name() for number in numbers]
        return Answer(found, rows(found))
    if out is None:
        raise UsageError("bench draw: --out missing; give a directory for the results of --play")
    asked = from_options([f"{PREFIX}{number}" for number in numbers], play, None, seeds=seeds)
    ran = run_cells(asked, out, CellFlags(jobs=jobs), json=json)
    results = load(out)
    told = "".join(f"\n{text}\n" for text in standing_texts(standings(results), coverage(results)))
    return Answer(ran_json(ran), lambda screen: screen.print(told, end=""), exit_code=1 if ran.failed else 0)


@bench.command()
def summary(
    directory: Results,
    *,
    ours: Annotated[str | None, Option(metavar="LABEL", help="Compare this policy ...")] = None,
    published: Annotated[
        list[str] | None, Option(metavar="LABEL", help="... with the best of these; repeatable; default: all.")
    ] = None,
) -> Answer:
    """Show means and standard errors of the regrets, per problem and policy."""
    from rigctl.bench.running.store import load

    if published and ours is None:
        raise UsageError("bench summary: --published compares with --ours LABEL; give both, or neither")

    return summed_up(load(directory), ours, published or ())


@bench.command()
def figures(
    directory: Results,
    *,
    out: Annotated[Path | None, Option(metavar="DIR", help="Default: DIR/figures.")] = None,
    style: Annotated[str, Option(metavar="PAPER", help="Laid out as this paper's figures.")] = "overview",
    image: Images = None,
) -> Answer:
    """Draw results as interactive HTML, PNG and SVG."""
    from rigctl.bench.running.store import load

    files = draw_figures(load(directory), out or directory / "figures", style, [i.value for i in image or ()])
    return Answer({"files": files}, map(str, files))


@bench.command()
def paper(
    name: Annotated[str, Argument(metavar="NAME", help="unknown-cost, ucb-cvs, gittins or ca-mobo.")],
    out: Out,
    *,
    quick: Annotated[bool, Option("--quick", help="A small form of it, for a first look.")] = False,
    seeds: Annotated[int | None, Option(min=1, help="Number of seeds, from 0 on; default: as published.")] = None,
    problem: Annotated[list[str] | None, Option(help="Only this one; repeatable.")] = None,
    costs: Annotated[list[str] | None, Option(help="Only these; repeatable.")] = None,
    how: CellFlags,
    image: Images = None,
    json: AsJson = False,
) -> Answer:
    """Run the published settings of a paper, draw its figures, and say which of its claims hold."""
    from rigctl.bench.papers.judge import findings_of, findings_text
    from rigctl.bench.papers.paper import grid_of
    from rigctl.bench.running.store import load

    asked = grid_of(name, quick, arrays=how.data is not None, seeds=seeds, problems=problem or (), costs=costs or ())
    ran = run_cells(asked, out, how, json=json)
    results = load(out)
    found = findings_of(name, results)
    files = draw_figures(results, out / "figures", name, [i.value for i in image or ()])
    fields = {"findings": [f.by_name() for f in found], **ran_json(ran), "files": files}
    said = ["", *findings_text(found).split("\n"), "", *map(str, files)]
    return Answer(fields, said, exit_code=1 if ran.failed else 0)


def run_cells(grid: Grid, out: Path, how: CellFlags, *, json: bool) -> Ran:
    """Run what is not finished of a grid, and tell how it goes: a bar at a terminal, lines elsewhere.

    Raises:
        UsageError: something asked for does not exist, or an extra is missing.
    """
    from rigctl.bench.running.parallel import run_grid
    from rigctl.bench.running.store import Store, code_version

    cells = grid.cells(how.data)
    store = Store(out, how.form)
    screen = console(stderr=json)
    finished = store.finished()
    _same_labels(cells, finished, out)
    kept = [cell.id for cell in cells if cell.id in finished]
    left = len(cells) - len(kept)
    screen.print(f"{counted(len(cells), 'cell')}, {len(kept)} finished before; results in {out}")
    other = store.of_other_code(kept, code_version())
    if other:
        sys.stderr.write(
            f"rigctl: {len(other)} of the cells finished before were made by another version of the code or of its "
            f"numerical libraries; give another --out to run them again\n"
        )
    with _told_when_stopped(out), _progress(screen, left) as tell:
        ran = run_grid(grid, cells, store, jobs=how.jobs, dask=how.dask, on_attempt=tell)
    for attempt in ran.failed:
        sys.stderr.write(f"rigctl: cell {attempt.cell.id} failed: {attempt.error}\n")
    if ran.failed:
        sys.stderr.write(
            f"rigctl: {len(ran.failed)} of {counted(len(cells), 'cell')} failed; tracebacks in {out / 'failed'}\n"
        )
    return ran


def _same_labels(cells: Sequence[Cell], finished: Collection[str], out: Path) -> None:
    """Refuse a label that stands for something else in finished cells: tables could not tell them apart."""
    before = {cell.rpartition("-")[0]: cell for cell in finished}
    for cell in cells:
        other = before.get(cell.id.rpartition("-")[0], cell.id)
        if other != cell.id:
            raise UsageError(
                f"bench: policy {cell.policy.label} stood for other options or another model in {out} ({other}); give "
                f"it a label of its own in a grid file, or another --out"
            )


@contextmanager
def _told_when_stopped(out: Path) -> Iterator[None]:
    """End the worker processes too at Ctrl-C or SIGTERM, and say how to go on.

    Left to itself SIGTERM would end this process at once, and its workers only after the cells they are on.
    """

    def terminated(_signal: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        told = f"finished cells are kept in {out}, and the same command goes on from there"
        sys.stderr.write(f"rigctl: stopped; {told}\n")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(screen: Console, left: int) -> Iterator[Callable[[Attempt], None]]:
    """Give what tells of each attempt: by a bar at a terminal, by lines elsewhere."""
    if not screen.is_terminal:
        done = count(1)
        yield lambda attempt: screen.print(f"{next(done)}/{left} {_told(attempt)}")
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("cells", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.description}")
    with Progress(*columns, console=screen) as progress:
        task = progress.add_task("", total=left)
        yield lambda attempt: progress.update(task, advance=1, description=_told(attempt))


def _told(attempt: Attempt) -> str:
    cell = attempt.cell
    where = f"{cell.problem} {cell.costs} {cell.policy.label} seed {cell.seed}"
    return f"{where}: failed" if attempt.error else f"{where}: {counted(len(attempt.rows), 'trial')}"


def ran_json(ran: Ran) -> Mapping[str, Any]:
    return {
        "cells": ran.cells,
        "skipped": ran.skipped,
        "finished": ran.finished,
        "failed": [{"cell": a.cell.id, "error": a.error} for a in ran.failed],
    }


def summed_up(frame: pd.DataFrame, ours: str | None, published: Sequence[str]) -> Answer:
    """Return regrets per setting and policy, and ours against the best of the published, if asked for.

    Raises:
        UsageError: a policy that is to be compared has no results.
    """
    from rigctl.bench.tables import summary
    from rigctl.bench.tables.standings import coverage, standings

    found, placed, held = summary.summarise(frame), standings(frame), coverage(frame)
    others = published or sorted({row.policy for row in found} - {ours})
    comparison = None if ours is None else summary.compare(frame, ours, others)
    money = () if ours is None else summary.reached(frame, ours, others)
    fields = {
        "summary": [row.by_name() for row in found],
        "standings": {name: [row.by_name() for row in rows] for name, rows in placed.items()},
        "comparison": None if comparison is None else comparison.by_name(),
        "money": money,
        "intervals": [row.by_name() for row in held],
    }
    told = [summary.summary_text(found), *standing_texts(placed, held)]
    told += [] if comparison is None else [summary.comparison_text(comparison)]
    told += [summary.reached_text(money)] if money else []
    return Answer(fields, lambda screen: screen.print("\n\n".join(told)))


def standing_texts(placed: Mapping[str, Sequence[Standing]], held: Sequence[Coverage]) -> Iterator[str]:
    """Yield standings on all problems, and for each kind of costs apart, where policies can be compared.

    And how often intervals held the truth, where results say so.
    """
    from rigctl.bench.tables.standings import coverage_text, standings_text

    yield from (f"{name}\n{standings_text(rows)}" for name, rows in placed.items())
    if held:
        yield f"Intervals\n{coverage_text(held)}"


def draw_figures(frame: pd.DataFrame, out: Path, style: str, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write the figures of a style; returns the files.

    Raises:
        UsageError: the style is unknown, or an extra is missing.
    """
    need("matplotlib")
    from rigctl.bench.figures.draw import FORMATS, write_figure
    from rigctl.bench.figures.layouts import figures_of

    return tuple(path for figure in figures_of(style, frame) for path in write_figure(figure, out, formats or FORMATS))
