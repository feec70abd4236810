"""What a process leaves beside the journal: that it drives the rig, and that it began.

Starts that end badly, one after the other, are counted, then held (fault 31). No clock is asked what time it is: on a
board without one it may be any. A start counts from before its first command until its process has run for long enough,
or has ended in order; one that does either takes back what was counted. The file outlives a journal that is damaged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rigctl.campaign.desk import Desk
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.safe_file import NOBODY, of_rig, put, write
from rigctl.errors import JournalError, counted
from rigctl.logs import logger
from rigctl.rig.places import Seen
from rigctl.rig.spec import RigSpec, StartsSpec

FILE_NAME: Final = "starts.json"
VERSION: Final = 1


class Starts:
    """Counts this process's start, and says whether it must wait for a person; mutable, used in the event loop only."""

    def __init__(
        self, spec: StartsSpec | None, journal: JournalThread, desk: Desk, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._spec = spec
        self._journal = journal
        self._desk = desk
        self._now_s = now_s
        self._counts = False
        """Whether this start counts as a bad one, should the process die now."""
        self._before = 0
        self._since_s = 0.0
        self._held = False

    async def begin(self) -> str:
        """Count this start, on disk when this returns; return why it holds, empty if it does not.

        Raises:
            JournalUnwritable: it cannot be counted, so nothing may move.
        """
        if self._spec is None:
            return ""
        most = self._spec.at_most
        self._before = await self._journal.call(lambda j: bad(j.path.parent, most))
        self._counts, self._since_s = True, self._now_s()
        await self._journal.call(lambda j: _write(j.path.parent, self._before + 1))
        self._held = self._before >= most
        if not self._held:
            return ""
        why = f"{counted(self._before, 'start')} in a row ended badly"
        what = "everything is safe and no trial begins. Find the cause, then `rigctl resume`"
        self._desk.major("starts", f"{why}; {what}", kind="bad starts")
        return f"{why}; find the cause"

    def looked(self, paused: str) -> None:
        """Count this start no more once it has gone well; `paused` is empty once a person lets a held one go on."""
        if not self._counts or self._spec is None:
            return
        if self._held:
            if not paused:  # what died before is a person's to judge; this one has to show itself
                self._held, self._before, self._since_s = False, 0, self._now_s()
                self._keep(1)
        elif self._now_s() - self._since_s >= self._spec.good_after_s:
            self._counts = False
            self._keep(0)

    def end(self, *, well: bool) -> None:
        """Count it no more if it has ended in order; a held one leaves the count as it was."""
        if well and self._counts:
            self._keep(self._before)
        self._counts = False

    def _keep(self, number: int) -> None:
        self._desk.keep("starts", lambda j: _write(j.path.parent, number))


def bad(directory: Path, unknown: int) -> int:
    """Return how many starts in a row have ended badly; `unknown` where the file is there but cannot be read."""
    try:
        content = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
        return max(0, int(content["bad"]))
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError, KeyError, TypeError):
        return unknown


def _write(directory: Path, number: int) -> None:
    put(directory / FILE_NAME, {"version": VERSION, "bad": number})


class Word:
    """A running campaign's word of what it may drive; mutable."""

    def __init__(self, spec: RigSpec, journal: JournalThread) -> None:
        self._spec = spec
        self._journal = journal
        self._left = False
        self._seen = NOBODY

    async def leave(self, seen: Mapping[str, Seen]) -> None:
        """Leave word, with who stands where, before the first command; when this returns, it is on disk.

        Raises:
            JournalUnwritable: it cannot be, so nothing may move.
        """
        self._seen = seen
        await self._write(driven=True)
        self._left = True

    async def take_back(self) -> None:
        """Take it back once everything is confirmed safe; harmless if there is nothing to take back."""
        if not self._left:
            return
        try:
            await self._write(driven=False)
        except JournalError as error:  # the next start goes safe once more, which does no harm
            logger("rigctl.campaign").warning("safe.json still says driven", error=str(error))

    async def _write(self, *, driven: bool) -> None:
        content = of_rig(self._spec, self._seen, driven=driven)
        await self._journal.call(lambda j: write(j.path.parent, content))
