"""The process that decides: `python -m rigctl.campaign.deciding PARENT`, started by `campaign.decider`.

Frames, each a number, a length and a pickle, come in on standard input; a frame of the same number on standard output
answers each. The first says which policy and problem the others will be about. A later one has the trials that are new
since the one before it, so that the history kept here, and what its memo saves, goes on growing.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rigctl import system
from rigctl.threads import keep_to_one_thread

if TYPE_CHECKING:
    from rigctl.core.experiment.history import History, Observation


HEAD = struct.Struct("!QQ")
"""Before each frame: the number of the question, and how many bytes follow."""
PR_SET_PDEATHSIG = 1


def framed(number: int, value: object) -> bytes:
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return HEAD.pack(number, len(body)) + body


def main() -> None:
    # Before anything is imported that takes time. Whoever tells rigctl to end tells all its processes; when this one
    # ends is its parent's to say.
    for number in system.end_signals():
        signal.signal(number, signal.SIG_IGN)
    _end_with(parent=int(sys.argv[1]))
    keep_to_one_thread()
    system.dump_no_core()
    faulthandler.enable(all_threads=False)  # a crash, and the parent's SIGABRT, say where
    questions, answers = _private_pipes()
    serve(questions, answers)
    os._exit(0)  # without waiting for threads that a policy has left behind


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer one frame after the other, until there are no more. A child that a policy has forked answers nothing."""
    respondent, this = _Respondent(), os.getpid()
    while head := questions.read(HEAD.size):
        number, size = HEAD.unpack(head)
        frame = pickle.loads(questions.read(size))  # noqa: S301 - from our own parent
        answer = respondent.prepare(frame) if isinstance(frame, bytes) else respondent.decide(*frame)
        if os.getpid() != this:
            os._exit(0)  # nor may it read the questions that follow
        answers.write(framed(number, answer))
        answers.flush()


class _Respondent:
    def __init__(self) -> None:
        self._subject: tuple[Any, Any] | None = None
        self._history: History | None = None

    def prepare(self, subject: bytes) -> str | None:
        """Load policy and problem, and what they will need; return what is wrong with them, if anything is."""
        try:
            self._subject = pickle.loads(subject)  # noqa: S301 - from our own parent
        except Exception as error:  # noqa: BLE001 - loading a plug-in may raise anything
            return f"{type(error).__name__}: {error}"
        import rigctl.campaign.decide  # noqa: PLC0415 - so that the first question need not wait for it

        if self._subject[1].model.hyperparameters == "learned":
            import rigctl.core.gp.learning  # noqa: F401, PLC0415 - nor the first fit
        return None

    def decide(
        self, asked: Mapping[str, Any], now: Mapping[str, Any], further: tuple[int, tuple[Observation, ...]]
    ) -> object:
        from rigctl.campaign.decide import Question, decide  # noqa: PLC0415
        from rigctl.core.experiment.history import History  # noqa: PLC0415
        from rigctl.core.experiment.policy import BudgetSpent, Finished  # noqa: PLC0415
        from rigctl.errors import PolicyError  # noqa: PLC0415

        known, fresh = further
        if self._subject is None or known not in (0, len(self._history or ())):
            raise AssertionError(f"unreachable: asked about {known} trials before being told of them")
        if known == 0 or self._history is None:
            self._history = History.of(fresh)
        else:
            for observation in fresh:
                self._history = self._history.append(observation)
        policy, problem = self._subject
        try:
            return decide(Question(policy, replace(problem, **now), history=self._history, **asked))
        except PolicyError as error:
            return PolicyError(str(error))
        except Finished as finished:  # a plug-in's own kind of it might not survive the way back
            return (BudgetSpent if isinstance(finished, BudgetSpent) else Finished)(str(finished))


def _end_with(parent: int) -> None:
    """End this process however its parent ends, even in the middle of a decision that never returns."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked to tell
        os._exit(0)
    with suppress(OSError):  # not everywhere to be had
        # out of memory, the kernel ends this process rather than the one that holds the rig
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes of frames out of a plug-in's reach: what it prints goes to standard error."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return questions, answers


if __name__ == "__main__":
    main()
