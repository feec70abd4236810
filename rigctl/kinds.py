"""Kinds of quantities. A field's annotation names one, and the configuration reads the field by it.

A spec with such fields is a section of the file: `good_after_s: PositiveDuration` is read from `good_after: 10 min`.
Pydantic looks at the shape, `rigctl.config.reading` converts; both are imported only where a file is read.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from rigctl.flaws import require

AMOUNT: Final = r"^\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*\S.*$"
"""What an editor takes for a number with its unit."""
_UNITS: Final = re.compile(r"(_per)?_(s|ml|h)$|_$")
"""What the name of a field has beside its key: its unit, or a stroke that keeps it apart from a word of Python's."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Says what a quantity must be, and converts it where a file is read."""

    what: str
    """As in an error: `must be a duration such as "20 min"`."""
    example: str
    unit: str
    """The unit used inside."""
    positive: bool = False
    """Whether nothing is too little."""

    def __str__(self) -> str:
        return f'{self.what} such as "{self.example}"'

    def of(self, text: str, units: Any) -> float:
        """Return a quantity in this kind's unit; raises ValueError if the text is none, or 0 where it must not be."""
        amount: float = units.quantity(text, self)
        require(not self.positive or amount != 0, text, "must be more than nothing")
        return amount


DURATION: Final = Kind("a duration", "20 min", "s")
VOLUME: Final = Kind("a volume", "20 mL", "mL")
ENERGY: Final = Kind("an energy", "5 kWh", "kWh")
POWER: Final = Kind("a power", "3 kW", "kW")
FLOW: Final = Kind("a flow", "58.5 mL/min", "mL/h")
PER_KWH: Final = Kind("a price per energy", "0.31 EUR/kWh", "kWh")
PER_ML: Final = Kind("a price per volume", "4.2 EUR/L", "mL")
PER_HOUR: Final = Kind("a price per time", "1.5 EUR/h", "h")
PER_TRIAL: Final = Kind("an amount of money", "0.05 EUR", "")


@dataclass(frozen=True, slots=True, eq=False)
class Late:
    """Says by which reader a value is read once all names and units of the file are known (`rigctl.config.reading`)."""

    reader: str
    form: dict[str, Any]
    """What an editor takes, as JSON schema."""
    instead: Any = None
    """Stands in for a value that does not hold, until that is told."""
    in_unit: bool = True
    """Whether it is in the unit of a variable or an outcome."""
    typed: bool = False
    """Whether it has the field's own type before it is read."""
    kind: Kind | None = None
    """Of a quantity whose unit depends on nothing else in the file."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415  # specs are also made where no file is read

        return handler(source) if self.typed else core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return dict(self.form)


def amount_like(*examples: str) -> dict[str, Any]:
    """Return what an editor takes for a quantity such as these, as JSON schema."""
    return {"type": "string", "pattern": AMOUNT, "examples": list(examples)}


def _alone(kind: Kind) -> Late:
    return Late("quantity", amount_like(kind.example), 1.0, in_unit=False, kind=kind)


Duration = Annotated[float, _alone(DURATION)]
Volume = Annotated[float, _alone(VOLUME)]
PositiveDuration = Annotated[float, _alone(replace(DURATION, positive=True))]
PositiveVolume = Annotated[float, _alone(replace(VOLUME, positive=True))]
Used = Annotated[float, Late("used", amount_like(ENERGY.example, VOLUME.example), in_unit=False)]
"""What a meter counts."""
Rated = Annotated[float, Late("rated_per_h", amount_like(POWER.example, FLOW.example), in_unit=False)]
"""What a meter counts, per hour."""

PRICE: Final = amount_like(PER_TRIAL.example, "0.31 EUR/kWh", "4.2 EUR/L", "1.5 EUR/h")
QUANTITY: Final = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": AMOUNT}]}
_TEXT: Final = {"type": "string"}
_TWO: Final = {"type": "array", "items": QUANTITY, "minItems": 2, "maxItems": 2}

Amount = Annotated[float, Late("amount", QUANTITY, 0.0)]
Span = Annotated[float, Late("span", QUANTITY, 1.0)]
"""A difference, such as a tolerance: 1 degC is 1 K."""
PositiveSpan = Annotated[float, Late("positive_span", QUANTITY, 1.0)]
Range = Annotated[tuple[float, float], Late("rising", _TWO, (0.0, 1.0))]
Rate = Annotated[float, Late("rate_per_s", amount_like("0.5 pH/min"), 1.0)]
"""A change per second."""
Effect = Annotated[float, Late("effect_per_ml", amount_like("-0.04 pH/mL"), 1.0)]
FrozenAfter = Annotated[tuple[float | None, int | None], Late("frozen_after", _TEXT, in_unit=False)]
"""Rig seconds, or trials; None: not by this."""
Worth = Annotated[float, Late("worth", PRICE)]
_NUMBER: Final = {"type": "number"}
_EACH: Final = {"anyOf": [_NUMBER, {"type": "object", "additionalProperties": _NUMBER}]}
Lengthscales = Annotated[tuple[float, ...], Late("lengthscales", _EACH, in_unit=False)]

DeviceName = Annotated[str, Late("device", _TEXT, in_unit=False, typed=True)]
SensorName = Annotated[str, Late("sensor", _TEXT, in_unit=False, typed=True)]
ActuatorName = Annotated[str, Late("actuator", _TEXT, in_unit=False, typed=True)]
PumpName = Annotated[str, Late("pump", _TEXT, in_unit=False, typed=True)]
MeterName = Annotated[str, Late("meter", _TEXT, in_unit=False, typed=True)]

NAME: Final = r"^[A-Za-z][A-Za-z0-9_-]*$"
"""Names appear in `a+b`, in `a=1.2` and as CSV headers, so they contain none, and lead to no other directory."""
LONGEST_NAME: Final = 60
"""Characters: file systems take 255 bytes, and people read them in tables."""


class Named:
    """Takes a name that a person gives."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415  # as above

        return core_schema.str_schema(pattern=NAME, max_length=LONGEST_NAME, strict=True)


