"""Policies that are not to be trusted; they stand in a module, so that another process finds them."""

import ctypes
import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.fakes import TenLines

LIBC = ctypes.PyDLL(None)
"""Called through this, C code keeps the interpreter lock."""
NEVER_S = 600


@dataclass(frozen=True)
class Bad(TenLines):
    """As its kind says, from so many known trials on; before that it is as good as any."""

    kind: str = "raises"
    after: int = 0
    seconds: int = NEVER_S
    mark: str = ""
    """A file that is made right before the interpreter lock is kept."""

    def propose(self, state, problem, history, rng):
        if len(history) >= self.after:
            getattr(self, self.kind)()
        return super().propose(state, problem, history, rng)

    def raises(self):
        raise KeyError("somebody else's mistake")

    def holds(self):
        """Keep the interpreter lock."""
        if self.mark:
            Path(self.mark).touch()
        LIBC.sleep(self.seconds)

    def waits(self):
        threading.Event().wait(self.seconds)

    def leaves(self):
        os._exit(7)

    def quits(self):
        sys.exit("enough")

    def segfaults(self):
        ctypes.string_at(0)

    def forks(self):
        """Both come back and answer."""
        os.fork()

    def doubles(self):
        """From now on every answer is given twice."""
        main = sys.modules["__main__"]
        framed = main.framed
        main.framed = lambda *of: framed(*of) * 2

    def lags(self):
        """After the next answer, each is that to the question before."""
        main, sent = sys.modules["__main__"], []
        framed = main.framed

        def late(*of):
            sent.append(framed(*of))
            return sent[-2:][0]

        main.framed = late

    def babbles(self):
        """The next answer is of the right form, but for what stands in it."""
        main = sys.modules["__main__"]
        framed = main.framed
        main.framed = lambda *of: framed(*of)[:-4] + b"what"

    def prints(self):
        """More than a pipe takes, on both streams, and where an answer would go."""
        for stream in (sys.stdout, sys.stderr):
            stream.write("x" * 200_000)
        os.write(1, b"y" * 200_000)
        sys.stdin.read()


@dataclass(frozen=True)
class Homebound(TenLines):
    """Cannot be handed on."""

    lock: object = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class NotFound(TenLines):
    """Goes out, but does not arrive."""

    home: int = field(default_factory=os.getpid)

    def __setstate__(self, state):
        if os.getpid() != state["home"]:
            raise ImportError("no licence for this process")
        vars(self).update(state)
