"""Workers of pytest-xdist, forked from the process that has loaded all tests once for all of them.

Each worker would take six seconds of processor to load the same modules. One that is forked is a worker like any other:
it collects the tests, and shares nothing with the rest but what was loaded.
"""

from __future__ import annotations

import atexit
import gc
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from _pytest.pathlib import import_path

from tests import forked

BOOT = "import sys;exec(eval(sys.stdin.readline()))"
"""What execnet has an interpreter do first."""
ROOM = 1 << 20
"""Words of stack for all frames of a worker. Of Python's chunks of 16 KiB one is mapped and freed again with each call
that crosses its end: where a parser does so, it takes twice the time."""


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Load what the workers will collect, then have them forked from here."""
    with without_searching_for_garbage(), config._catch_configured_warnings(record=False):
        for place in config.args:
            path = config.invocation_params.dir / place.partition("::")[0]
            for file in [*path.rglob("conftest.py"), *path.rglob("test_*.py")] if path.is_dir() else [path]:
                _load(file, config)
            if path.is_dir():
                from rigctl.config.load import load

                load(forked.ROOT / "config/greenhouse.yaml")  # knows all units from now on
    forked.begin()
    begin = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def execute(popen: Any, args: Sequence[str], *rest: Any) -> None:
        if args[-1] == BOOT:
            _fork(popen, rest[9:15])
        else:
            begin(popen, args, *rest)

    subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]
    config.add_cleanup(lambda: setattr(subprocess.Popen, "_execute_child", begin))


@contextmanager
def without_searching_for_garbage() -> Iterator[None]:
    """Search for no garbage while modules load, and never again in what they loaded: all of it stays."""
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(20_000)  # the usual 700 makes some tests four times as dear: most of what is searched is alive
    gc.enable()


def _load(file: Path, config: pytest.Config) -> None:
    """Import a file of tests; one that cannot be imported is left to the workers, who say why."""
    before = set(sys.modules)
    try:
        import_path(file, mode="importlib", root=config.rootpath, consider_namespace_packages=False)
    except (Exception, pytest.skip.Exception):  # noqa: BLE001 - whatever it is
        for name in sys.modules.keys() - before:
            if name.startswith("tests."):
                del sys.modules[name]


def _fork(popen: Any, streams: Sequence[int]) -> None:
    """Begin a worker; `streams` are the pipes that `Popen` made for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads: those that read from other workers hold nothing
        popen.pid = os.fork()
    if not popen.pid:
        with suppress(BaseException):
            roomy = FunctionType(_become_worker.__code__.replace(co_stacksize=ROOM), globals())
            roomy(streams[0], streams[3])
        os._exit(1)
    popen._child_created = True
    popen._close_pipe_fds(*streams)


def _become_worker(stdin: int, stdout: int) -> None:
    """Serve as an interpreter would that was started for it, and end without the controller's end."""
    try:
        atexit._clear()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - while the process lives
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as well
        exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # noqa: S102, S307 - it is BOOT
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        raise
    os._exit(0)
