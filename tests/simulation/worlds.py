"""The rigs that are simulated: the example configurations at the speed of real instruments, their times drawn anew."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from rigctl.config.load import LoadedConfig, load_text

CONFIGURATIONS: Final = Path(__file__).parents[2] / "config"


@dataclass(frozen=True, slots=True)
class World:
    """One rig, and how its time goes."""

    scenario: str
    pace: str
    """A trial takes a minute, for ends at every instant; with `plain` as long as it is, with `long` half a day."""
    loaded: LoadedConfig


MINUTE: Final = {
    "settle": "20 s",
    "measure": "{for: 10 s, every: 5 s, statistic: median}",
    "wait": "10 s",
    "look": "",
    "treat": "5 s",
    "mix": "15 s",
}
PACES: Final = {
    "dense": MINUTE,
    "looking": {**MINUTE, "look": "{after: 2 s, for: 6 s, every: 3 s}"},
    "by hand": {**MINUTE, "outcome": "by: hand, within: 4 min, pending: 3"},
    "read later": {**MINUTE, "outcome": "{}, after: 70 s, within: 4 min, pending: 3"},
    "plain": {"settle": "8 min", "measure": "{for: 2 min, every: 30 s, statistic: median}", "wait": "90 s"},
    "long": {"settle": "12 h", "measure": "{for: 10 min, every: 2 min, statistic: median}", "wait": "2 min"},
}
QUICK: Final = ("dense", "looking", "by hand", "read later")
"""Paces at which a trial takes a minute."""
SCENARIOS: Final = ("greenhouse", "lathe")
WATCH_EVERY: Final = {**dict.fromkeys(QUICK, "1 s"), "plain": "2 s", "long": "60 s"}


@cache  # what is forked has them ready
def world(scenario: str, pace: str) -> World:
    """Return a rig whose trials go at this pace; the watch looks as often as suits it."""
    text = (CONFIGURATIONS / f"{scenario}.yaml").read_text(encoding="utf-8")
    times = PACES[pace]
    text = re.sub(r"(?m)^clock:.*$", "", text)
    text = re.sub(r"(?m)^budget:.*$", "budget: 100000000 EUR", text)
    text = re.sub(r"settle: [^\n]+", f"settle: {times['settle']}", text)
    text = re.sub(r"measure: \{[^\n]+", f"measure: {times['measure']}", text)
    look = times.get("look", "{for: 1 min, every: 15 s}")
    if pace == "looking" and "\n  look:" not in text:
        text = text.replace("  settle:", "  look: {}\n  settle:")
    text = re.sub(r"(?m)^  look: .*$", f"  look: {look}" if look else "", text)
    outcome = times.get("outcome", "{}")
    text = re.sub(r"(?m)^(outcome: .*?)(sensor: \w+)", lambda found: found[1] + outcome.format(found[2]), text)
    text = re.sub(r"treat: [^}]+\}", f"treat: {times.get('treat', '2 min')}}}", text)
    text = re.sub(r"mix: [^,]+,", f"mix: {times.get('mix', '45 s')},", text)
    text = re.sub(r"wait: [^}\]]+\}", f"wait: {times['wait']}}}", text)
    text += f"  watch: {{every: {WATCH_EVERY[pace]}}}\n"
    text += "  starts: {at_most: 1000000}\n"  # nobody is there to let it go on
    return World(scenario, pace, load_text(text, CONFIGURATIONS / f"{scenario}-{pace}.yaml"))


def drawn(draw: random.Random, *, looking: bool = False) -> tuple[str, str]:
    """Draw a rig and a pace; where half days pass, mostly the rig that is the cheaper to simulate.

    Args:
        draw: of the seed.
        looking: whether somebody mostly looks before a trial is decided, as a rule for production has it.
    """
    pace = draw.choices((*QUICK, "plain", "long"), (4, 8, 1, 1, 1, 1) if looking else (8, 4, 2, 1, 1, 2))[0]
    return draw.choices(SCENARIOS, (1, 6) if pace == "long" else (1, 1))[0], pace
