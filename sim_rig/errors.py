"""Every error the simulated rig raises on purpose, in one tree.

```
SimError
├── UsageError      the command line asks for something that does not exist
├── DataError       an array file is missing or does not hold
├── ListenError     a port, directory or socket cannot be used
├── ControlError    a request on the control socket is not understood
├── PlantError      the physics was asked for something that makes no sense
├── NotUnderstood   an EZO circuit answers `*ER` (faces/ezo.py); never leaves it
└── Refusal         a Modbus request is answered with an exception code
```
"""

from __future__ import annotations


class SimError(Exception):
    """Root of every error the simulated rig raises on purpose."""


class UsageError(SimError):
    """The command line asks for something that does not exist."""


class DataError(SimError):
    """An array file is missing or does not hold what it should."""


class ListenError(SimError):
    """A port, directory or socket cannot be used."""


class ControlError(SimError):
    """A request on the control socket is not understood."""


class PlantError(SimError):
    """The physics was asked for something that makes no sense."""


class Refusal(SimError):
    """A Modbus request is answered with an exception code (Modbus application protocol 1.1b3, section 7)."""

    def __init__(self, code: int, why: str) -> None:
        self.code = code
        super().__init__(f"exception {code:02X}: {why}")
