"""Gathers what the page shows, once for all readers, in a thread beside the server's loop.

No data are collected while there is no viewer. A look costs what has changed since the last one; the next one follows
after at least nine times as long, so that however large the journal, the page takes at most a tenth of a processor.
What needs the model is worked out by a process of its own, and shown when it is there.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from rigctl import system
from rigctl.campaign.journal.reader import Stamp, at_one_instant, file_number, stamp
from rigctl.campaign.lock import campaign_here
from rigctl.campaign.status import Status, answered
from rigctl.errors import RigctlError, UsageError
from rigctl.logs import logger
from rigctl.page.campaign import Configured, configured
from rigctl.page.facts import gather
from rigctl.page.render import page, sections
from rigctl.page.shown import Facts, Study
from rigctl.threads import keep_to_one_thread

PERIOD_S = 1.0
"""Wall seconds between two looks at least."""
SHARE = 9.0
"""Times as long as a look took, before the next."""
STILL_S = 5.0
"""Without any news the page is gathered anew after so long: it says how long things have been so."""
STATUS_S = 2.0
"""For the campaign to say how it is; one that hangs is shown as such."""
SECRET = f"secret{secrets.token_hex(16)}"
"""Stands in the sections for those who may act, until it is known who reads them; nobody outside can write it."""


class Scholar(Protocol):
    """Works out what needs the model."""

    def studies(self) -> AsyncIterator[Study]:
        """Yield it once there is something to show, and again with what takes longer; nothing if it cannot be had."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """Holds what is shown now."""

    version: int
    facts: Facts | None = None
    """None: there is nothing to be shown yet; `trouble` says why."""
    study: Study | None = None
    trouble: str = ""
    file: int = 0
    """Which file the journal is."""
    for_readers: Mapping[str, str] = field(default_factory=dict)
    for_actors: Mapping[str, str] = field(default_factory=dict)
    """Sections by name, as HTML; those for actors with `SECRET` in them."""
    since: Mapping[str, int] = field(default_factory=dict)
    """By section, the version it has last changed with."""

    def newer_than(self, version: int, *, acting: bool) -> Mapping[str, str]:
        """Return the sections that have changed since a version."""
        sections = self.for_actors if acting else self.for_readers
        return {name: html for name, html in sections.items() if self.since[name] > version}


@dataclass(slots=True)
class Gatherer:
    """Keeps what is shown up to date while somebody looks; mutable, used in the event loop only."""

    directory: Path
    scholar: Scholar | None
    """None: what needs the model is not asked for."""
    clock: Callable[[], float] = time.monotonic
    gather: Callable[..., Facts] = gather
    sections: Callable[..., Mapping[str, str]] = sections
    shown: Shown = field(default_factory=lambda: Shown(0, trouble="Nothing was looked at yet."))
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is something new to be shown; a new one takes its place."""
    _configured: Configured = field(default_factory=Configured)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="gatherer"))
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    readers: int = 0
    """Those who follow what changes."""
    _watched: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: tuple[Stamp, Status | None] | None = None
    _seen_s: float = float("-inf")
    _took_s: float = 0.0
    _studying: asyncio.Task[None] | None = None
    _studied: tuple[int, int, int] | None = None
    """Journal, trials over and corrections of them that the model was last looked into for."""
    _corrected: int = 0
    _rested_until_s: float = 0.0

    # for readers -----------------------------------------------------------------------------------------------------

    async def fresh(self) -> Shown:
        """Return what is to be shown, gathered a moment ago at most; all who ask at a time share one look."""
        async with self._lock:
            if self.clock() - self._seen_s > max(PERIOD_S, SHARE * self._took_s):
                await self._gather()
        return self.shown

    def begin_reading(self) -> None:
        self.readers += 1
        self._watched.set()

    def end_reading(self) -> None:
        self.readers -= 1
        if self.readers == 0:
            self._watched.clear()

    async def run(self) -> None:
        """Look while somebody reads, until cancelled."""
        while True:
            await self._watched.wait()
            async with self._lock:
                await self._gather()
            await asyncio.sleep(max(PERIOD_S, SHARE * self._took_s))

    async def close(self) -> None:
        if self._studying is not None:
            self._studying.cancel()
            with suppress(asyncio.CancelledError):
                await self._studying
        if self.scholar is not None:
            await self.scholar.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # looking ---------------------------------------------------------------------------------------------------------

    async def _gather(self) -> None:
        status = await asyncio.to_thread(answered, self.directory, STATUS_S)
        seen = stamp(self.directory), status
        if seen == self._seen and self.clock() - self._seen_s < STILL_S and self.shown.facts is not None:
            return
        began_s = self.clock()
        shown = await asyncio.get_running_loop().run_in_executor(self._thread, self._made, seen, self.shown)
        self._took_s, self._seen_s, self._seen = self.clock() - began_s, self.clock(), seen
        self._show(shown)
        self._study_if_due()

    def _made(self, seen: tuple[Stamp, Status | None], before: Shown) -> Shown:
        """Return what is to be shown now; in the gatherer's thread."""
        file, status = file_number(seen[0]), seen[1]
        same = before if before.file == file else Shown(before.version)
        try:
            return self._rendered(self._facts(status, same.facts), same.study, same, file)
        except UsageError as error:
            return Shown(before.version, trouble=str(error), file=file)
        except RigctlError as error:
            logger("rigctl.page").warning("the journal cannot be shown", error=str(error))
            return Shown(before.version, trouble=str(error), file=file)
        except Exception as error:  # noqa: BLE001 - a mistake of ours, or a plug-in's; the next look may do better
            logger("rigctl.page").error("the journal cannot be shown", exc_info=True)
            trouble = f"This cannot be shown ({type(error).__name__}: {error}). The campaign is not affected."
            return Shown(before.version, trouble=trouble, file=file)

    def _facts(self, status: Status | None, before: Facts | None, log_of: int | None = None) -> Facts:
        with at_one_instant(self.directory) as reader:
            loaded = self._configured.of(reader.campaign(), self.directory)
            self._corrected = reader.people.last_correction()
            alive = campaign_here(self.directory) is not None
            now = datetime.now(UTC)
            return self.gather(reader, loaded, status, now, before=before, log_of=log_of, alive=alive)

    async def page_of(self, trial: int, *, acting: bool) -> str:
        """Return the page with the log of one trial; raises RigctlError if the journal cannot be read."""

        def made() -> str:
            shown, status = self.shown, None if self._seen is None else self._seen[1]
            facts = self._facts(status, shown.facts, trial)
            return page(facts, shown.study, acting=SECRET if acting else None)

        return await asyncio.get_running_loop().run_in_executor(self._thread, made)

    def _rendered(self, facts: Facts, study: Study | None, before: Shown, file: int) -> Shown:
        readers = self.sections(facts, study, acting=None)
        actors = self.sections(facts, study, acting=SECRET)
        version = before.version + 1
        since = {
            name: before.since[name]
            if before.for_actors.get(name) == html and before.for_readers.get(name) == readers.get(name)
            else version
            for name, html in actors.items()
        }
        return Shown(version, facts, study, "", file, {n: readers.get(n, "") for n in actors}, actors, since)

    def _show(self, shown: Shown) -> None:
        self.shown = shown
        news, self.news = self.news, asyncio.Event()
        news.set()

    # studying --------------------------------------------------------------------------------------------------------

    def _study_if_due(self) -> None:
        """Have the model looked into once per trial, at most every other second of a processor."""
        shown = self.shown
        if self.scholar is None or shown.facts is None or (self._studying is not None and not self._studying.done()):
            return
        state = shown.file, shown.facts.charged, self._corrected
        if state == self._studied or self.clock() < self._rested_until_s:
            return
        self._studied = state
        self._studying = asyncio.create_task(self._study(self.scholar, shown.file), name="study")

    async def _study(self, scholar: Scholar, file: int) -> None:
        began_s = self.clock()
        async for study in scholar.studies():
            await self._show_study(study, file)
        self._rested_until_s = self.clock() + (self.clock() - began_s)

    async def _show_study(self, study: Study, file: int) -> None:
        async with self._lock:
            shown = self.shown
            if shown.facts is None or shown.file != file:
                return
            loop = asyncio.get_running_loop()
            try:
                self._show(await loop.run_in_executor(self._thread, self._rendered, shown.facts, study, shown, file))
            except Exception:  # noqa: BLE001 - the page goes on with what it showed before
                logger("rigctl.page").error("the model's answer cannot be shown", exc_info=True)


