"""Every error the simulated rig raises on purpose, in one tree: `SimError` and those right below it."""

from __future__ import annotations


class SimError(Exception):
    """Is the root of the tree."""


class CommandError(SimError):
    """Says that the command line asks for something that does not exist."""


class DataError(SimError):
    """Says that an array file is missing or does not hold what it should."""


class ListenError(SimError):
    """Says that a port, directory or socket cannot be used."""


class ControlError(SimError):
    """Says that a request on the control socket is not understood."""


class PlantError(SimError):
    """Says that the physics was asked for something that makes no sense."""


class NotUnderstood(SimError):
    """Makes an EZO circuit answer `*ER`; never leaves it."""


class Refusal(SimError):
    """Makes a Modbus unit answer with an exception code (Modbus application protocol 1.1b3, section 7)."""

    def __init__(self, code: int, why: str) -> None:
        self.code = code
        super().__init__(f"exception {code:02X}: {why}")
