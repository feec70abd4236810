"""Runs tests in several processes, forked once all tests are collected: modules load once, not once for each process.

Each process takes a file at a time, so that the tests of a file share what its fixtures made.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

from tests import forked

FORK = multiprocessing.get_context("fork")
MOST = 4
"""Processes that are started unless a number is given: more need more memory than they save time."""
File = Sequence[int]
"""Places of a file's tests among all that are collected."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `-n`."""
    parser.getgroup("general")._addoption(
        "-n", dest="processes", type=int, help="processes to run tests in; 0 runs them in this one"
    )


def processes(config: pytest.Config) -> int:
    """Return how many are asked for.

    By default there is one more than processors: for a third of its time a test waits.
    """
    if config.option.usepdb:
        return 0
    asked: int | None = config.option.processes
    return min(MOST, (os.cpu_count() or 1) + 1) if asked is None else asked


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Give out all files to processes, and report what these tell."""
    files: dict[Path, list[int]] = {}
    for n, item in enumerate(session.items):
        files.setdefault(item.path, []).append(n)
    number = min(processes(session.config), len(files))
    if number < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    forked.parent()  # of what all of them start
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if terminal:
        terminal.showfspath = False  # files take turns
    _Office(session, list(files.values())).run(number)
    return True


@dataclass
class _Worker:
    process: multiprocessing.process.BaseProcess
    way: Connection
    file: File = ()
    """What it has not yet begun, and before these the test that runs."""


class _Office:
    """Gives out files; a process that dies in a test is replaced, and the test has failed."""

    def __init__(self, session: pytest.Session, files: list[File]) -> None:
        self._session = session
        self._files = files[::-1]
        self._base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._names = itertools.count()
        self._at_work: dict[Any, _Worker] = {}

    def run(self, number: int) -> None:
        try:
            for _ in range(number):
                self._start(self._files.pop())
            while self._at_work:
                for way in wait(list(self._at_work)):
                    self._hear(self._at_work[way])
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for way in self._at_work:
                way.close()  # whoever runs a test ends after it
            for worker in self._at_work.values():
                worker.process.join()

    def _start(self, file: File) -> None:
        ours, theirs = FORK.Pipe()
        base = self._base / f"w{next(self._names)}"
        base.mkdir()
        not_theirs = [ours, *self._at_work]
        process = FORK.Process(target=_work, args=(self._session, theirs, not_theirs, base))
        process.start()
        theirs.close()
        self._at_work[ours] = _Worker(process, ours)
        self._give(self._at_work[ours], file)

    def _give(self, worker: _Worker, file: File) -> None:
        worker.file = file
        worker.way.send(file)

    def _hear(self, worker: _Worker) -> None:
        hook = self._session.config.hook
        report = _heard(worker.way)
        if report is EOFError:
            self._bury(worker)
        elif isinstance(report, int):
            worker.file = worker.file[worker.file.index(report) :]
            item = self._session.items[report]
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        elif report:
            made = hook.pytest_report_from_serializable(config=self._session.config, data=report)
            hook.pytest_runtest_logreport(report=made)
            if made.when == "teardown":
                hook.pytest_runtest_logfinish(nodeid=made.nodeid, location=made.location)
        elif self._files:
            self._give(worker, self._files.pop())
        else:
            self._give(worker, ())
            worker.process.join()
            del self._at_work[worker.way]

    def _bury(self, worker: _Worker) -> None:
        worker.process.join()
        del self._at_work[worker.way]
        item = self._session.items[worker.file[0]]
        why = f"the process that ran this test ended with {worker.process.exitcode}"
        self._session.config.hook.pytest_runtest_logreport(
            report=pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        )
        rest = worker.file[1:] or (self._files.pop() if self._files else ())
        if rest:
            self._start(rest)


def _heard(way: Connection) -> Any:
    """Return what a process says next, or `EOFError` if it has died."""
    try:
        return way.recv()
    except EOFError as died:
        return type(died)


def _work(session: pytest.Session, way: Connection, not_ours: Sequence[Connection], base: Path) -> None:
    """Run what is given, until nothing is."""
    for other in not_ours:
        other.close()
    config = session.config
    config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()  # into files shared with all other processes
    capture.start_global_capturing()
    config.pluginmanager.register(_Reporter(config, way))
    try:
        for file in iter(way.recv, ()):
            for n, following in itertools.pairwise((*file, None)):
                way.send(n)
                item, after = session.items[n], None if following is None else session.items[following]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            way.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # nobody wants to know any more
    finally:
        session._setupstate.teardown_exact(None)  # type: ignore[attr-defined]
        capture.stop_global_capturing()


class _Reporter:
    def __init__(self, config: pytest.Config, way: Connection) -> None:
        self._config = config
        self._way = way

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._way.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))
