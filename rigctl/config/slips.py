"""What a YAML parser stumbles over, in words of the file: the parser notices late, and speaks of tokens.

A slip is looked for where the parser stopped and on the line before, most telling sign first; each answer says where
the slip stands, what was got, what it must be, and what to write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import yaml

_BLANKS: Final = re.compile(r"[ \t]*[^\S \t\r\n]")
"""An indentation that holds what only looks like a blank, such as the no-break space of a web page."""
_CURLY: Final = re.compile("[“”„‘’]")
_KEY: Final = re.compile(r"""\s*(?:-\s+)?(?P<key>[\w.-]+|"[^"]*"|'[^']*')\s*:(?=\s|$)""")
_GLUED: Final = re.compile(r"(?P<key>[\w-]+):(?P<value>[^\s/:].*)")
"""A key with its value right behind the colon; a URL is none."""
_CLOSERS: Final = {"{": "}", "[": "]"}
_WORDS: Final = {"{": "brace", "[": "bracket", "}": "brace", "]": "bracket"}

_IN_QUOTES: Final = "got a value that begins with \"{sign}\", must stand in quotes; write '...' around it"
_TELLING: Final[tuple[tuple[str, bool, str], ...]] = (
    ("'\\t'", False, "got a tab {where}, must be blanks; write two blanks for each tab"),
    ("cannot start any token", False, 'got a value that begins with {sign}, must stand in quotes; write "{value}"'),
    (
        "aliases are not supported",
        False,
        "got the alias {value}, must be written out; a value that begins with * stands in quotes",
    ),
    ("the anchor &", False, "got {problem}, must be left out; a value that begins with & stands in quotes"),
    ("single document", False, "got a second document (---), must be one; remove this line"),
    (
        "quoted scalar found unexpected end of stream",
        True,
        "got a quote that is not closed, must end with {sign}; write it behind the value",
    ),
    ("alphabetic or numeric", True, _IN_QUOTES),
    ("chomping", True, _IN_QUOTES),
    (
        "sequence entries",
        False,
        "got a dash behind a key, must begin a line; write the list on lines of its own, or as [a, b]",
    ),
    ("found '<stream end>'", False, ""),  # told by what is not closed
    ("node content", False, 'got "{sign}" where a value must stand; remove it, or write the value'),
    (
        "'<document start>'",
        False,
        "got a key where the file had ended, must be keys and values throughout; mend the lines before it",
    ),
    ("escape", False, "got a backslash in double quotes, must stand in single ones; write '...' around the value"),
    ("nested deeper", False, "is {problem}; no configuration needs that"),
    ("keys and values", False, "got {problem}, must be fewer; is it the right file?"),
    ("text of more than", False, "got {problem}, must be shorter; is a quote or a line end missing?"),
)
"""What the parser says, whether the fault is where it began to read, and what that means (empty: look elsewhere)."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Says where a text stops being YAML, and why."""

    line: int
    """From 1, as `column`."""
    column: int
    what: str


