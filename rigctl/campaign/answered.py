"""The answer that was given last, kept beside the journal for `rigctl status`, which has no time to work one out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rigctl.codec import from_json, to_json
from rigctl.errors import RigctlError
from rigctl.files import own, whole

FILE_NAME: Final = "answer.json"


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What to run, as was said last."""

    told: str
    trial: int
    """The last one that it knew of."""
    corrections: int
    """The last correction that it knew of: with others it may no longer hold."""


def keep(directory: Path, answer: GivenAnswer) -> None:
    """Keep an answer in a campaign's directory, where there is room and we may."""
    with suppress(OSError), whole(directory / FILE_NAME, private=True) as new:
        new.write_text(to_json(answer), encoding="utf-8")


def given(directory: Path, corrections: int) -> GivenAnswer | None:
    """Return the answer that was given last; None: none was, or something was corrected since."""
    with suppress(OSError, RigctlError, ValueError, KeyError, TypeError, AttributeError):
        found = from_json(GivenAnswer, own(directory / FILE_NAME))
        return found if found.corrections == corrections else None
    return None
