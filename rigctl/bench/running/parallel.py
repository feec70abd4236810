"""Many cells at once: here, in worker processes (joblib), or on a dask.distributed cluster (the extra `dask`).

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
from rigctl.bench.running.simulate import Row, run_cell
from rigctl.bench.running.store import Store
from rigctl.errors import RigctlError, UsageError, in_words
from rigctl.plugins import need

RETRIES = 3
"""Times a cell is started again when the worker it was on died."""
CONNECT_TIMEOUT_S = 15


class WorkerDied(RigctlError):
    """A worker process ended without an answer."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one cell, wherever it was run."""

    cell: Cell
    rows: tuple[Row, ...] = ()
    error: str = ""
    """In a sentence; empty where it finished."""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a grid."""

    cells: int
    skipped: int
    """Finished before."""
    finished: int
    """Now."""
    failed: tuple[Attempt, ...]


def attempt(cell: Cell) -> Attempt:
    """Run one cell; what it raises is kept in the attempt."""
    try:
        return Attempt(cell, tuple(run_cell(cell)))
    except Exception as error:  # noqa: BLE001 - policies are plug-ins: whatever one raises, the other cells go on
        told = in_words(error)
        return Attempt(cell, error=told, traceback=traceback.format_exc())


def run_grid(
    grid: Grid,
    cells: Sequence[Cell],
    store: Store,
    *,
    jobs: int = 1,
    dask: str | None = None,
    on_attempt: Callable[[Attempt], None] = lambda _attempt: None,
) -> Ran:
    """Run what is not finished yet of these cells of a grid, and record each as it finishes.

    The store says what is finished. Cells run in `jobs` worker processes here (1: in this process), or on the dask
    scheduler at the address `dask`. `on_attempt` is called with each attempt after it is recorded.

    Raises:
        UsageError: an extra is missing, or the scheduler does not answer.
        WorkerDied: a worker process here died; on a cluster its cells go to another worker.
    """
    store.write_grid(grid)
    done = store.finished()
    pending = [cell for cell in cells if cell.id not in done]
    failed: list[Attempt] = []
    with closing(_here(pending, jobs) if dask is None else _on_cluster(dask, pending)) as attempts:
        for made in attempts:
            if made.error:
                store.write_failure(made.cell.id, made.traceback)
                failed.append(made)
            else:
                store.write(made.cell.id, made.rows)
            on_attempt(made)
    return Ran(len(cells), len(cells) - len(pending), len(pending) - len(failed), tuple(failed))


def _here(cells: Sequence[Cell], jobs: int) -> Generator[Attempt]:
    if jobs < 2 or len(cells) < 2:
        yield from map(attempt, cells)
        return
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


def _on_cluster(address: str, cells: Sequence[Cell]) -> Generator[Attempt]:
    """Run cells on a cluster.

    A cell whose worker died is started again on another one, also when it had finished and its table was lost with
    the worker; after too many deaths under one cell (the scheduler's `allowed-failures`) that cell has failed.

    Raises:
        UsageError: dask.distributed is not installed, or no scheduler answers at the address.
    """
    need("distributed", "dask")
    from distributed import Client, as_completed  # noqa: PLC0415 - heavy, and an extra

    try:
        connected = Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--dask: no scheduler answers at {address} ({error}); start one with `dask scheduler` and workers with "
            f"`dask worker {address} --nthreads 1`"
        ) from error
    with connected as client:
        futures = client.map(attempt, cells, pure=False, retries=RETRIES)
        of = dict(zip((f.key for f in futures), cells, strict=True))
        for future in as_completed(futures, loop=client.loop):
            # a table may be lost with its worker after the cell has finished: `result` then waits for it to be redone
            try:
                made: Attempt = future.result()
            except Exception as error:  # noqa: BLE001 - of the cluster, not ours: the cell is lost, the others go on
                told = f"{type(error).__name__}: {error}"
                made = Attempt(of[future.key], error=told, traceback=told)
            future.release()
            yield made
