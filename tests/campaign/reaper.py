"""Kills its own process at one of the instants at which that could make a difference."""

from __future__ import annotations

import os
import signal


class Reaper:
    """Counts instants, and kills the process at one of them: no cleaning up, no flushing, no last words."""

    def __init__(self, kill_at):
        self.kill_at = kill_at
        self.instants = 0

    def __call__(self, _what):
        self.instants += 1
        if self.instants == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, journal):
        """Just before each of the journal's transactions begins, and just before it is committed, are instants."""
        journal._connection.set_trace_callback(self._statement)
        return journal

    def _statement(self, sql):
        if sql.startswith(("BEGIN", "COMMIT")):
            self(sql)
