"""A line to the service manager (sd_notify), if there is one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


def notify(message: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send e.g. `READY=1` or `WATCHDOG=1` to `$NOTIFY_SOCKET`; returns whether it was sent.

    Protocol: sd_notify(3). A leading `@` means an abstract socket.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        # The manager not listening is its own affair; trials go on.
        out.setblocking(False)
        try:
            out.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return False
    return True
