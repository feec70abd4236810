"""A configuration file -> everything a campaign is started with, or every error in it at once.

The first check is of the sections' shape. Parts that do not have it are reported, then left out, which lets the second
check (units, names, consistency) find what is wrong elsewhere in the same run. The same shape, with the options of
drivers and policies, is the JSON schema for completion and checks in an editor.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_letters
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rigctl.config.devices import build_devices, made_of
from rigctl.config.document import Document, read
from rigctl.config.findings import CheckContext, Findings, unknown
from rigctl.config.forecast import by_control_set
from rigctl.config.hardware import build_plausible, build_rig
from rigctl.config.including import as_one_text, whole_document
from rigctl.config.inspect_rig import check_budget, inspect_rig
from rigctl.config.problem import build_problem, build_today
from rigctl.config.reading import measures_of, read_late
from rigctl.config.safety import with_windows
from rigctl.config.schema import PolicySection, RigConfig
from rigctl.config.units import Units
from rigctl.core.experiment.policy import Policy, mistakes_of
from rigctl.core.experiment.problem import Problem
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.errors import ConfigError, KeyPath, Mistake
from rigctl.flaws import Flaw, got
from rigctl.kinds import LONGEST_NAME, NAME
from rigctl.options import is_unknown, keys_at, keys_of, made, path_of, problems_of
from rigctl.rig.registry import Registry
from rigctl.rig.spec import RigSpec
from rigctl.telling import Telling


@dataclass(frozen=True, slots=True)
class Overrides:
    """Says what the command line changes of a file."""

    buses: Mapping[str, str] = field(default_factory=dict)
    """Bus (or device) name -> URL."""
    budget: str | None = None
    """With currency, e.g. `20 EUR`."""
    seed: int | None = None
    max_trials: int | None = None
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """Carries a configuration that holds; everything in it is converted: plain numbers, names that carry the unit."""

    path: Path
    text: str
    """As the user wrote it; put together where it includes others."""
    name: str
    currency: str
    seed: int
    max_trials: int | None
    problem: Problem
    policy: Policy
    policy_name: str
    policy_options: Mapping[str, Any]
    """Every option of the policy, defaults included; JSON."""
    rig: RigSpec
    """Without devices when a person does the trials."""
    document: Document = field(repr=False)
    telling: Telling = field(default_factory=Telling)
    today: Mapping[str, float] | None = None
    """Setpoints of today's practice, engineering units; None where it is not said."""
    plausible: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What variables and outcomes can be, by name, as far as it is said."""
    warnings: tuple[str, ...] = ()
    """What a person should know but may want, each with file, line and key."""

    @property
    def wired(self) -> bool:
        return bool(self.rig.devices)

    @property
    def outcome_unit(self) -> str:
        return self.rig.outcomes[0].unit

    @property
    def worth(self) -> float | None:
        """Return what one unit of outcome is worth, currency units; None where it is not said."""
        return self.rig.outcomes[0].worth

    @property
    def tolerance(self) -> float:
        """Return the tolerance a recommendation is made at."""
        return float(self.policy_options.get("tolerance", 0.0))


def load(
    path: Path | str, overrides: Overrides | None = None, registry: Registry | None = None, *, to_run: bool = False
) -> LoadedConfig:
    """Read, check and convert a configuration file. Arguments and errors as `load_text`."""
    file = Path(path)
    return load_text(read(file), file, overrides, registry, to_run=to_run)


def load_text(
    text: str, path: Path, overrides: Overrides | None = None, registry: Registry | None = None, *, to_run: bool = False
) -> LoadedConfig:
    """Check and convert a configuration.

    Args:
        text: the YAML.
        path: where it comes from; paths in it are from there.
        overrides: what the command line changes.
        registry: where drivers come from; None: the installed ones.
        to_run: also refuse what no rig should be run with; looking at a past campaign, or going safe, does without.

    Raises:
        ConfigError: it does not hold; carries every problem with file, line and key.
    """
    document, mistakes = whole_document(text, path)
    text = as_one_text(document) if document.files else text
    document, refused = _overridden(document, overrides or Overrides())
    findings = Findings(document, [*mistakes, *refused])
    context = _context(document, findings, path.parent, registry or Registry.installed(), to_run=to_run)
    config = context.config
    problem, today = build_problem(context), build_today(context)
    rig = with_windows(context, build_rig(context), problem)
    if to_run and rig.devices:
        inspect_rig(context, rig, problem)
    if problem is not None and not context.findings:
        problem = dataclasses.replace(problem, forecast_costs=by_control_set(rig, problem))
    if to_run and problem is not None:
        check_budget(context, rig, problem)
    policy = _policy(config.policy, problem, findings)
    findings.raise_any()
    if problem is None or policy is None:  # cannot be: whatever is None left a finding
        raise ConfigError([Mistake(str(path), Flaw("does not hold"))])
    return LoadedConfig(
        path=path,
        text=text,
        name=config.rig,
        currency=config.currency,
        seed=config.seed,
        max_trials=config.max_trials,
        problem=problem,
        policy=policy,
        policy_name=config.policy.name,
        policy_options=dataclasses.asdict(policy),  # type: ignore[call-overload]  # policies are dataclasses
        rig=rig,
        document=document,
        telling=_telling(context),
        today=today,
        plausible=build_plausible(context),
        warnings=findings.warnings,
    )


def name_of(path: Path) -> str:
    """Return the name of the rig, whatever else of the file does not hold: to find a campaign nothing more is needed.

    Raises:
        ConfigError: it cannot be read, or names no rig.
    """
    name = whole_document(read(path), path)[0].data.get("rig")
    if isinstance(name, str) and len(name) <= LONGEST_NAME and re.match(NAME, name):
        return name
    return load(path).name


def load_rig(text: str, path: Path) -> RigSpec:
    """Return the rig of a configuration, for who neither decides nor tells what trials cost. Errors as `load_text`."""
    document, mistakes = whole_document(text, path)
    findings = Findings(document, mistakes)
    context = _context(document, findings, path.parent, Registry.installed(), to_run=False)
    rig = with_windows(context, build_rig(context), build_problem(context))
    findings.raise_any()
    return rig


def _context(document: Document, findings: Findings, folder: Path, registry: Registry, *, to_run: bool) -> CheckContext:
    """Return the sections with all their values read, as far as they hold."""
    config = check_shape(document, findings)
    units = Units(None if findings.muted(("currency",)) else config.currency)
    context = CheckContext(config, units, findings, _declared(document, findings), folder, registry, to_run)
    devices, measures = build_devices(context), measures_of(context)
    context = dataclasses.replace(context, devices=devices, made=made_of(devices, registry), measures=measures)
    config = read_late(context, config)
    # devices are made before anything is read, as what is read depends on what they can do
    timed = {
        name: device and dataclasses.replace(device, timeout_s=config.devices[name].timeout)
        for name, device in devices.items()
    }
    return dataclasses.replace(context, config=config, devices=timed)


def _declared(document: Document, findings: Findings) -> Mapping[str, frozenset[str]]:
    """Return the names in each section, also those whose entries do not hold."""
    sections = {name: document.data.get(name) for name in ("variables", "devices", "dosing", "buses")}
    return {
        name: frozenset(key for key in section if (name, key) not in findings.strays)
        for name, section in ((n, s if isinstance(s, dict) else {}) for n, s in sections.items())
    }


def _overridden(document: Document, overrides: Overrides) -> tuple[Document, list[Mistake]]:
    """Apply the command line's changes; return the document and those that fit nowhere."""
    data: dict[str, Any] = dict(document.data)
    origins: dict[KeyPath, str] = {}
    for key in ("budget", "seed", "max_trials"):
        value = getattr(overrides, key)
        if key == "budget" and value is not None and not value.strip().endswith(tuple(ascii_letters)):
            value = f"{value} {data.get('currency')}"  # on a command line the rig's one currency goes without saying
        if value is not None:
            data[key] = {**data[key], "total": value} if isinstance(data.get(key), dict) else value
            origins[(key,)] = f"--{key.replace('_', '-')}"
    if overrides.speedup is not None:
        clock = data.get("clock")
        data["clock"] = {**(clock if isinstance(clock, dict) else {}), "speedup": overrides.speedup}
        origins[("clock",)] = "--speed"
    refused = []
    for name, url in overrides.buses.items():
        buses, devices = data.get("buses"), data.get("devices")
        option = f"--bus {name}={url}"
        if isinstance(buses, dict) and name in buses:
            data["buses"] = {**buses, name: url}
            origins[("buses", name)] = option
        elif isinstance(devices, dict) and isinstance(devices.get(name), dict):
            data["devices"] = {**devices, name: {**devices[name], "bus": url}}
            origins[("devices", name, "bus")] = option
        else:
            refused.append(Mistake(option, unknown(name, sorted(buses or ()), "a bus or device")))
    return dataclasses.replace(document, data=data, origins=origins), refused


