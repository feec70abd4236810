"""One look per policy, the same in every figure and format: colour, line style, marker, name.

Colours are Okabe and Ito's palette (told apart with every common colour-vision deficiency) without its yellow, which
is lost on white; a form of a policy that shares its colour differs in the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

Dash = Literal["solid", "dash", "dot", "dashdot"]

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"
PALETTE = (BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE, GREY)
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy's line looks."""

    name: str
    """In legends."""
    colour: str
    """`#rrggbb`."""
    dash: Dash = "solid"


def known_styles() -> dict[str, Style]:
    """By policy label."""
    return {
        # the bench's default, and value of information: ours
        "default": Style("rigctl default", PURPLE),
        "likely-maximisers": Style("likely maximisers", PURPLE, "dot"),
        "value-per-cost": Style("value per cost", PURPLE, "dash"),
        # Hoang et al.
        "u-alg1-share": Style("U Alg. 1, 60 %", SKY),
        "u-alg1-tau5": Style("U Alg. 1, tau = 5", SKY, "dash"),
        "u-alg1-tau2": Style("U Alg. 1, tau = 2", SKY, "dot"),
        # Tay et al. and Hayashi et al.
        "ts-psq": Style("TS-PSQ", BLACK),
        "ucb-psq": Style("UCB-PSQ", VERMILLION),
        "ei-psq": Style("EI-PSQ", GREY),
        "etc-50": Style("ETC-50", ORANGE),
        "etc-50-size": Style("ETC-50 by size", ORANGE, "dash"),
        "etc-100": Style("ETC-100", GREEN),
        "etc-ada": Style("ETC-Ada", BLUE),
        "ucb-cvs": Style("UCB-CVS", BLUE, "dash"),
        "ts-psq-per-cost": Style("TS-PSQ per cost", BLACK, "dash"),
        "ucb-psq-per-cost": Style("UCB-PSQ per cost", VERMILLION, "dash"),
        "ei-psq-per-cost": Style("EI-PSQ per cost", GREY, "dash"),
        # Xie et al.
        "pbgi": Style("PBGI", BLUE, "dashdot"),
        "pbgi-d": Style("PBGI-D", SKY, "dashdot"),
        "ei": Style("EI", ORANGE, "dashdot"),
        "eipc": Style("EIPC", VERMILLION, "dashdot"),
        "ucb": Style("UCB", GREEN, "dashdot"),
        "ts": Style("TS", PURPLE, "dashdot"),
        # Abdolshah et al.
        "ca-mobo": Style("CA-MOBO", GREEN, "dash"),
        "ca-mobo-printed": Style("CA-MOBO, weights as printed", GREEN, "dot"),
        "mo-ucb": Style("MO-UCB", VERMILLION, "dot"),
        "ca-mobo-own": Style("CA-MOBO, own units", GREY, "dot"),
        "ca-mobo-printed-own": Style("CA-MOBO, as printed, own units", GREY, "dashdot"),
        "mo-ucb-own": Style("MO-UCB, own units", BLACK, "dot"),
    }


def style_of(policy: str) -> Style:
    """The look of a policy label; of one not listed, a fixed function of its letters."""
    known = known_styles().get(_plain(policy))
    if known is not None:
        return known
    number = crc32(policy.encode())
    return Style(policy, PALETTE[number % len(PALETTE)], DASHES[1 + number // len(PALETTE) % (len(DASHES) - 1)])


def order_of(policy: str) -> tuple[int, str]:
    """Sorts policies as they are listed; others after them, by name."""
    listed = list(known_styles())
    return (listed.index(_plain(policy)) if _plain(policy) in listed else len(listed), policy)


def _plain(policy: str) -> str:
    """Labels have two ways to write `per unit cost`."""
    return policy.replace("/cost", "-per-cost")
