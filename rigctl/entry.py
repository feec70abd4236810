"""The program's entry: catches signals before anything is imported that takes time, then hands over to the verbs."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import nullcontext

from rigctl.signals import Signals

STDIN, STDOUT, STDERR = 0, 1, 2
MOVING = frozenset({"run", "operate", "demo", "safe"})
"""Verbs that move something."""


def main() -> None:
    """Run the verb on the command line.

    A verb that moves things is ended by a signal only once everything is safe, any other one by the system.
    """
    gc.set_threshold(
        50_000, 20, 20
    )  # loading makes many objects and no garbage; looking for it takes a tenth of a start
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some reads all that is installed
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    moving, signals = verb in MOVING, Signals()
    with signals.caught() if moving else nullcontext():
        _mend_streams()
        from rigctl.console import cli  # noqa: PLC0415  # not before signals are caught

        cli.main(signals if moving else None)


def _mend_streams() -> None:
    """Keep the numbers of closed streams from the files opened later: what is printed would be written into those.

    What an encoding has no letter for is written out.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or open(STDIN, encoding="utf-8")  # noqa: SIM115  # while the process lives, as the others
    sys.stdout = sys.stdout or open(STDOUT, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(STDERR, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error has it