def _policy(section: PolicySection, problem: Problem | None, findings: Findings) -> Policy | None:
    names = policy_names()
    if section.name not in names:
        findings.add(("policy", "name"), unknown(section.name, names, "an installed policy"))
        return None
    cls, options = policy_class(section.name), section.model_extra or {}
    policy: Policy | None
    policy, wrong = made(cls, options, f"policy {section.name}", ("name",))
    for below, flaw in wrong:
        findings.add(("policy", *below), flaw)
    if problem is not None and policy is not None:
        for key, what in mistakes_of(policy, problem):
            findings.add(tuple(key.split(".")), what if isinstance(what, Flaw) else Flaw(what))
    return policy


def _telling(context: CheckContext) -> Telling:
    """Return who is told what; secrets are looked for if the rig is to be run, and are not kept."""
    told = Telling(context.config.notify, context.config.metrics)
    if context.to_run and told.metrics is not None and told.metrics.textfile is not None:
        folder = Path(told.metrics.textfile).parent
        if not folder.is_dir():
            context.findings.warn(("metrics", "textfile"), f"{folder} is not there, so nothing can be written; make it")
    return told


# its shape ------------------------------------------------------------------------------------------------------------


_ENTRIES: Final = ("variables", "devices", "dosing", "buses", "known_costs", "meters")
"""Sections whose entries stand on their own: a bad one is left out, the others are checked on."""

