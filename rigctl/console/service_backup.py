"""Two more units: a daily copy of the journal to somewhere else, also while the campaign runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rigctl.console.service_unit import Service, account, command_line, directory, doubled, hardening, text_of

KEPT: Final = 30
"""Backups, so a month of them."""


def backup_units(service: Service, to: Path) -> Mapping[str, str]:
    """Return the units that copy the journal into a directory once a day, by their names."""
    name = f"rigctl-backup-{service.rig}"
    what = ("Unit", (f"Description=Copy the journal of rigctl campaign {service.rig}",))
    copying = text_of((what, ("Service", _copy(service, to))))
    return {f"{name}.service": copying, f"{name}.timer": text_of(_timer(service.rig))}


def _copy(service: Service, to: Path) -> Iterator[str]:
    there = doubled(str(to))
    words = (*service.command, "backup", "--state", service.directory, "--to", there, "--keep", str(KEPT))
    alone = replace(service, urls=(), speaks_out=False, written=(*service.written, to))
    yield "Type=oneshot"
    yield f"ExecStart={command_line(words)}"
    yield "Nice=10"
    yield from account(alone)
    yield from directory(alone)
    yield from hardening(alone)


def _timer(rig: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "Unit", (f"Description=Copy the journal of rigctl campaign {rig} every day",)
    missed = "# After a night without power, at the next boot."
    yield "Timer", ("OnCalendar=daily", "RandomizedDelaySec=1h", missed, "Persistent=yes")
    yield "Install", ("WantedBy=timers.target",)
