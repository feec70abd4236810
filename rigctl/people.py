"""Who acts from this machine, and what a person may not read or write here."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rigctl import system
from rigctl.errors import reason


def person(uid: int) -> str:
    """Return the name of a user of this machine, and the number."""
    pwd = system.module("pwd")
    if pwd is None:
        return getpass.getuser()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = "(unknown)"
    return f"{name} (uid {uid})"


def this_person(environment: Mapping[str, str] = os.environ) -> str:
    """Return who runs this command; behind `sudo` the person, not root."""
    me, asked = person(os.getuid() if hasattr(os, "getuid") else 0), environment.get("SUDO_USER")
    return f"{asked} as {me}" if asked else me


def barred(path: Path, error: OSError) -> str:
    """Say that this person may not use a file, whose it or the nearest folder that can be seen is, and what to do."""
    place, me = path, system.user()
    owner = me
    for place in (path, *path.parents):
        with suppress(OSError):
            owner = system.owner(place.stat())
            break
    if owner == me:
        return f"{path}: {reason(error)}; make {place} one that you may read and write"
    mine = f"{place} belongs to {person(owner)}, and this is {person(me)}"
    return f"{path}: {reason(error)}: {mine}; run it as the owner (`sudo -u '#{owner}' rigctl ...`)"
