"""Who it is that acts on a campaign from this machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping


def person(uid: int) -> str:
    """Return the name of a user of this machine, and the number."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = "(unknown)"
    return f"{name} (uid {uid})"


def this_person(environment: Mapping[str, str] = os.environ) -> str:
    """Return who runs this command; behind `sudo` the person, not root."""
    me, asked = person(os.getuid()), environment.get("SUDO_USER")
    return f"{asked} as {me}" if asked else me
