"""What the second check works with: sections that have the right shape, units, and where findings go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path as FilePath

from rigctl.config.document import Path
from rigctl.config.findings import Findings, unknown
from rigctl.config.schema import OutcomeSection, RigConfig
from rigctl.config.units import Units


@dataclass(frozen=True, slots=True)
class Context:
    """What every builder needs."""

    config: RigConfig
    units: Units
    findings: Findings
    declared: Mapping[str, frozenset[str]]
    """Names in each section of the file, also those whose entries do not hold."""
    folder: FilePath

    @property
    def outcomes(self) -> Sequence[tuple[Path, OutcomeSection]]:
        """All outcomes and where they stand, the first one first."""
        further = [(("further_outcomes", i), section) for i, section in enumerate(self.config.further_outcomes)]
        return [(("outcome",), self.config.outcome), *further]

    def known(self, path: Path, name: str, sections: Sequence[str], what: str) -> bool:
        """Whether `name` is declared in one of the sections; if not, that is a finding."""
        names = sorted(set().union(*(self.declared[s] for s in sections)))
        if name not in names:
            self.findings.add(path, unknown(name, names, f"a {what}"))
        return name in names

    def pair(self, path: Path, given: Sequence[float | str], unit: str) -> tuple[float, float] | None:
        """[low, high] in `unit`; None (and a finding) unless it rises."""
        what = f"in {unit}, like the variable"
        values = [self.findings.attempt((*path, i), None, self.units.to, v, unit, what) for i, v in enumerate(given)]
        low, high = values
        if low is None or high is None:
            return None
        if not (isfinite(low) and isfinite(high) and low < high):
            self.findings.add(path, f"got [{low:g}, {high:g}], must rise from low to high")
            return None
        return low, high
