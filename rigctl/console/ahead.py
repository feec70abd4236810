"""Works the answer out after each trial, so that the first to ask finds it ready (`campaign.learned`)."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rigctl import system

REST: Final = 19.0
"""The pause before the next answer, in multiples of the time the last one took: it uses a twentieth of a processor."""
POLL_S: Final = 0.1


@contextmanager
def answering_ahead(directory: Path) -> Iterator[Callable[[], None]]:
    """Run a low-priority process that works the answer out; yields what to call when a trial has ended.

    The campaign waits for nothing of it, and does without where it cannot be.
    """
    news, over = threading.Event(), threading.Event()

    def work() -> None:
        while news.wait() and not over.is_set():
            news.clear()
            began_s = time.monotonic()
            with suppress(OSError), _asking(directory) as process:
                while process.poll() is None and not over.wait(POLL_S):
                    pass
                process.terminate()
            over.wait(REST * (time.monotonic() - began_s))

    thread = threading.Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        yield news.set
    finally:
        over.set()
        news.set()
        thread.join()


def _asking(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "rigctl", "recommend", "--state", str(directory)]
    process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=system.environment(),
        start_new_session=True,  # Ctrl-C is for the campaign
    )
    system.step_back(process.pid)
    return process
