"""Second check, who is told what: where secrets are kept, times and zones, files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from rigctl.config.findings import Context
from rigctl.config.sections import SecretSection
from rigctl.errors import KeyPath, UsageError
from rigctl.rig.protocols import Severity
from rigctl.telling import MetricsSpec, NotifySpec, Secret, Telling

LEAST_ALIVE_S: Final = 60.0


def build_telling(context: Context) -> Telling:
    """Return who is told what; secrets are looked for if the rig is to be run, and are not kept."""
    return Telling(_notify(context), _metrics(context))


def _notify(context: Context) -> NotifySpec | None:
    section, findings = context.config.notify, context.findings
    if section is None:
        return None
    urls = None if section.urls is None else _secret(context, ("notify", "urls"), section.urls)
    alive, every_s = None, 900.0
    if section.alive is not None:
        alive = _secret(context, ("notify", "alive", "url"), section.alive.url)
        path: KeyPath = ("notify", "alive", "every")
        every_s = section.alive.every
        if every_s < LEAST_ALIVE_S:
            findings.add(path, f'got "{findings.given(path)}", must be at least 1 min')
    if section.zone is not None:
        try:
            ZoneInfo(section.zone)
        except (KeyError, OSError, ValueError):  # not there, or no name of one at all
            findings.add(("notify", "zone"), f'got "{section.zone}", must be a zone such as Europe/Berlin')
    if urls is None and alive is None and not findings.told_below(("notify",)):
        findings.add(("notify",), "tells nobody, must have urls, alive or both")
    if urls is None and section.daily is not None and alive is not None:
        findings.add(("notify", "daily"), "is told to nobody, must have urls beside it")
    return NotifySpec(
        urls=urls,
        at_least=Severity[section.at_least],
        alive=alive,
        alive_every_s=every_s,
        daily=section.daily or "",
        zone=section.zone or "",
    )


def _secret(context: Context, path: KeyPath, section: SecretSection) -> Secret:
    file = "" if section.file is None else str((context.folder / section.file).expanduser().absolute())
    secret = Secret(file, section.env or "")
    if context.to_run:
        try:
            secret.lines()
        except UsageError as error:  # no reason not to run the rig
            context.findings.warn(path, f"nobody can be told: {error}")
    return secret


def _metrics(context: Context) -> MetricsSpec | None:
    section, findings = context.config.metrics, context.findings
    if section is None:
        return None
    if section.textfile is None and section.port is None and not findings.told_below(("metrics",)):
        findings.add(("metrics",), "are given to nobody, must have textfile, port or both")
    if section.textfile is not None:
        path = Path(section.textfile)
        if not path.is_absolute() or path.suffix != ".prom" or ".." in path.parts:
            must = "must be an absolute path that ends in .prom, such as /var/lib/node_exporter/rigctl.prom"
            findings.add(("metrics", "textfile"), f'got "{section.textfile}", {must}')
        elif context.to_run and not path.parent.is_dir():
            findings.warn(("metrics", "textfile"), f"{path.parent} is not there, so nothing can be written; make it")
    return MetricsSpec(section.textfile or "", section.port or 0)