Name = Annotated[str, Named()]

LABEL: Final = r"^[^\s\x00-\x1f][^\x00-\x1f]{0,39}$"
"""One line that fits into a column of a table."""


class Labelled:
    """Takes what people read instead of a name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415  # as above

        return core_schema.str_schema(pattern=LABEL, strict=True)


Label = Annotated[str, Labelled()]


class Exactly:
    """Takes a value of the field's own type only: text is no number, and `yes` is no truth."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "strict": True}


Whole = Annotated[int, Exactly()]
Number = Annotated[float, Exactly()]


class Clash(NamedTuple):
    """Says what is wrong with one key beside others of its section."""

    key: str
    allowed: str
    """What it must be; `{key}` stands for what the file says of another key."""
    beside: tuple[str, ...] = ()
    """Keys that this depends on: where one of them does not hold, nothing is said."""
    lead: str = ""
    """What is wrong, where that is more than that it is not allowed."""
    remedy: str = ""


def key_of(field: str) -> str:
    """Return the key of the file that a field is read from."""
    return _UNITS.sub("", field)


@cache  # a class and what it is written in stay as they are
def meanings_of(cls: type) -> Mapping[str, str]:
    """Return what the texts below its fields say; nothing where the source is not at hand.

    They are read where somebody asks, in an error or a schema: it takes longer than to check a configuration.
    """
    source: type = vars(cls).get("meant_by", cls)
    if source is not cls:  # made of another class, as the options of a policy
        return meanings_of(source)
    said = {name: text for base in reversed(cls.__bases__) for name, text in meanings_of(base).items()}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return said
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as words)):
                said[name] = inspect.cleandoc(words)
    return said


class Section:
    """A spec that is a section of the file: unknown keys are mistakes, and keys are fields without their unit."""

    __slots__ = ()

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "allow_inf_nan": False,
        "alias_generator": key_of,
    }

    def clashes(self) -> Iterator[Clash]:
        """Give what is wrong with keys that hold by themselves, but not together."""
        return iter(())
