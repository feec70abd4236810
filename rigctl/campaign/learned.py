"""What advice learned of a journal's trials, kept beside the journal. Whoever asks again need not learn it anew.

Learning takes a second and 100 MB, nearly all of it to load scikit-learn. The file may be deleted at any time, and
never counts over the journal: it names what it was learned of, to the bit, and the code that did. Where either is
another, or anything is wrong with the file, it is as if there were none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rigctl.core.experiment.history import History
from rigctl.core.gp.model import LEARNED, Learning
from rigctl.errors import RigctlError
from rigctl.files import own, whole
from rigctl.provenance import digest, libraries

FILE_NAME: Final = "learned.json"


@contextmanager
def remembering(directory: Path | None, history: History) -> Iterator[None]:
    """Let who is asked for advice meanwhile find what was learned of this history, and keep what is.

    Args:
        directory: the journal's; None: it has none.
        history: as the journal has it.
    """
    before = None if directory is None else _read(directory / FILE_NAME)
    if before is not None:
        history.memo.keep(LEARNED, before)
    yield
    now: Learning | None = history.memo.get(LEARNED)
    if directory is not None and now is not None and now != before:
        text = _sealed(now.to_json())
        with suppress(OSError), whole(directory / FILE_NAME, private=True) as new:  # it can be done without
            new.write_text(text, encoding="utf-8")


def _read(path: Path) -> Learning | None:
    with suppress(OSError, RigctlError, ValueError, KeyError, TypeError, AttributeError):
        text = own(path)
        stored = json.loads(text)["learned"]
        return Learning.from_json(stored) if _sealed(stored) == text else None
    return None


def _sealed(learned: Mapping[str, Any]) -> str:
    """Return the file's text: what was learned, by what code, and a checksum of both."""
    told = {"learned": learned, "code": {"core": digest(("core",)), **libraries()}}
    checksum = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return json.dumps({**told, "sha256": checksum}, sort_keys=True, indent=1)
