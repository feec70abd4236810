"""Whether a process that left its name still lives: by its number, when it started, and the machine's boot."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rigctl.campaign.clock import boot_id

UNKNOWN = ""
"""The system does not say when a process started."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Names a process so that later ones with the same number can be told from it."""

    pid: int
    started: str
    """Clock ticks since boot at its start."""
    boot: str

    @classmethod
    def this_process(cls) -> Self:
        """Return our own process."""
        return cls(os.getpid(), _started(os.getpid()), boot_id())

    @property
    def alive(self) -> bool:
        """Tell whether it still runs; one that has ended and was not waited for does not."""
        return self.boot == boot_id() and self.started != UNKNOWN and self.started == _started(self.pid)

    @property
    def is_this_process(self) -> bool:
        """Tell whether it is us."""
        return self.pid == os.getpid() and self.alive


def _started(pid: int) -> str:
    """Say when a process started, and nothing of one that has ended; see proc(5), fields 3 and 22 of `stat`."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return UNKNOWN
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return UNKNOWN if state in ("Z", "X") else fields[18]
