"""Kills its own process at one of the instants at which that could make a difference."""

import gc
import os
import signal
import traceback


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


def one_life(live, kill_at):
    """A process that calls `live(reaper)` and is killed at an instant; how it ended, and how many instants it had."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        gc.freeze()  # all that the tests have made would be searched, and copied by that
        reaper, status = Reaper(kill_at), 1
        try:
            live(reaper)
            os.write(into, str(reaper.instants).encode())
            status = 0
        except BaseException:  # noqa: BLE001 - the child must not return into pytest
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out, "rb") as answer:
        instants = int(answer.read() or b"0")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), instants
