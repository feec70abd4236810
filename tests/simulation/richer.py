"""What a rig may have besides that changes its description: caps, interlocks, ramps, more pumps, wrong effects."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml

Config = dict[str, Any]
RICHER: Final = MappingProxyType(
    {
        "caps": ("greenhouse",),
        "interlocks": ("greenhouse", "lathe"),
        "slew": ("greenhouse", "lathe"),
        "pumps": ("greenhouse",),
        "ratio": ("greenhouse",),
        "rated": ("greenhouse", "lathe"),
        "frozen": ("greenhouse", "lathe"),
        "titres": ("greenhouse",),
        "dear": ("greenhouse", "lathe"),
        "strict": ("greenhouse", "lathe"),
    }
)
"""By what it is called: the rigs that have what it takes."""
MORE_PUMPS: Final = frozenset({"pumps", "ratio"})
RATED_KW: Final = MappingProxyType({"greenhouse": 9.0, "lathe": 30.0})
FROZEN_S: Final = 40.0
EFFECTS: Final = MappingProxyType({"ca_doser": "0.13 mM/mL", "ph_doser": "-0.022 pH/mL", "base_doser": "0.025 pH/mL"})
"""By pump: what it is said to do, wrongly: one falls short, the others go too far, and both ways."""
TITRES: Final = 2
"""Doses in which they are to get there."""
MOST_EUR: Final = MappingProxyType({"greenhouse": 0.35, "lathe": 0.135})
"""What a trial may cost, where that is little."""
STRICT: Final = MappingProxyType({"greenhouse": ("k", "0.1 mM"), "lathe": ("coolant", "0.05 L/min")})
"""A variable, and how near its setpoint it is to be: it has no time to get there."""
CALIBRATED_EVERY: Final = "15 min"
DAY_CAPS: Final = MappingProxyType({"ca_doser": 45.0, "ph_doser": 30.0})
"""By pump: mL in any 24 hours, where a trial takes half a day."""
CAPS: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "ca_doser": {"per_dose": 40.0, "per_hour": 110.0, "per_trial": 50.0, "per_day": 400.0},
        "ph_doser": {"per_dose": 20.0, "per_trial": 25.0, "per_hour": 70.0, "per_campaign": 400.0, "per_day": 400.0},
        "tank": {"per_hour": 140.0, "per_trial": 60.0, "per_campaign": 900.0},
    }
)
SLEWS: Final[Mapping[str, Mapping[str, tuple[float | None, float | None]]]] = MappingProxyType(
    {
        "greenhouse": {"b_valve": (15.0, 10.0), "nh4_valve": (None, 0.2), "k_valve": (3.0, None)},
        "lathe": {"coolant_valve": (3.0, 2.0), "annealer": (30.0, None)},
    }
)
"""By actuator: the largest step and the largest rate per second, in its variable's unit; None: any."""
INTERLOCKS: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = MappingProxyType(
    {
        "greenhouse": (
            {"name": "sour", "when": "ph < 3.5 pH or ph > 9.5 pH", "for": "4 s", "then": "hold"},
            {"name": "salty", "when": "ca > 13 mM and not (ph > 9 pH)", "then": "trip"},
        ),
        "lathe": (
            {"name": "fast", "when": "speed > 290 m/min", "until": "speed < 260 m/min", "for": "2 s", "then": "hold"},
            {"name": "wet", "when": "coolant >= 10 L/min", "for": "3 s", "then": "fail"},
            {"name": "torn", "when": "feed > 0.36 mm and depth > 1.8 mm", "then": "trip"},
            {"name": "hard", "when": "not (hardness < 272 HB)", "then": "safe", "for": "2 s"},
        ),
    }
)


def enriched(text: str, scenario: str, extras: frozenset[str], pace: str) -> str:
    """Return the description of a rig with these extras, of those in `RICHER`."""
    config: Config = yaml.safe_load(text)
    safety = config["safety"]
    safety["safe_state"] = dict.fromkeys(safety["safe_state"], "off")  # `off` is no word in YAML 1.1
    safety.setdefault("limits", {})
    for variable in config["variables"].values():
        low, high = variable["range"]
        if pace != "long":  # what settles for seconds is far off its setpoint, and that is no fault here
            variable["follows"] = f"{high - low:g} {variable['unit']}" if variable["unit"] != "1" else high - low
    for name in sorted(extras & RICHER.keys()):
        _EDITS[name](config, scenario)
    if scenario == "greenhouse" and pace == "long":
        for pump, most_ml in DAY_CAPS.items():
            safety["limits"][pump] = {"per_dose": "30 mL", "per_day": f"{most_ml:g} mL"}
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _with_caps(config: Config, _: str) -> None:
    limits = config["safety"]["limits"]
    for name, caps in CAPS.items():
        said = {span: f"{most_ml:g} mL" for span, most_ml in caps.items()}
        if name == "tank":
            config["safety"]["tanks"] = {name: {"pumps": ["ca_doser", "ph_doser"], **said}}
        else:
            limits[name] = {**limits.get(name, {}), **said}


