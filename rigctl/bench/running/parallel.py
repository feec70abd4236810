"""Many cells at once: here, in worker processes (joblib), or on a dask.distributed cluster.

Workers compute and return tables; only this process writes, so a cell is recorded once whoever computed it how often.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass

from rigctl.bench.asking.grid import Grid
from rigctl.bench.cell import Cell
from rigctl.bench.running.outcome import Outcome
from rigctl.bench.running.simulate import run_cell
from rigctl.bench.running.store import Store, need
from rigctl.errors import RigctlError

RETRIES = 3
"""Times a cell is started again when the worker it was on died."""


class WorkerDied(RigctlError):
    """A worker process ended without an answer."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a grid."""

    cells: int
    skipped: int
    """Finished before."""
    finished: int
    """Now."""
    failed: tuple[Outcome, ...]


def attempt(cell: Cell) -> Outcome:
    """One cell in a worker, which keeps to one thread from now on."""
    import sklearn.gaussian_process  # noqa: F401, PLC0415 - a limit only holds for libraries loaded by then
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 - with scikit-learn

    threadpool_limits(limits=1)
    try:
        return Outcome(cell, tuple(run_cell(cell)))
    except Exception as error:  # noqa: BLE001 - policies are plug-ins: whatever one raises, the other cells go on
        told = str(error) if isinstance(error, RigctlError) else f"{type(error).__name__}: {error}"
        return Outcome(cell, error=told, traceback=traceback.format_exc())


def run_grid(
    grid: Grid,
    cells: Sequence[Cell],
    store: Store,
    *,
    jobs: int = 1,
    dask: str | None = None,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> Ran:
    """Run what is not finished yet of these cells of a grid, and record each as it finishes.

    Args:
        grid: what was asked, for the record.
        cells: of that grid.
        store: where results go, and what is skipped.
        jobs: worker processes here; 1: this process.
        dask: address of a scheduler to use instead.
        on_outcome: called with each outcome, after it is recorded.

    Raises:
        UsageError: an extra is missing, or the scheduler does not answer.
        WorkerDied: a worker process here died; on a cluster its cells go to another worker.
    """
    store.write_grid(grid)
    done = store.finished()
    pending = [cell for cell in cells if cell.id not in done]
    failed: list[Outcome] = []
    with closing(_outcomes(pending, jobs, dask)) as outcomes:
        for outcome in outcomes:
            if outcome.error:
                store.write_failure(outcome.cell.id, outcome.traceback)
                failed.append(outcome)
            else:
                store.write(outcome.cell.id, outcome.rows)
            on_outcome(outcome)
    return Ran(len(cells), len(cells) - len(pending), len(pending) - len(failed), tuple(failed))


def _outcomes(cells: Sequence[Cell], jobs: int, dask: str | None) -> Generator[Outcome]:
    """Outcomes as they come, in any order."""
    if dask is not None:
        from rigctl.bench.running.cluster import outcomes_of_cluster  # noqa: PLC0415 - an extra

        return outcomes_of_cluster(dask, attempt, cells, RETRIES)
    return _with_joblib(cells, jobs) if jobs > 1 and len(cells) > 1 else (attempt(cell) for cell in cells)


def _with_joblib(cells: Sequence[Cell], jobs: int) -> Generator[Outcome]:
    need("joblib")
    from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]  # noqa: PLC0415 - only where asked for

    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
        try:
            yield from parallel(delayed(attempt)(cell) for cell in cells)
        except BrokenProcessPool as error:
            raise WorkerDied(
                f"a worker process died ({error}); finished cells are kept: run the same command again, "
                f"with fewer --jobs if memory was short"
            ) from error
