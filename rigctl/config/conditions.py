"""Conditions as people write them -> what `rigctl.rig.conditions` evaluates. A tokenizer and a recursive descent.

```
condition  = and-part {"or" and-part}
and-part   = not-part {"and" not-part}
not-part   = "not" not-part | "(" condition ")" | comparison
comparison = operand sign operand [sign operand]          one operand is a name, the others are quantities
           | name "is" ["not"] level                      a category at one of its levels, in quotes if it is no name
```

`4.5 < ph < 6` is short for `ph > 4.5 and ph < 6`. A bare number is in the unit of the reading.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final, Literal

from rigctl.config.units import Units
from rigctl.flaws import Flaw, flaw_of, shown
from rigctl.rig.conditions import Compare, Comparison, Condition, Joined, Not, at_level

UnitOf = Callable[[str], str]
"""The unit of the reading of this name; raises ValueError where there is none, ToldElsewhere where it is not known."""
LevelsOf = Callable[[str], Mapping[float, str]]
"""The words of the category of this name by their numbers; empty of what is no category."""

MAX_DEPTH: Final = 30
"""Of parentheses and `not`: more are no interlock that a person can read."""
MAX_CASES: Final = 100_000
"""Of combinations of readings tried when it is asked whether conditions can hold at once."""

_NUMBER: Final = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
_UNIT: Final = (
    r"(?!(?:and|or|not)\b)(?:1/)?[A-Za-zµμ°Ω%](?:[\w°Ω%.·]|[*/^](?=[\w(-])|(?<=\^)-|(?<=[*/])\([^()\s<>]*\))*"
)
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<quantity>{_NUMBER}(?:\s*{_UNIT}|(?![\w.])))"
    r"|(?P<joint>(?:and|or|not)(?![A-Za-z0-9_-]))|(?P<name>[A-Za-z][A-Za-z0-9_-]*)"
    r"|(?P<sign><=|>=|<|>)|(?P<bracket>[()])|(?P<level>\"[^\"]+\"))"
)
_MIRRORED: Final[dict[Comparison, Comparison]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS: Final[dict[str, Comparison]] = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}


class ToldElsewhere(Exception):
    """A condition cannot be judged: what it speaks of does not hold itself, which is told there."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """A group of the tokenizer's, or `end`."""
    text: str
    column: int


def parse(text: str, unit_of: UnitOf, units: Units, levels_of: LevelsOf = lambda _: {}) -> Condition:
    """Parse a condition, its limits in the units of the readings.

    Raises:
        ValueError: it is none; says at which column, what was got and what is allowed.
    """
    parser = _Parser(text, unit_of, units, levels_of)
    condition = parser.condition(0)
    parser.expect("", 'an end, "and" or "or"')
    return condition


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            column = at + len(text[at:]) - len(text[at:].lstrip()) + 1
            found = text[column - 1 :].split(maxsplit=1)[0]
            if found.startswith(("=", "!=")):
                raise _error(text, column, found, "<, <=, > or >=", "no reading is ever exactly a value")
            raise _error(text, column, found, "a name, a quantity, <, <=, >, >= or brackets")
        kind = str(token.lastgroup)
        yield _Token(kind, token[kind], token.start(kind) + 1)
        at = token.end()
    yield _Token("end", "", len(text) + 1)


def _error(text: str, column: int, found: str, allowed: str, remedy: str = "") -> ValueError:
    lead = f' at column {column} of "{text}"'
    return ValueError(Flaw(lead, f"must be {allowed}", remedy, got=shown(found) if found else "the end"))


