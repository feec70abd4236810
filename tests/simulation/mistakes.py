"""Python's own errors, and coroutines that nobody awaited: mistakes of the program, whoever takes them in.

The program takes in whatever a plug-in raises, so that the rig goes on, and makes words of it. Here every driver and
policy is the program's own, so none of them may raise what only a mistake raises.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from rigctl import errors
from rigctl.rig import handle

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

MISTAKES: Final = (TypeError, AttributeError, NameError, LookupError, AssertionError, ArithmeticError, ValueError)
"""What an instrument sends, or a disk does, raises none of them unhandled; text that is no UTF-8 may come of a disk."""
OURS: Final = "rigctl"


class Mistakes:
    """Looks at every error that is put into words, and at what a device is asked about itself."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for original, around in ((errors.in_words, self._worded), (handle.said, self._answered)):
                name, replaced = original.__name__, around(original)
                for module in [m for n, m in sys.modules.items() if n.partition(".")[0] == OURS]:
                    if vars(module).get(name) is original:
                        stack.enter_context(patch.object(module, name, replaced))
            unawaited = warnings._warn_unawaited_coroutine  # type: ignore[attr-defined]
            stack.enter_context(patch.object(warnings, "_warn_unawaited_coroutine", self._unawaited(unawaited)))
            yield

    def judge(self, error: BaseException) -> None:
        """Hold an error against what may come of instruments, disks and people."""
        if isinstance(error, MISTAKES) and not isinstance(error, (errors.RigctlError, UnicodeError)):
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            at = "" if where is None else f", raised in {where.tb_frame.f_code.co_qualname}"
            self._witness.fail(f"a mistake of the program was taken in: {type(error).__name__}: {error}{at}")

    def _worded(self, really: Callable[[BaseException], str]) -> Callable[[BaseException], str]:
        def in_words(error: BaseException) -> str:
            self.judge(error)
            return really(error)

        return in_words

    def _answered(self, really: Callable[..., Any]) -> Callable[..., Any]:
        def said(question: Callable[[], Any], otherwise: Any) -> Any:
            def asked() -> Any:
                try:
                    return question()
                except Exception as error:
                    self.judge(error)
                    raise

            return really(asked, otherwise)

        return said

    def _unawaited(self, really: Callable[[Any], None]) -> Callable[[Any], None]:
        def warn(coroutine: Any) -> None:
            running = self._witness.controller.running
            if coroutine.__qualname__ and coroutine.cr_code.co_filename.rpartition(f"/{OURS}/")[1] and running:
                if not running.life.dead:  # one that was killed awaits nothing any more
                    self._witness.fail(f"nobody has awaited {coroutine.__qualname__}")
                return
            really(coroutine)

        return warn
