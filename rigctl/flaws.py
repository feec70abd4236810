"""What is wrong with something that was given: fields for programs, made a sentence for people in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rigctl.printable import printable

MOST_SHOWN: Final = 60
"""Characters of a value that are repeated."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """Says what is wrong with something that was given; its `str()` is `where: got VALUE, must be ...; remedy`.

    It is what an error is made with: `raise ValueError(got(value, "must be > 0"))`. `flaw_of` returns it.
    """

    lead: str = ""
    """How the sentence begins where no value is shown, e.g. `is missing`; else how it goes on after the value."""
    allowed: str = ""
    """What it must be: `must be a number`."""
    remedy: str = ""
    """What to do: `write 5.2`."""
    got: str = ""
    """The value as it was written; empty where none is shown."""
    where: str = ""
    """The option, key or thing that it is about, as far as whoever found it knows."""

    @property
    def what(self) -> str:
        """Return the sentence, without where."""
        lead = f"got {self.got}{self.lead}" if self.got else self.lead
        said = ("; " if "," in self.lead else ", ").join(filter(None, (lead, self.allowed)))
        return "; ".join(filter(None, (said, self.remedy)))

    def within(self, where: str) -> Flaw:
        """Return the same, of something that is part of something else."""
        return replace(self, where=": ".join(filter(None, (where, self.where))))

    @property
    def fields(self) -> dict[str, str]:
        """Return `where`, `got`, `allowed` and `remedy`, as far as they are known."""
        known = {"where": self.where, "got": self.got, "allowed": self.allowed, "remedy": self.remedy}
        return {name: printable(part) for name, part in known.items() if part}

    def __str__(self) -> str:
        return printable(": ".join(filter(None, (self.where, self.what))))


def got(value: Any, allowed: str, remedy: str = "", *, where: str = "", lead: str = "") -> Flaw:
    """Return what is wrong with a value, which is shown as its user wrote it."""
    return Flaw(lead, allowed, remedy, shown(value), where)


def require(holds: object, value: Any, allowed: str, remedy: str = "", *, where: str = "") -> None:
    """Raise ValueError with what is wrong with a value, unless it holds."""
    if not holds:
        raise ValueError(got(value, allowed, remedy, where=where))


def flaw_of(error: BaseException) -> Flaw:
    """Return what an error was made with; all that it says as one lead where that was only text."""
    flaw = error.args[0] if error.args else None
    return flaw if isinstance(flaw, Flaw) else Flaw(str(error))


def shown(value: Any) -> str:
    """Show a value as the user wrote it, cut short."""
    if value is None or value == "":
        return "nothing"
    text, quote = (value, '"') if isinstance(value, str) else (flow(value), "")
    most = MOST_SHOWN - 2 * len(quote)
    return f"{quote}{text if len(text) <= most else f'{text[: most - 3]}...'}{quote}"


def flow(value: Any, text: Callable[[str], str] = str) -> str:
    """Write a value in one line, as YAML; `text` writes the text in it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(v, text)}" for key, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(v, text) for v in value) + "]"
    if isinstance(value, str | bool):
        return text(value) if isinstance(value, str) else str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else "" if value is None else str(value)


def write(text: str) -> str:
    """Return the remedy for what should have been written in another way."""
    return f'write "{text}"'