# What needs the model, in a process of its own ------------------------------------------------------------------------
# It reads the journal by itself, so that nothing but the answer passes between them. It gives way to everything else on
# the machine, and ends with the server.


class ProcessScholar:
    """Starts the process when it is first asked; one that has ended is replaced the next time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pool: ProcessPoolExecutor | None = None
        self._last: Study | None = None

    async def studies(self) -> AsyncIterator[Study]:
        """Yield what the model says now, then that with what would change the choice; or why it says nothing."""
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_settle)
        loop, pool, found = asyncio.get_running_loop(), self._pool, None
        try:
            found = await loop.run_in_executor(pool, studied_now, self._directory)
            yield _with_flips_before(found, self._last)
            self._last = found
            if found.decision:
                self._last = await loop.run_in_executor(pool, flipped_now, self._directory, found)
                yield self._last
        except (RigctlError, BrokenProcessPool) as error:
            log, why = logger("rigctl.page"), str(error)
            log.warning("the model's answer is not shown", error=why)
        except Exception as error:  # noqa: BLE001 - a plug-in's mistake; the rest of the page is shown without it
            logger("rigctl.page").warning("the model's answer is not shown", exc_info=True)
            why = f"{type(error).__name__}: {error}"
        else:
            return
        await self.close()
        if found is None:
            yield Study(0, 0, None, trouble=why)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):  # noqa: SLF001 - it may be in the middle of a study
                process.terminate()
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def _with_flips_before(found: Study, last: Study | None) -> Study:
    """Return a study whose flips are not known yet with those of an earlier choice, until they are."""
    if last is None or last.flips is None or last.trials > found.trials:
        return found
    return replace(found, flips=last.flips, flips_of=last.flips_of)


def studied_now(directory: Path) -> Study:
    """Return what the model says of the journal in this directory; in the process of its own."""
    from rigctl.campaign.learned import remembering  # noqa: PLC0415 - NumPy, in this process only
    from rigctl.page.study import past, study_of  # noqa: PLC0415 - SciPy, in this process only

    with at_one_instant(directory) as reader:  # and no longer than it takes to read
        loaded = configured(reader.campaign(), directory)
        history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
        state, known = reader.policy_state() or {}, past(reader, loaded)
    with remembering(directory, history):
        return study_of(loaded, history, state, known)


def flipped_now(directory: Path, found: Study) -> Study:
    """Return a study with what would have changed the last choice; in the process of its own."""
    from rigctl.page.study import past, with_flips  # noqa: PLC0415 - as above

    with at_one_instant(directory) as reader:
        loaded = configured(reader.campaign(), directory)
        known = past(reader, loaded)
    return with_flips(found, loaded, known)


def _settle() -> None:
    keep_to_one_thread()
    system.step_back(0)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
