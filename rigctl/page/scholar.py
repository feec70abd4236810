"""Has what needs the model worked out by a process of its own, which takes seconds and may take what it likes.

It reads the journal by itself, so that nothing but the answer passes between them. It gives way to everything else on
the machine, and ends with the server.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import structlog

from rigctl.campaign.deciding import keep_to_one_thread
from rigctl.campaign.journal.look import looking
from rigctl.errors import RigctlError
from rigctl.page.campaign import configured

POLITE = 15
"""How far it steps back behind other processes; see nice(2)."""


class ProcessScholar:
    """Starts the process when it is first asked; one that has ended is replaced the next time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pool: ProcessPoolExecutor | None = None

    async def studies(self) -> AsyncIterator[Any]:
        """Yield what the model says now, then that with what would change the choice; what cannot be had is logged."""
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_settle)
        loop, pool = asyncio.get_running_loop(), self._pool
        try:
            found = await loop.run_in_executor(pool, study, self._directory)
            yield found
            if found.decision:
                yield await loop.run_in_executor(pool, flips, self._directory, found)
        except (RigctlError, BrokenProcessPool) as error:
            log = structlog.get_logger("rigctl.page")
            log.warning("what the model says is not shown", error=f"{type(error).__name__}: {error}")
        except Exception:  # noqa: BLE001 - a plug-in's mistake; the rest of the page is shown without it
            structlog.get_logger("rigctl.page").warning("what the model says is not shown", exc_info=True)
        else:
            return
        await self.close()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):  # noqa: SLF001 - it may be in the middle of a study
                process.terminate()
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def study(directory: Path) -> Any:
    """Return what the model says of the journal in this directory; in the process of its own."""
    from rigctl.page.study import past, study_of  # noqa: PLC0415 - scikit-learn and SciPy, in this process only

    with looking(directory) as reader:  # and no longer than it takes to read
        loaded = configured(reader.campaign(), directory)
        history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
        state, known = reader.policy_state() or {}, past(reader, loaded)
    return study_of(loaded, history, state, known)


def flips(directory: Path, found: Any) -> Any:
    """Return a study with what would have changed the last choice; in the process of its own."""
    from rigctl.page.study import past, with_flips  # noqa: PLC0415 - as above

    with looking(directory) as reader:
        loaded = configured(reader.campaign(), directory)
        known = past(reader, loaded)
    return with_flips(found, loaded, known)


def _settle() -> None:
    keep_to_one_thread()
    os.nice(POLITE)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
