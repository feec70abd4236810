"""The program's entry: catches signals before anything is imported that takes time, then hands over to the verbs."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from rigctl.signals import Signals

MOVING = frozenset({"run", "demo", "safe"})
"""Verbs that move something."""


def main() -> None:
    """Run the verb on the command line.

    A verb that moves things is ended by a signal only once everything is safe, any other one by the system.
    """
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    moving, signals = verb in MOVING, Signals()
    with signals.caught() if moving else nullcontext():
        from rigctl.console import cli  # noqa: PLC0415  # not before signals are caught

        cli.main(signals if moving else None)
