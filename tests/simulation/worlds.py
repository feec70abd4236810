"""The rigs that are simulated: the example configurations at the speed of real instruments, their times drawn anew."""

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rigctl.config.load import LoadedConfig, load_text
from tests.simulation.richer import MORE_PUMPS, RICHER, enriched

CONFIGURATIONS: Final = Path(__file__).parents[2] / "config"


@dataclass(frozen=True, slots=True)
class World:
    """One rig, and how its time goes."""

    scenario: str
    pace: str
    """A trial takes a minute, for ends at every instant; with `plain` as long as it is, with `long` half a day."""
    loaded: LoadedConfig
    extras: frozenset[str] = frozenset()
    """What it has besides, of `EXTRAS`."""


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
BESIDES: Final = 1 / 6
"""How many seeds have each of what a rig may have besides."""
OFTEN: Final = 1 / 4
"""How many seeds have each of `RICHER`."""
QUICK: Final = ("dense", "looking", "by hand", "read later")
"""Paces at which a trial takes a minute."""
SCENARIOS: Final = ("greenhouse", "lathe")
WATCH_EVERY: Final = {**dict.fromkeys(QUICK, "1 s"), "plain": "2 s", "long": "60 s"}


EXTRAS: Final = {"calendar": SCENARIOS, "inventory": SCENARIOS[:1], "heartbeat": SCENARIOS[:1], "reference": SCENARIOS}
"""What a rig may have besides, and which has what it takes."""
OPEN_MIN: Final = ((45, 72), (20, 40))
"""Minutes of every hour in which trials may run, the first beyond its end."""
VALVE_MIN: Final = ((30, 75),)
"""Those in which one actuator may be driven."""
NIGHT_MIN: Final = ((0, 7), (30, 50))
"""Those in which power costs what it does by night."""
TIMED: Final = {"greenhouse": "k_valve", "lathe": "loader"}
"""That actuator; no trial can do without the second."""
BOTTLE_ML: Final = {"ca_doser": 500.0, "ph_doser": 150.0}
EVERY: Final = 5
"""Each of so many trials is the reference."""
REFERENCES: Final = {
    "greenhouse": "control: [k, ph], at: {k: 6, ph: 6.1}",
    "lathe": "control: [speed, feed], at: {speed: 200, feed: 0.2}",
}


@cache  # what is forked has them ready
def world(scenario: str, pace: str, extras: frozenset[str] = frozenset()) -> World:
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
    for name in sorted(extras & _ADDED.keys()):
        text = _ADDED[name](text, scenario)
    text = enriched(text, scenario, extras, pace)
    return World(scenario, pace, load_text(text, CONFIGURATIONS / f"{scenario}-{pace}.yaml"), extras)


def _with_calendar(text: str, scenario: str) -> str:
    """Trials, and one valve, may be driven in some minutes of every hour; by day and night power costs differently."""
    text = f"zone: Europe/Berlin\nallowed: {_hourly(OPEN_MIN)}\n{text}"
    night = f"{{name: night, price: 0.19 EUR/kWh, during: {_hourly(NIGHT_MIN)}}}"
    text = text.replace("price: 0.31 EUR/kWh", f"price: [{night}, {{name: day, price: 0.34 EUR/kWh}}]")
    valve = f"    {TIMED[scenario]}: {{allowed: {_hourly(VALVE_MIN)}}}\n"
    return text.replace("  limits:\n", f"  limits:\n{valve}") if "  limits:\n" in text else f"{text}  limits:\n{valve}"


def _hourly(minutes: Iterable[tuple[int, int]]) -> str:
    return repr(
        [
            f"{hour:02}:{begins:02}-{(hour + ends // 60) % 24:02}:{ends % 60:02}"
            for hour in range(24)
            for begins, ends in minutes
        ]
    ).replace("'", '"')


def _with_inventory(text: str, _: str) -> str:
    """Bottles hold what some trials take; then somebody has to say that they are full again."""
    for pump, volume_ml in BOTTLE_ML.items():
        own = f"inventory: {{volume: {volume_ml:g} mL, warn_at: 2 doses}}, tubing: {{replace_after: 1 L}}"
        text = re.sub(rf"(?m)^(  {pump}: +{{driver: ezo-pmp.*)}}$", rf"\1, {own}}}", text)
    return text


def _with_heartbeat(text: str, _: str) -> str:
    """The PLC lets everything go where nobody has written its register for 4 s."""
    beat = "heartbeat: {at: 100, every_s: 1, timeout_at: 101, timeout_scale_s: 0.1}"
    return text.replace("enable: {coil: 2}}", f"enable: {{coil: 2}}, {beat}}}")


def _with_reference(text: str, scenario: str) -> str:
    """Now and then one setting is played whatever the policy would do."""
    return f"reference: {{every: {EVERY} trials, {REFERENCES[scenario]}}}\n{text}"


_ADDED: Final[Mapping[str, Callable[[str, str], str]]] = MappingProxyType(
    {
        "calendar": _with_calendar,
        "inventory": _with_inventory,
        "heartbeat": _with_heartbeat,
        "reference": _with_reference,
    }
)


def besides(draw: random.Random, scenario: str, pace: str) -> frozenset[str]:
    """Draw what a rig has besides; where a trial takes longer than hours or a watchdog allow, it has none of it."""
    drawn = [name for name in EXTRAS if draw.random() < BESIDES and scenario in EXTRAS[name]]
    richer = [name for name in RICHER if draw.random() < OFTEN and scenario in RICHER[name]]
    if pace == "looking" and "dear" in richer:  # what a few dear trials have cost says that none is worth a look
        richer.remove("dear")
    if set(richer) >= MORE_PUMPS or "inventory" in drawn:  # a bottle, like a pump, has one use here
        richer = [name for name in richer if name not in MORE_PUMPS - {"pumps"}]
    if "pumps" in richer and ("reference" in drawn or "inventory" in drawn or "caps" in richer):
        richer.remove("pumps")
    return frozenset(
        [name for name in drawn if pace in QUICK or name == "reference"] + [name for name in richer if pace in QUICK]
    )


def drawn(draw: random.Random, *, looking: bool = False) -> tuple[str, str]:
    """Draw a rig and a pace; where half days pass, mostly the rig that is the cheaper to simulate.

    Args:
        draw: of the seed.
        looking: whether somebody mostly looks before a trial is decided, as a rule for production has it.
    """
    pace = draw.choices((*QUICK, "plain", "long"), (4, 8, 1, 1, 1, 1) if looking else (8, 4, 2, 1, 1, 2))[0]
    return draw.choices(SCENARIOS, (1, 2) if pace == "long" else (1, 1))[0], pace
