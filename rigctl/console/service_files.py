"""Where units are kept, and whose they are: one that somebody else wrote, or has edited, is not overwritten unasked."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

from rigctl.errors import UsageError
from rigctl.files import whole

SYSTEM: Final = Path("/etc/systemd/system")
_MARK: Final = re.compile(r"# Written by `rigctl service` for (?P<config>.*) \(sha256 (?P<sum>[0-9a-f]{64})\)\n")


def folder(*, own: bool) -> Path:
    """Return where units are kept: the system's, or a person's own."""
    if not own:
        return SYSTEM
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(configured) if configured else Path.home() / ".config") / "systemd" / "user"


def marked(text: str, config: Path) -> str:
    """Return a unit under a line that says what it was made from, and by which a later edit is noticed."""
    return f"# Written by `rigctl service` for {config} (sha256 {_sum(text)})\n{text}"


def install(path: Path, text: str, *, force: bool) -> None:
    """Put a unit there, whole or not at all.

    Raises:
        UsageError: another is there, or it cannot be written.
    """
    stands = "" if force else _why_not(path, text)
    if stands:
        raise UsageError(f"{path}: {stands}; look at it, then overwrite it with --force")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as new:
            new.write_text(text, encoding="utf-8")
            new.chmod(0o644)
    except OSError as error:
        remedy = "call it with sudo, or install it for yourself with --user"
        raise UsageError(f"{path}: cannot be written ({error.strerror}); {remedy}") from error


def _why_not(path: Path, text: str) -> str:
    """Say whose the unit is that is there already; empty: there is none, or it is ours to overwrite."""
    try:
        there = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    old, new = _MARK.match(there), _MARK.match(text)
    if old is None:
        return "is there already, and was not written by `rigctl service`"
    if new is not None and old["config"] != new["config"]:
        return f"runs another configuration, {old['config']}"
    return "" if old["sum"] == _sum(there[old.end() :]) else "was edited since it was written"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