_HARMLESS: Final[Mapping[str, Any]] = {
    "rig": "rig",
    "currency": "XXX",
    "budget": "1 XXX",
    "variables": {},
    "control_sets": "all",
    "outcome": {"name": "outcome", "unit": "1"},
}
"""What stands in for a required section that is missing or bad."""

_STAND_INS: Final[Mapping[str, Mapping[str, Any]]] = {
    "meters": {"name": "left-out", "kind": "fixed", "price": "0 XXX"},
    "safety": {"name": "left-out", "when": "", "then": "warn"},
}
"""What stands in for an entry of a list (meters, interlocks): the others keep their places."""


def check_shape(document: Document, findings: Findings) -> RigConfig:
    """Return the sections that hold; the others are in `findings`, muted, and replaced by something harmless."""
    raw: dict[str, Any] = copy.deepcopy(dict(document.data))
    _unindented(raw, findings)
    # each round leaves larger parts out: single unknown keys, then entries, then whole sections
    for depth_of in (_key_depth, _entry_depth, lambda _: 1):
        try:
            return RigConfig.model_validate(raw)
        except ValidationError as error:
            told, meant = problems_of(error, RigConfig)
            for path, flaw in told:
                findings.add(path, flaw)
            for details in error.errors(include_url=False):
                part = path_of(details)[: depth_of(details)]
                findings.mute(part)
                _leave_out(raw, part)
            for path in meant:
                findings.mute(path)
            raw = {**_HARMLESS, **raw}
    return RigConfig.model_validate(raw)


def _unindented(raw: dict[str, Any], findings: Findings, above: KeyPath = ()) -> None:
    """Find sections, and entries of sections, whose keys stand behind them as far left, and take these out."""
    known = [] if above else list(keys_of(RigConfig))
    keys = list(raw)
    for name in keys:
        path = (*above, name)
        if isinstance(raw.get(name), dict) and not above and keys_at(RigConfig, (name, "")) and name in known:
            _unindented(raw[name], findings, path)
        if name not in raw or raw[name] is not None:
            continue
        below = set(keys_at(RigConfig, path)).difference(known)
        strays = list(itertools.takewhile(below.__contains__, keys[keys.index(name) + 1 :]))
        if strays:
            must = f"must be a mapping: {', '.join(strays)} stand as far left"
            findings.add(path, got(None, must, "write two blanks before each"))
            findings.mute(path)
            raw.pop(name)
            for key in strays:
                raw.pop(key)
                findings.disown((*above, key))


def _key_depth(details: ErrorDetails) -> int:
    return len(details["loc"]) if is_unknown(details) else _entry_depth(details)


def _entry_depth(details: ErrorDetails) -> int:
    path = path_of(details)
    if path[:1] == ("safety",) and len(path) > 2:
        return 3
    return 2 if path[0] in _ENTRIES and len(path) > 1 else 1


def _leave_out(raw: dict[str, Any], path: KeyPath) -> None:
    holder: Any = raw
    for step in path[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):  # an enclosing part has been removed already
            return
    last = path[-1]
    if isinstance(holder, list) and isinstance(last, int):
        holder[last] = dict(_STAND_INS[str(path[0])])
    elif isinstance(holder, MutableMapping):
        holder.pop(last, None)
