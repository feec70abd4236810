"""The program's entry: catches signals before anything is imported that takes time, then hands over to the verbs."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

from rigctl.signals import Signals

STDOUT, STDERR = 1, 2
MOVING = frozenset({"run", "operate", "demo", "safe"})
"""Verbs that move something."""


def main() -> None:
    """Run the verb on the command line.

    A verb that moves things is ended by a signal only once everything is safe, any other one by the system.
    """
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    moving, signals = verb in MOVING, Signals()
    with signals.caught() if moving else nullcontext():
        _open_closed_streams()
        from rigctl.console import cli  # noqa: PLC0415  # not before signals are caught

        cli.main(signals if moving else None)


def _open_closed_streams() -> None:
    """Keep the numbers of closed streams from the files opened later: what is printed would be written into those."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(STDOUT, "w", encoding="utf-8")  # noqa: SIM115  # while the process lives
    sys.stderr = sys.stderr or open(STDERR, "w", encoding="utf-8")  # noqa: SIM115
