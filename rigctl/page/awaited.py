"""What people say on the page of outcomes that come later, read from a form; what looks mistyped is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from rigctl.errors import UsageError
from rigctl.page.plain import plain_page
from rigctl.printable import printable

Judge = Callable[[Path, int, Mapping[str, str]], tuple[Mapping[str, float], Sequence[str]]]
"""Turns what is said of a trial, by outcome, into its own units, and says what looks mistyped."""
OF = "of "
"""Begins the name of the field of an outcome."""
MOST_CHARS = 500


@dataclass(frozen=True, slots=True)
class Heard:
    """Holds what somebody said of one trial."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """For the campaign."""
    doubts: tuple[str, ...] = ()
    """What looks mistyped, and whoever said it has not seen yet."""

    @property
    def sure(self) -> str:
        """Return what a form carries of one who has seen just these doubts: others that come are asked about, too."""
        return sha256("\n".join(self.doubts).encode()).hexdigest()


def heard(judge: Judge | None, directory: Path, trial: int, given: Mapping[str, str]) -> Heard:
    """Return what a form says came of a trial.

    Raises:
        UsageError: it is no outcome of this trial, or none is taken here.
        ConfigError: the configuration does not hold any more, so nobody knows units and limits.
    """
    if given.get("lost") == "yes":
        return Heard({"lost": True})
    said = {name.removeprefix(OF): text.strip() for name, text in given.items() if name.startswith(OF)}
    if judge is None or not any(said.values()):
        raise UsageError(f"outcome: trial {trial}: got nothing, must be a number, with or without a unit")
    outcomes, doubts = judge(directory, trial, said)
    found = Heard({"outcomes": dict(outcomes)}, tuple(doubts))
    return replace(found, doubts=()) if given.get("sure") == found.sure else found


def question(found: Heard, given: Mapping[str, str]) -> str:
    """Return a page that asks whether it is right, and sends the same form again if so."""
    fields = "".join(
        f'<input type="hidden" name="{escape(printable(name))}" value="{escape(text[:MOST_CHARS])}">'
        for name, text in {**given, "sure": found.sure}.items()
    )
    form = f'<form method="post" action="outcome">{fields}<p><button>Record it all the same</button></p></form>'
    return plain_page("Is this right? Nothing is recorded yet", found.doubts, form=form, up="../")
