"""Runs tests in processes forked from one that has collected them: `pytest -n COUNT`.

Importing the suite and making its tests takes seven seconds of processor. It is done once, not once per process. One
process runs all tests of a file, in their order.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

import pytest

from tests import forked

MORE = 3
"""Processes beside one for each processor: nearly half the time they wait, for other processes and for clocks."""
LOOKED_AFTER_S = 1.0
"""A process that has ended is noticed after this time, even if a process that it began keeps its connection open."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person say how many processes run tests."""
    group = parser.getgroup("general")
    group._addoption("-n", "--processes", default="auto", metavar="COUNT", help="processes that run tests; 0: this one")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in processes of their own, unless one process is enough or was asked for."""
    option = session.config.option
    groups: dict[str, list[int]] = {}
    for index, item in enumerate(session.items):
        groups.setdefault(item.nodeid.partition("::")[0], []).append(index)
    asked = (os.cpu_count() or 1) + MORE if option.processes == "auto" else int(option.processes)
    count = min(asked, len(groups))
    if count < 2 or session.testsfailed or option.collectonly or option.usepdb:
        return None
    if any(item.get_closest_marker(mark) for mark in ("slow", "system") for item in session.items):
        forked.begin()  # one for all of them
    Workers(session, groups.values()).run(count)
    return True


@dataclass
class Worker:
    """One process, and the tests it has been given and has not ended."""

    process: ForkProcess
    told: Connection
    due: list[int] = field(default_factory=list)


class Teller:
    """A plugin of a process that runs tests: hands on what pytest is told there."""

    def __init__(self, config: pytest.Config, told: Connection) -> None:
        self._config = config
        self._told = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hand on how a phase of a test ended."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._told.send(("report", data))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        """Hand on a warning, in words if its object stays here."""
        try:
            pickle.dumps(warning_message)
        except Exception:  # noqa: BLE001 - whatever an object of another's says to it
            warning_message.message, warning_message.category = UserWarning(str(warning_message)), UserWarning
            warning_message.source = None
        told = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        self._told.send(("warning", told))


class Workers:
    """Gives the tests of a file after those of another to processes, and tells this one's pytest how they ended."""

    def __init__(self, session: pytest.Session, groups: Sequence[list[int]]) -> None:
        self._session = session
        self._config = session.config
        self._left = deque(groups)
        self._workers: list[Worker] = []
        self._begun = 0
        self._base = self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        if reporter := self._config.pluginmanager.get_plugin("terminalreporter"):
            reporter.showfspath = False  # tests of several files end by turns

    def run(self, count: int) -> None:
        """Run the tests in so many processes at a time, until all have ended or enough have failed."""
        for _ in range(count):
            self._begin()
        try:
            while self._workers:
                connection.wait([worker.told for worker in self._workers], LOOKED_AFTER_S)
                for worker in list(self._workers):
                    self._hear(worker)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers:
                worker.told.close()  # ends it after its test
            for worker in self._workers:
                worker.process.join()

    def _begin(self) -> None:
        ours, theirs = connection.Pipe()
        name = f"w{self._begun}"
        process = get_context("fork").Process(target=self._work, name=name, args=(name, ours, theirs))
        process.start()
        theirs.close()
        self._begun += 1
        self._workers.append(Worker(process, ours))

    def _hear(self, worker: Worker) -> None:
        alive = worker.process.is_alive()  # asked first: what a process says before it ends is heard
        try:
            while worker.told.poll():
                kind, what = worker.told.recv()
                self._take(worker, kind, what)
        except (EOFError, OSError):
            worker.process.join()
            alive = False
        if not alive:
            self._bury(worker)

    def _take(self, worker: Worker, kind: str, what: Any) -> None:
        if kind == "ready":
            worker.due = self._left.popleft() if self._left else []
            worker.told.send(list(worker.due))
        elif kind == "ended":
            worker.due.remove(what)
        elif kind == "warning":
            self._config.hook.pytest_warning_recorded.call_historic(kwargs=what)
        else:
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=what)
            self._config.hook.pytest_runtest_logreport(report=report)

    def _bury(self, worker: Worker) -> None:
        """Count the test that a process died of as failed, and have another process run those it had left."""
        worker.told.close()
        self._workers.remove(worker)
        if worker.due:
            item = self._session.items[worker.due[0]]
            said = f"the process that ran this test ended with {worker.process.exitcode}"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
            self._config.hook.pytest_runtest_logreport(report=report)
            if worker.due[1:]:
                self._left.appendleft(worker.due[1:])
            self._begin()
        elif worker.process.exitcode:
            raise RuntimeError(f"{worker.process.name} ended with {worker.process.exitcode} after its tests")

    def _work(self, name: str, ours: Connection, told: Connection) -> None:
        """Be a process that runs tests."""
        for other in (ours, *(worker.told for worker in self._workers)):
            other.close()
        plugins = self._config.pluginmanager
        if capture := plugins.get_plugin("capturemanager"):  # into files that it shares with nobody
            capture.stop_global_capturing()
            capture.start_global_capturing()
        plugins.unregister(name="terminalreporter")
        plugins.register(Teller(self._config, told))
        place = self._base / name
        place.mkdir(mode=0o700)
        self._config._tmp_path_factory._basetemp = place  # type: ignore[attr-defined]
        try:
            while due := self._asked(told):
                for index, following in zip(due, [*due[1:], None], strict=True):
                    # after the last test of a file all but the fixtures of the session are torn down
                    after: Any = self._session if following is None else self._session.items[following]
                    self._config.hook.pytest_runtest_protocol(item=self._session.items[index], nextitem=after)
                    told.send(("ended", index))
        except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):  # nobody listens any more
            pass
        finally:
            self._session._setupstate.teardown_exact(None)
            forked.end()

    @staticmethod
    def _asked(told: Connection) -> list[int]:
        told.send(("ready", None))
        due: list[int] = told.recv()
        return due
