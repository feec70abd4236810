"""The same cells on a dask.distributed cluster (an extra: `pip install 'rigctl[dask]'`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from rigctl.bench.running.outcome import Outcome
from rigctl.bench.running.store import need
from rigctl.errors import UsageError

if TYPE_CHECKING:
    from distributed import Client

    from rigctl.bench.cell import Cell

CONNECT_TIMEOUT_S = 15


def outcomes_of_cluster(
    address: str, attempt: Callable[[Cell], Outcome], cells: Sequence[Cell], retries: int
) -> Generator[Outcome]:
    """Outcomes as they come, in any order.

    A cell whose worker died is started again on another one, also when it had finished and its table was lost with
    the worker; after too many deaths under one cell (the scheduler's `allowed-failures`) that cell has failed.

    Raises:
        UsageError: dask.distributed is not installed, or no scheduler answers at the address.
    """
    need("distributed", "dask")
    from distributed import as_completed  # noqa: PLC0415 - heavy, and an extra

    with _connected(address) as client:
        futures = client.map(attempt, cells, pure=False, retries=retries)
        of = dict(zip((f.key for f in futures), cells, strict=True))
        for future in as_completed(futures, loop=client.loop):  # type: ignore[no-untyped-call]
            # a table may be lost with its worker after the cell has finished: `result` then waits for it to be redone
            try:
                outcome: Outcome = future.result()
            except Exception as error:  # noqa: BLE001 - of the cluster, not ours: the cell is lost, the others go on
                outcome = _lost(of[future.key], error)
            future.release()
            yield outcome


def _connected(address: str) -> Client:
    from distributed import Client  # noqa: PLC0415 - heavy, and an extra

    try:
        return Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--dask: no scheduler answers at {address} ({error}); start one with `dask scheduler` and workers with "
            f"`dask worker {address} --nthreads 1`"
        ) from error


def _lost(cell: Cell, error: Exception) -> Outcome:
    told = f"{type(error).__name__}: {error}"
    return Outcome(cell, error=told, traceback=told)
