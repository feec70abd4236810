"""Collects everything wrong with a configuration, so that all of it is reported at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from rigctl.config.document import Document
from rigctl.config.schema import RigConfig, VariableSection
from rigctl.config.units import Units
from rigctl.errors import ConfigError, KeyPath, Mistake
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.kinds import Clash
from rigctl.options import placed
from rigctl.plugins import did_you_mean
from rigctl.rig.protocols import Device
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec, OutcomeSpec

T = TypeVar("T")


class Findings:
    """Problems found so far.

    A part of the file that failed a first check is muted: what follows from its absence is no second problem.
    """

    def __init__(self, document: Document, mistakes: Iterable[Mistake] = ()) -> None:
        self._document = document
        self._mistakes = list(mistakes)
        self._warnings: list[Mistake] = list(document.doubts)
        self._muted: set[KeyPath] = set(document.unreadable)
        self.strays: set[KeyPath] = set()
        """Keys that belong elsewhere: what they name is not declared by them."""

    def add(self, path: KeyPath, flaw: Flaw) -> None:
        if not self.muted(path):
            self._mistakes.append(self._document.mistake(path, flaw))

    def add_elsewhere(self, mistakes: Iterable[Mistake]) -> None:
        """Add what is wrong with another file that this one names, once."""
        self._mistakes += [m for m in mistakes if m not in self._mistakes]

    def told(self, path: KeyPath) -> bool:
        """Tell whether something has been found at `path` already, or it is muted."""
        return self.muted(path) or any(m.path == path for m in self._mistakes)

    def told_below(self, path: KeyPath) -> bool:
        """Tell whether something has been found at `path` or below it."""
        return self.told(path) or any(m.path[: len(path)] == path for m in self._mistakes)

    def warn(self, path: KeyPath, what: Flaw | str) -> None:
        """Note what a person should know but may want, unless it stands in a muted part."""
        if not self.muted(path):
            self._warnings.append(self._document.mistake(path, what if isinstance(what, Flaw) else Flaw(what)))

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(map(str, sorted(self._warnings, key=attrgetter("line"))))

    def mute(self, path: KeyPath) -> None:
        self._muted.add(path)

    def disown(self, path: KeyPath) -> None:
        """Mute a key that belongs elsewhere."""
        self.mute(path)
        self.strays.add(path)

    def muted(self, path: KeyPath) -> bool:
        """Tell whether `path` is at or below something that already failed."""
        return any(path[:i] in self._muted for i in range(1, len(path) + 1))

    def given(self, path: KeyPath) -> Any:
        """Return what the file says at a path; None where it says nothing."""
        value: Any = self._document.data
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else value[step]
        return value

    def worded(self, section: KeyPath, clash: Clash) -> Flaw:
        """Put what is wrong with a key beside others in words, with what the file says of them."""
        beside = {key: self.given((*section, key)) for key in clash.beside}
        allowed, given = clash.allowed.format(**beside), self.given((*section, clash.key)) if clash.key else None
        if given is None:
            return Flaw(clash.lead, allowed, clash.remedy)
        return got(given, allowed, clash.remedy, lead=clash.lead and f", {clash.lead}")

    @property
    def count(self) -> int:
        return len(self._mistakes)

    def __bool__(self) -> bool:
        return bool(self._mistakes)

    def whole(self, section: str) -> bool:
        """Tell whether nothing in a section of the file was muted."""
        return not any(path[0] == section for path in self._muted)

    def attempt(self, path: KeyPath, instead: T, make: Callable[..., T], *args: Any) -> T:
        """Return `make(*args)`; a ValueError becomes a finding at `path`, or at the key below that it names."""
        try:
            return make(*args)
        except ValueError as error:
            self.add(*placed(path, flaw_of(error), RigConfig))
            return instead

    def raise_any(self) -> None:
        if self._mistakes:
            first = self._document.file
            raise ConfigError(
                sorted(self._mistakes, key=lambda m: (m.file not in ("", first), m.file, m.line, m.column))
            )


def unknown(name: str, allowed: Sequence[str], what: str, where: str = "") -> Flaw:
    """Return `got "setle", must be WHAT: one of ...; did you mean "settle"?`."""
    if not allowed:
        return got(name, f"must be {what}, but there is none", "declare it, or take this out", where=where)
    return got(name, f"must be {what}: one of {', '.join(allowed)}", did_you_mean(name, allowed), where=where)


@dataclass(frozen=True, slots=True)
class Measure:
    """Names a variable or an outcome, with its unit."""

    path: KeyPath
    name: str
    unit: str | None
    """None: it is none, which is told."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Holds what every builder needs."""

    config: RigConfig
    units: Units
    findings: Findings
    declared: Mapping[str, frozenset[str]]
    """Names in each section of the file, also those whose entries do not hold."""
    folder: Path
    registry: Registry
    to_run: bool = False
    """Whether it is asked for a rig that is to be run: what follows is stricter then."""
    devices: Mapping[str, DeviceSpec | None] = field(default_factory=dict)
    """None: it does not hold, which is told."""
    made: Mapping[str, Device] = field(default_factory=dict)
    """Devices that hold, closed."""
    measures: Mapping[KeyPath, Measure] = field(default_factory=dict)
    """Variables and outcomes by the places of their sections."""

    def add(self, path: KeyPath, flaw: Flaw) -> None:
        self.findings.add(path, flaw)

    @property
    def outcomes(self) -> Sequence[tuple[KeyPath, OutcomeSpec]]:
        """Return all outcomes and where they stand, the first one first."""
        further = [(("further_outcomes", i), section) for i, section in enumerate(self.config.further_outcomes)]
        return [(("outcome",), self.config.outcome), *further]

    def measure_at(self, path: KeyPath) -> Measure | None:
        """Return the variable or outcome in whose unit quantities at a place are; None: there is none."""
        match path:
            case ("stop", *_):
                return self.measures.get(("outcome",))
            case ("today" | "reference", "at", name, *_):
                return self.measures.get(("variables", name))
            case ("dosing", name, *_):
                return self._driven_by(name)
            case ("safety", _, name, *_):
                return None if name in self.pumps else self._driven_by(name)
        return self.measures.get(path[:1]) or self.measures.get(path[:2])

    def _driven_by(self, actuator: str | int) -> Measure | None:
        """Return the variable that an actuator brings to a setpoint."""
        served = (n for n, v in self.config.variables.items() if v.doses is None and actuator in v.actuators)
        return self.measures.get(("variables", next(served, "")))

    @property
    def leading(self) -> Sequence[tuple[KeyPath, str, Mapping[str, float]]]:
        """Return the pumps that dose toward setpoints or give volumes: where they stand, and what goes along."""
        volumes = [(name, v.doses) for name, v in self.config.variables.items() if v.doses is not None]
        dosing = [(("dosing", pump), pump, section.with_) for pump, section in self.config.dosing.items()]
        return [*dosing, *((("variables", name, "doses"), its.pump, its.with_) for name, its in volumes)]

    @property
    def pumps(self) -> frozenset[str]:
        """Return every pump: those that lead, and those that go along."""
        return self.declared["dosing"].union(*({pump, *along} for _, pump, along in self.leading))

    @property
    def measured(self) -> Sequence[tuple[KeyPath, str, VariableSection | OutcomeSpec]]:
        """Return all that has a sensor: where it stands, its name and its section."""
        read = [(name, section) for name, section in self.config.variables.items() if section.doses is None]
        variables = [(("variables", name), name, section) for name, section in read]
        return [*variables, *((path, outcome.name, outcome) for path, outcome in self.outcomes)]

    def known(self, path: KeyPath, name: str, sections: Sequence[str], what: str) -> bool:
        """Tell whether `name` is declared in one of the sections; if not, that is a finding."""
        if any(self.findings.muted((s,)) for s in sections):
            return False  # told where the section stands
        names = sorted(set().union(*(self.declared[s] for s in sections)))
        if name not in names:
            self.findings.add(path, unknown(name, names, f"a {what}"))
        if not names:  # one message is enough, wherever else one is named
            self.findings.mute((sections[0],))
        return name in names
