"""How a variable varies when it is left alone: from the file's words to a marginal on the unit cube."""

from __future__ import annotations

import csv
from pathlib import Path as FilePath

from rigctl.config.context import Context
from rigctl.config.document import Path
from rigctl.config.findings import Findings, unknown
from rigctl.config.schema import DeclaredNatural, LearnedNatural, NaturalSection, TruncatedNormalNatural, UniformNatural
from rigctl.config.units import Units
from rigctl.core.marginals.families import Marginal, marginal_from_engineering
from rigctl.core.natural import Learned

PAIRS = ({"mean", "sd"}, {"loc", "scale"})


def marginal(
    context: Context, path: Path, section: NaturalSection, unit: str, bounds: tuple[float, float]
) -> Marginal | None:
    """The marginal of a variable with these bounds (in `unit`); None when it does not hold."""
    if "learned" not in section.model_fields_set:
        return _declared(context, path, section, unit, bounds)
    given = section.learned or LearnedNatural()
    prior = _declared(context, (*path, "learned", "prior"), given.prior, unit, bounds)
    return None if prior is None else Learned(prior, given.at_least)


def _declared(
    context: Context, path: Path, section: DeclaredNatural, unit: str, bounds: tuple[float, float]
) -> Marginal | None:
    units, findings = context.units, context.findings
    kind = next(iter(section.model_fields_set))
    path = (*path, kind)
    if section.empirical is not None:
        given = section.empirical
        read = _column(given, path, findings, context.folder) if isinstance(given, dict) else given
        values = [findings.attempt((*path, i), None, units.to, v, unit, f"in {unit}") for i, v in enumerate(read)]
        whole = [v for v in values if v is not None]
        if not whole or len(whole) < len(values):
            return None
        return findings.attempt(path, None, marginal_from_engineering, kind, {"sample": whole}, *bounds)
    parameters = _parameters(section.truncated_normal or section.uniform, unit, path, units, findings)
    if parameters is None:
        return None
    return findings.attempt(path, None, marginal_from_engineering, kind, parameters, *bounds)


def _parameters(
    section: TruncatedNormalNatural | UniformNatural | None, unit: str, path: Path, units: Units, findings: Findings
) -> dict[str, float] | None:
    given = {} if section is None else section.model_dump(exclude_none=True)
    if isinstance(section, TruncatedNormalNatural) and set(given) not in PAIRS:
        findings.add(path, f"got {', '.join(given) or 'nothing'}, must be mean and sd, or loc and scale")
        return None
    if section is None and path[-1] == "truncated_normal":
        findings.add(path, "got nothing, must be {mean, sd} or {loc, scale}")
        return None
    values = {k: findings.attempt((*path, k), None, units.to, v, unit, f"in {unit}") for k, v in given.items()}
    whole = {k: v for k, v in values.items() if v is not None}
    return whole if len(whole) == len(values) else None


def _column(source: dict[str, str], path: Path, findings: Findings, folder: FilePath) -> list[float]:
    """The numbers of a CSV column; empty, with findings, when something is wrong."""
    file = folder / source["file"]
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        findings.add((*path, "file"), f"cannot read {file}: {error}")
        return []
    headers = list(rows[0]) if rows else []
    if source["column"] not in headers:
        findings.add((*path, "column"), unknown(source["column"], [h for h in headers if h], "a column: "))
        return []
    numbers = []
    for i, row in enumerate(rows, start=2):
        try:
            numbers.append(float(row[source["column"]] or ""))
        except ValueError:
            findings.add(path, f"{file}:{i}: got {row[source['column']]!r}, must be a number")
    return numbers