def slip_of(text: str, error: yaml.YAMLError) -> Slip:
    """Return what stopped the parser on `text`."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        got = (
            f"got the control character U+{error.character:04X}" if isinstance(error.character, int) else "got no text"
        )
        return Slip(line, column, f"{got}, must be text that can be printed; delete it")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Slip(1, 1, f"got no YAML: {error}".replace("\n", " "))
    return _Reading(text, error).slip()


class _Reading:
    """Reads the lines about the place where the parser stopped."""

    def __init__(self, text: str, error: yaml.MarkedYAMLError) -> None:
        self.lines = text.splitlines() or [""]
        self.context, self.problem = error.context or "", error.problem or ""
        mark, opened = error.problem_mark or error.context_mark, error.context_mark or error.problem_mark
        last = len(self.lines)
        self.line, self.column = (min(mark.line + 1, last), mark.column + 1) if mark else (1, 1)
        self.first, self.first_column = (min(opened.line + 1, last), opened.column + 1) if opened else (1, 1)

    def slip(self) -> Slip:
        for look in (self._blanks, self._curly, self._by_token, self._flow, self._block):
            found = look()
            if found is not None:
                return found
        what = f"got what YAML cannot read ({self.problem}); compare indentation, colons, brackets and quotes"
        return Slip(self.line, self.column, f"{what} with the lines around")

    def text(self, line: int) -> str:
        return self.lines[line - 1]

    def before(self) -> int:
        """Return the last line before the parser's that says anything; 0 where none does."""
        said = (n for n in range(self.line - 1, 0, -1) if self.text(n).strip() and self.text(n).strip()[0] != "#")
        return next(said, 0)

    # signs that tell by themselves -----------------------------------------------------------------------------

    def _blanks(self) -> Slip | None:
        for line in filter(None, (self.before(), self.line)):
            found = _BLANKS.match(self.text(line))
            if found is not None:
                sign = f"U+{ord(found[0][-1]):04X}"
                what = f"got the blank {sign} in front of the line, must be ordinary blanks; type them anew"
                return Slip(line, found.end(), what)
        return None

    def _curly(self) -> Slip | None:
        for line in (self.first, self.line):
            found = _CURLY.search(self.text(line))
            if found is not None:
                what = f'got the curly quote {found[0]}, must be a straight one; type " instead'
                return Slip(line, found.start() + 1, what)
        return None

    def _by_token(self) -> Slip | None:
        """Judge what the parser says in so many words."""
        said = f"{self.context} {self.problem}"
        if "quoted scalar" in said and "end of stream" in said and not self._is_quote():
            return None
        found = next((telling for telling in _TELLING if telling[0] in said), None)
        if found is None or not found[2]:
            return None
        _, at_start, what = found
        line, column = (self.first, self.first_column) if at_start else (self.line, self.column)
        rest = self.text(line)[column - 1 :]
        leading = not self.text(line)[: column - 1].strip()
        where = "in front of the line" if leading else "between two words"
        return Slip(line, column, what.format(sign=rest[:1], value=_value(rest), where=where, problem=self.problem))

    def _is_quote(self) -> bool:
        return self.text(self.first)[self.first_column - 1 : self.first_column] in ("'", '"')

    # brackets and braces ---------------------------------------------------------------------------------------

    def _flow(self) -> Slip | None:
        if "found '<stream end>'" in self.problem:
            return self._never_closed()
        if not self.problem.startswith(("expected ',' or '}'", "expected ',' or ']'")):
            return None
        opened = self.text(self.first)[self.first_column - 1]
        if self.line > self.first:
            return _not_closed(self.first, self.first_column, opened)
        said = self.text(self.line)[: self.column - 1]
        key = re.search(r"(\w[\w-]*)\s*$", said)
        after = f" before {key[1]}" if key is not None and "got ':'" in self.problem else ""
        column = key.start() + 1 if key is not None and after else self.column
        other = ", or put the value in quotes" if after else ""
        what = f"got no comma{after}, must be keys or values with commas between; write a comma{other}"
        return Slip(self.line, column, what)

    def _never_closed(self) -> Slip | None:
        """Return the innermost bracket that is open at the end; those in quotes and comments are passed over."""
        opened: list[tuple[int, int, str]] = []
        for number, line in enumerate(self.lines, 1):
            plain = re.sub(r'"[^"]*"|\'[^\']*\'|(?:^|\s)#.*', lambda found: " " * len(found[0]), line)
            for column, sign in enumerate(plain, 1):
                if sign in "{[":
                    opened.append((number, column, sign))
                elif sign in "}]" and opened:
                    opened.pop()
        return _not_closed(*opened[-1]) if opened else None

    # keys, values and indentation ------------------------------------------------------------------------------

    def _block(self) -> Slip | None:
        if "could not find expected ':'" in self.problem:
            return self._no_colon(self.first)
        if "mapping values are not allowed" in self.problem:
            return self._second_value()
        if not self.problem.startswith("expected <block end>"):
            return None
        if self.problem.endswith("'<block mapping start>'"):
            return self._indented()
        text, what = self.text(self.line), ""
        found = text.strip()[:1]
        if self.problem.endswith(("','", "':'")):
            sign = text[self.column - 1 : self.column]
            what = f'got "{sign}" behind the value; remove it, or put the value in quotes'
        elif self.problem.endswith(("'}'", "']'")):
            sign = text[self.column - 1 : self.column]
            what = f'got the {_WORDS.get(sign, "bracket")} "{sign}", which closes nothing; remove it'
        elif found == "-":
            glued = re.match(r"\s*-\S", text) is not None
            among = "got a dash among keys, must be a key like its neighbours; remove the dash"
            what = "got no blank after the dash; write one" if glued else among
        elif self.problem.endswith("'<scalar>'") and _KEY.match(text):
            what = "got more behind the closing quote; put all of the value in the quotes"
        return Slip(self.line, self.column, what) if what else None

    def _no_colon(self, line: int) -> Slip:
        said = self.text(line).strip()
        column = len(self.text(line)) - len(self.text(line).lstrip()) + 1
        glued = _GLUED.fullmatch(said)
        if glued is not None:
            what = f'got no blank after the colon; write "{glued["key"]}: {glued["value"]}"'
            return Slip(line, column, what)
        if said.startswith("-") and not said.startswith("- "):
            return Slip(line, column, "got no blank after the dash; write one")
        key, blank, value = said.partition(" ")
        meant = f"{key}:{blank}{value}".strip()
        return Slip(line, column, f'got "{_short(said)}", must be a key, a colon and a value; write "{_short(meant)}"')

    def _second_value(self) -> Slip:
        """Judge a colon where the parser expected none."""
        text, before = self.text(self.line), self.before()
        first = _KEY.match(text)
        if first is not None and first.end() < self.column:
            value = text[first.end() :].strip()
            what = f'got a second colon in one line; put the value in quotes: {first["key"]}: "{_short(value)}"'
            return Slip(self.line, self.column, what)
        if (
            before
            and _KEY.match(self.text(before)) is None
            and not self.text(before).rstrip().endswith((",", "{", "["))
        ):
            return self._no_colon(before)
        return self._indented()

    def _indented(self) -> Slip:
        text = self.text(self.line)
        deep = len(text) - len(text.lstrip())
        around = sorted(
            {_depth(self.text(n)) for n in range(max(1, self.line - 12), self.line) if _KEY.match(self.text(n))}
        )
        near = [depth for depth in around if depth != deep]
        allowed = " or ".join(map(str, sorted(sorted(near, key=lambda depth: abs(depth - deep))[:2]))) or "0"
        what = f"got {deep} blanks in front of the key, must be {allowed} as in the lines before; line the keys up"
        return Slip(self.line, deep + 1, what)


def _not_closed(line: int, column: int, opened: str) -> Slip:
    closer = _CLOSERS.get(opened, "")
    what = f'got the {_WORDS.get(opened, "bracket")} "{opened}", which is not closed; write "{closer}" at its end'
    return Slip(line, column, what)


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def _value(rest: str) -> str:
    """Return the value that begins here, without what can only come after it."""
    return _short(re.split(r"\s#|[,\]}]", rest.strip(), maxsplit=1)[0].strip())


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
