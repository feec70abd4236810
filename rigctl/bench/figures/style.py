"""One look per policy, the same in every figure and format: colour and line style, as `labels.yaml` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

from rigctl.bench.asking.labels import listed, plain_label

Dash = Literal["solid", "dash", "dot", "dashdot"]
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")
PALETTE = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#7F7F7F",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy's line looks."""

    name: str
    """In legends."""
    colour: str
    """`#rrggbb`."""
    dash: Dash = "solid"


def style_of(policy: str) -> Style:
    """Return the look of a policy label; of one not listed, a fixed function of its letters."""
    said = listed().get(plain_label(policy))
    if said is not None:
        return Style(said["name"], PALETTE[said["colour"]], said.get("line", "solid"))
    number, colours = crc32(policy.encode()), tuple(PALETTE.values())
    return Style(policy, colours[number % len(colours)], DASHES[1 + number // len(colours) % (len(DASHES) - 1)])


def order_of(policy: str) -> tuple[int, str]:
    """Return a key that sorts policies as they are listed; others after them, by name."""
    labels = list(listed())
    return (labels.index(plain_label(policy)) if plain_label(policy) in labels else len(labels), policy)
