"""What the bench's verbs do and show: a grid with its progress, summaries, figures."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.bench.asking.grid import Grid
from rigctl.bench.cell import Cell
from rigctl.bench.running.parallel import Attempt, Ran, run_grid
from rigctl.bench.running.store import Form, Store, code_version
from rigctl.console.output import console, print_json
from rigctl.errors import UsageError, counted
from rigctl.plugins import need

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


def run(
    grid: Grid, out: Path, form: Form, *, jobs: int = 1, dask: str | None = None, data: Path | None = None, json: bool
) -> Ran:
    """Run what is not finished of a grid, and tell how it goes: a bar at a terminal, lines elsewhere.

    Raises:
        UsageError: something asked for does not exist, or an extra is missing.
    """
    cells = grid.cells(data)
    store = Store(out, form)
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
        ran = run_grid(grid, cells, store, jobs=jobs, dask=dask, on_attempt=tell)
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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

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


def show_summary(frame: pd.DataFrame, ours: str | None, published: Sequence[str], *, json: bool) -> None:
    """Show regrets per setting and policy, and ours against the best of the published, if asked for.

    Raises:
        UsageError: a policy that is to be compared has no results.
    """
    from rigctl.bench.tables import reached, summary  # noqa: PLC0415 - numbers only where asked for

    rows = summary.summarise(frame)
    others = published or sorted({row.policy for row in rows} - {ours})
    comparison = None if ours is None else summary.compare(frame, ours, others)
    money = () if ours is None else reached.reached(frame, ours, others)
    if json:
        compared = None if comparison is None else comparison.by_name()
        print_json({"summary": [row.by_name() for row in rows], "comparison": compared, "money": money})
        return
    console().print(summary.summary_text(rows))
    if comparison is not None:
        console().print(f"\n{summary.comparison_text(comparison)}")
    if money:
        console().print(f"\n{reached.reached_text(money)}")


def draw(frame: pd.DataFrame, out: Path, style: str, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write the figures of a style; returns the files.

    Raises:
        UsageError: the style is unknown, or an extra is missing.
    """
    need("matplotlib")
    from rigctl.bench.figures.draw import FORMATS, write_figure  # noqa: PLC0415 - heavy, and an extra
    from rigctl.bench.figures.layouts import figures_of  # noqa: PLC0415

    return tuple(path for figure in figures_of(style, frame) for path in write_figure(figure, out, formats or FORMATS))


def tell_files(files: Sequence[Path], *, json: bool, **more: Any) -> None:
    if json:
        print_json({**more, "files": list(files)})
    else:
        console().print("\n".join(map(str, files)))