def _with_interlocks(config: Config, scenario: str) -> None:
    config["safety"]["interlocks"] = [dict(interlock) for interlock in INTERLOCKS[scenario]]


def _with_slew(config: Config, scenario: str) -> None:
    units = {v["actuator"]: v["unit"] for v in config["variables"].values() if isinstance(v.get("actuator"), str)}
    for name, (step, rate_per_s) in SLEWS[scenario].items():
        own = config["safety"]["limits"].setdefault(name, {})
        if step is not None:
            own["max_step"] = f"{step:g} {units[name]}"
        if rate_per_s is not None:
            own["max_rate"] = f"{60.0 * rate_per_s:g} {units[name]}/min"


def _with_more_pumps(config: Config) -> None:
    for name in ("base", "feed"):
        config["buses"][name] = f"serial://sim/{name}_pump"
        config["devices"][f"{name}_doser"] = {"driver": "ezo-pmp", "bus": name}


def _with_pumps(config: Config, _: str) -> None:
    """Acid and base for one variable, and a volume that is a variable itself."""
    _with_more_pumps(config)
    variables, dosing, limits = config["variables"], config["dosing"], config["safety"]["limits"]
    variables["ph"] |= {"range": [5.8, 6.8], "natural_range": [5, 7], "actuator": ["ph_doser", "base_doser"]}
    variables["ph"].pop("follows", None)
    judged = {**dosing["ph_doser"]}
    judged = {key: value for key, value in judged.items() if key not in ("treatment", "treat")}
    dosing["ph_doser"] = {**judged, "effect": "-0.04 pH/mL"}
    dosing["base_doser"] = {**judged, "effect": "0.045 pH/mL"}
    doses = {"pump": "feed_doser", "mix": "5 s", "otherwise": "2 mL"}
    variables["feed"] = {"unit": "mL", "range": [0, 40], "step": 5, "doses": doses}
    for name in ("base_doser", "feed_doser"):
        limits[name] = {"per_dose": "80 mL", "per_day": "10 L"}
    config["safety"]["safe_state"].pop("alkaliser", None)
    config["control_sets"] = [["ca", "b"], ["nh4", "k"], ["k", "ph"], ["ph", "feed"], ["feed", "b"]]
    config["meters"].append({"name": "feed", "kind": "volume", "device": "feed_doser", "price": "50 EUR/L"})


def _with_ratio(config: Config, _: str) -> None:
    """Half as much feed goes along with calcium."""
    _with_more_pumps(config)
    del config["buses"]["base"], config["devices"]["base_doser"]
    config["dosing"]["ca_doser"]["with"] = {"feed_doser": 0.5}
    config["safety"]["limits"]["feed_doser"] = {"per_dose": "80 mL", "per_day": "10 L"}


def _with_rated(config: Config, scenario: str) -> None:
    for meter in config["meters"]:
        if meter["kind"] == "energy":
            meter |= {"rated": f"{RATED_KW[scenario]:g} kW", "max_per_trial": "90 kWh"}


def _with_frozen(config: Config, scenario: str) -> None:
    name = "ph" if scenario == "greenhouse" else "speed"
    config["variables"][name] |= {"frozen_after": f"{FROZEN_S:g} s", "watch_every": "2 s", "stale_after": "20 s"}


def _with_titres(config: Config, _: str) -> None:
    for pump in EFFECTS.keys() & config["dosing"].keys():
        config["dosing"][pump] |= {"effect": EFFECTS[pump], "max_doses": TITRES}


def _with_dear(config: Config, scenario: str) -> None:
    config["budget"] = {"total": config["budget"], "max_per_trial": f"{MOST_EUR[scenario]:g} EUR"}


def _with_strict(config: Config, scenario: str) -> None:
    """A variable must be at its setpoint, and a probe that judges doses is due again and again."""
    name, near = STRICT[scenario]
    config["variables"][name]["follows"] = near
    if scenario == "greenhouse":
        config["devices"]["ph_probe"]["calibration"] = {"every": CALIBRATED_EVERY}


_EDITS: Final[Mapping[str, Callable[[Config, str], None]]] = MappingProxyType(
    {
        "caps": _with_caps,
        "interlocks": _with_interlocks,
        "slew": _with_slew,
        "pumps": _with_pumps,
        "ratio": _with_ratio,
        "rated": _with_rated,
        "frozen": _with_frozen,
        "titres": _with_titres,
        "dear": _with_dear,
        "strict": _with_strict,
    }
)
