"""What advice learned of a journal's trials, and said, kept beside the journal. Whoever asks again waits for neither.

Working out a rule takes seconds. The file may be deleted at any time, and never counts over the journal: it names what
it was worked out of, to the bit, and the code that did. Where either is another, or anything is wrong with the file, it
is as if there were none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rigctl.codec import plain, typed
from rigctl.core.advice.recommend import GIVEN, GivenAdvice
from rigctl.core.experiment.history import History
from rigctl.core.gp.model import LEARNED, Learning
from rigctl.errors import RigctlError
from rigctl.files import own, whole
from rigctl.provenance import digest, libraries

FILE_NAME: Final = "learned.json"
KEPT: Final[Mapping[str, type]] = {LEARNED: Learning, GIVEN: GivenAdvice}


@contextmanager
def remembering(directory: Path | None, history: History) -> Iterator[None]:
    """Let advice asked for meanwhile find what was learned of this history; keep in the directory what it learns."""
    before = {} if directory is None else _read(directory / FILE_NAME)
    for key, value in before.items():
        history.memo.keep(key, value)
    yield
    now = {key: value for key in KEPT for value in [history.memo.get(key)] if value is not None}
    if directory is not None and now and now != before:
        text = _sealed(plain(now))
        with suppress(OSError), whole(directory / FILE_NAME, private=True) as new:  # it can be done without
            new.write_text(text, encoding="utf-8")


def _read(path: Path) -> Mapping[str, Any]:
    with suppress(OSError, RigctlError, ValueError, KeyError, TypeError, AttributeError):
        text = own(path)
        stored = json.loads(text)["found"]
        if _sealed(stored) == text:
            return {key: typed(kind, stored[key]) for key, kind in KEPT.items() if key in stored}
    return {}


def _sealed(found: Mapping[str, Any]) -> str:
    """Return the file's text: what was found, by what code, and a checksum of both."""
    told = {"found": found, "code": {"core": digest(("core",)), **libraries()}}
    checksum = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return json.dumps({**told, "sha256": checksum}, indent=1)