class _Parser:
    """Reads tokens from left to right; each method one rule of the grammar above."""

    def __init__(self, text: str, unit_of: UnitOf, units: Units, levels_of: LevelsOf) -> None:
        self.text = text
        self.unit_of = unit_of
        self.levels_of = levels_of
        self.units = units
        self.tokens = list(_tokens(text))
        self.at = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.next
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def refused(self, token: _Token, allowed: str) -> ValueError:
        return _error(self.text, token.column, token.text, allowed)

    def expect(self, text: str, allowed: str) -> None:
        token = self.take()
        if token.text != text:
            raise self.refused(token, allowed)

    def condition(self, depth: int) -> Condition:
        return self.joined("or", lambda: self.joined("and", lambda: self.negated(depth)))

    def joined(self, word: Literal["and", "or"], part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self.next.kind == "joint" and self.next.text == word:
            self.take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def negated(self, depth: int) -> Condition:
        token = self.next
        if depth > MAX_DEPTH:
            raise self.refused(token, f"nested at most {MAX_DEPTH} deep")
        if token.text == "not":
            self.take()
            return Not(self.negated(depth + 1))
        if token.text == "(":
            self.take()
            inside = self.condition(depth + 1)
            self.expect(")", '"and", "or" or ")"')
            return inside
        return self.comparison()

    def comparison(self) -> Condition:
        operands = [self.operand()]
        if operands[0].kind == "name" and self.next.text == "is":
            return self.level(operands[0])
        signs: list[Comparison] = []
        while self.next.kind == "sign" or not signs:
            token = self.take()
            if token.kind != "sign":
                raise self.refused(token, "<, <=, > or >=")
            if len(signs) == 2:
                raise self.refused(token, "at most two comparisons of one name, such as 4.5 pH < ph < 6 pH")
            signs.append(_SIGNS[token.text])
            operands.append(self.operand())
        if len(signs) == 2:
            left, name, right = operands
            return Joined("and", (self.compare(name, _MIRRORED[signs[0]], left), self.compare(name, signs[1], right)))
        if operands[0].kind == "name":
            return self.compare(operands[0], signs[0], operands[1])
        return self.compare(operands[1], _MIRRORED[signs[0]], operands[0])

    def level(self, name: _Token) -> Condition:
        self.unit(name)
        sign, levels = self.take(), self.levels_of(name.text)
        if not levels:
            raise self.refused(sign, "<, <=, > or >=, for only a category is at a level")
        if self.next.text == "not":
            self.take()
            return Not(self.one_level(name, levels))
        return self.one_level(name, levels)

    def one_level(self, name: _Token, levels: Mapping[float, str]) -> Condition:
        token = self.take()
        if token.text.strip('"') not in levels.values():
            raise self.refused(token, f"one of {', '.join(levels.values())}")
        return at_level(name.text, token.text.strip('"'), levels)

    def unit(self, name: _Token) -> str:
        try:
            return self.unit_of(name.text)
        except ValueError as error:
            raise ValueError(replace(flaw_of(error), where=f"column {name.column}")) from error

    def operand(self) -> _Token:
        token = self.take()
        if token.kind not in ("name", "quantity"):
            raise self.refused(token, 'a name or a quantity, such as ph or "4.5 pH"')
        return token

    def compare(self, name: _Token, sign: Comparison, limit: _Token) -> Compare:
        if name.kind != "name":
            raise self.refused(name, "a reading's name: quantities are compared with readings")
        if limit.kind != "quantity":
            raise self.refused(limit, "a quantity: readings are compared with quantities")
        unit = self.unit(name)
        value = self.units.to(limit.text, unit or "1", f"in {unit or 1}, like {name.text} (column {limit.column})")
        if not math.isfinite(value):
            raise self.refused(limit, "finite")
        return Compare(name.text, sign, value, unit)


def can_hold(*conditions: Condition, within: Mapping[str, tuple[float, float]] | None = None) -> bool:
    """Tell whether some readings make all of these true at once; True also where there are too many cases to try.

    Between two neighbouring limits nothing changes: one value of each stretch, and each limit, stand for all. `within`
    has the lowest and the highest value of readings, engineering units; those that it does not name are any number.
    """
    limits: dict[str, set[float]] = {}
    for condition in conditions:
        for compare in condition.comparisons:
            limits.setdefault(compare.name, set()).add(compare.limit)
    ends = {name: (within or {}).get(name, (-math.inf, math.inf)) for name in limits}
    cases = {name: _stretches(values, *ends[name]) for name, values in limits.items()}
    if math.prod(map(len, cases.values())) > MAX_CASES:
        return True
    readings = (dict(zip(cases, values, strict=True)) for values in product(*cases.values()))
    return any(all(condition.holds(case) for condition in conditions) for case in readings)


def _stretches(limits: Collection[float], low: float, high: float) -> list[float]:
    inside = sorted({low, high, *(limit for limit in limits if low < limit < high)})
    between = [(a + b) / 2 for a, b in pairwise(inside) if math.isfinite(a + b)]
    return [*inside, *between]
