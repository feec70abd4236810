"""Every error rigctl raises on purpose, in one tree.

```
RigctlError                     exit 1
├── UsageError                  exit 2   a command was called wrongly
│   └── ExperimentFileError              a file holds no experiment that can be loaded, or cannot be written
├── ConfigError                 exit 2   the configuration does not hold; carries every problem found
│   └── Ambiguous                       a table can be meant in two ways, and nobody says which
├── PolicyError                          a policy cannot decide, or proposed what it may not
│   └── NoAnswer                         it was late, or its process ended
├── PluginError                 exit 2   a policy, driver or line scheme cannot be used
│   ├── UnknownPlugin                    nothing of this name is installed
│   ├── BrokenPlugin                     it is installed but does not load, or is not what it should be
│   └── DriverNonConformance             it does not do what every driver must
├── DeviceError                          something between us and an instrument
│   ├── DeviceTimeout                    no (complete) answer in time; the line is not trusted until flushed
│   ├── DeviceBusy                       it asked to be asked later
│   ├── DeviceFault                      it refused (Modbus exception, *ER, SCPI error): retrying will not help
│   ├── GarbledReply                     an answer arrived that cannot be one (CRC, syntax, wrong sender)
│   ├── IdentityMismatch                 another instrument answers than the configuration names
│   ├── PortUnavailable                  the port is missing, or held:
│   │   └── PortHeld            exit 4   by another process
│   ├── ReadBackMismatch                 the actuator is not where it was sent
│   └── TrialsStopped                    no trial may begin: not everything is safe, or too many failed
├── GuardRefused                         a command to an actuator was out of range, over a cap, or not a number
├── Tripped                     exit 3   the trip is latched; only a person resets it
├── JournalError                         the journal cannot be used
│   ├── JournalCorrupt                   its contents do not check out
│   ├── JournalUnwritable                disk full or read-only: nothing may move
│   │   └── JournalBusy                  another program holds its lock: the same, until it is released
│   └── JournalVersion          exit 4   another version of rigctl wrote it
└── Locked                      exit 4   another process holds this state directory, or drives one of its buses
```

A message says what, where, got, allowed, remedy, as far as they apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rigctl.flaws import Flaw, flaw_of
from rigctl.printable import LONGEST, printable


class RigctlError(Exception):
    """Every error that rigctl raises on purpose is one."""

    exit_code: ClassVar[int] = 1
    facts: ClassVar[tuple[str, ...]] = ()
    """Attributes that programs are told, beside the parts of the message."""

    def __init__(self, *args: object, devices: Iterable[str] = ()) -> None:
        # an error repeats what instruments and files said
        super().__init__(*(printable(arg) if isinstance(arg, str) else arg for arg in args))
        self._devices = frozenset(devices)
        self.added: tuple[str, ...] = ()
        """What was appended later."""

    @property
    def devices(self) -> frozenset[str]:
        """Return the names of the instruments that let us down, as far as whoever raised it knew them."""
        return self._devices

    @property
    def flaw(self) -> Flaw:
        """Return what is wrong, in fields as far as whoever raised it gave them."""
        return Flaw(str(self)) if self.added else flaw_of(self)

    def extend(self, more: str) -> None:
        self.added = (*self.added, printable(more))

    def __str__(self) -> str:
        return "".join((super().__str__(), *self.added))


def in_words(error: BaseException) -> str:
    """Say what went wrong; of an error that is not rigctl's own its kind, too, for the text may be a bare key."""
    return str(error) if isinstance(error, RigctlError) else f"{type(error).__name__}: {error}"


class UsageError(RigctlError):
    """A command was called wrongly."""

    exit_code = 2


class ExperimentFileError(UsageError):
    """A file holds no experiment that this version can load, or an experiment cannot be saved in it."""

    def __init__(self, path: object, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.file = str(path)


KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of a configuration down."""


def dotted(path: KeyPath) -> str:
    """Return a path as a person writes it, e.g. `meters[0].price`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def counted(number: int, noun: str) -> str:
    """Return a number and what there is of it, e.g. `1 trial`, `2 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def reason(error: Exception) -> str:
    """Return why something failed as people read it: of the system's errors neither number nor file."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


@dataclass(frozen=True, slots=True)
class Mistake:
    """Says what is wrong with a configuration, and where it stands."""

    where: str
    """`file:line: dotted.key`."""
    flaw: Flaw
    path: KeyPath = ()
    line: int = 0
    """Of the file; 0 where it stands in none."""
    column: int = 0
    """Of the line, from 1; 0 where it is not known."""
    file: str = ""
    """Empty where it stands in none."""

    @property
    def what(self) -> str:
        """Return got, allowed and remedy, in a sentence."""
        return str(self.flaw)

    def __str__(self) -> str:
        return printable(f"{self.where}: {self.what}")


class ConfigError(RigctlError):
    """The configuration does not hold; `mistakes` has all that is wrong with it."""

    exit_code = 2

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class Ambiguous(ConfigError):
    """A table can be meant in two ways; `questions` has by name what must be answered."""

    def __init__(self, questions: Mapping[str, Mistake]) -> None:
        super().__init__(tuple(questions.values()))
        self.questions = questions


class PolicyError(RigctlError):
    """A policy cannot decide, or proposed what it may not."""

    awaited: int | None = None
    """Outcomes that are still to come, where there is none to recommend by; None: it is about anything else."""


class NoAnswer(PolicyError):
    """A policy was asked and gave no answer: it was late, or its process ended."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        """Where it stood, as far as is known."""


class PluginError(RigctlError):
    """A policy, driver or line scheme cannot be used."""

    exit_code = 2


class UnknownPlugin(PluginError):
    """Nothing of this name is installed."""


class BrokenPlugin(PluginError):
    """It is installed, but does not load or is not what it should be."""


class DriverNonConformance(PluginError):
    """A driver does not do what every driver must; the message names driver and check."""


class DeviceError(RigctlError):
    """Something went wrong between us and an instrument.

    Whoever raises it says what is wrong; a line knows the bus, and a device's handle fills in whose error it is.
    """

    facts = ("device", "bus")
    repeated = False
    """Whether a line has asked several times in vain; then nobody else asks again."""

    def __init__(self, what: str | Flaw = "", *, device: str = "", bus: str = "", devices: Iterable[str] = ()) -> None:
        if isinstance(what, str) and len(what) > LONGEST:
            what = f"{what[: LONGEST - 3]}..."
        super().__init__(what, devices=devices)
        self.device = device
        """The name people gave it; empty where only the line is concerned."""
        self.bus = bus
        """The line's URL."""

    @property
    def flaw(self) -> Flaw:
        """Return what is wrong, with device and bus as where."""
        return super().flaw.within("" if self.added else self.where)

    @property
    def where(self) -> str:
        """Return device and bus, as far as they are known."""
        return ": ".join(filter(None, (self.device, self.bus)))

    @property
    def devices(self) -> frozenset[str]:
        """Return `device`, and what else was given."""
        return self._devices | {self.device} - {""}

    @property
    def what(self) -> str:
        """Say what is wrong, without device and bus."""
        return RigctlError.__str__(self)

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.where, self.what)))


class TrialsStopped(DeviceError):
    """No trial may begin: something is not confirmed safe, or too many failed in a row."""

    def __init__(self, what: str, standing: str, remedy: str = "") -> None:
        super().__init__(Flaw(f"{what}; {standing}", remedy=remedy))
        self.standing = standing
        """What it says of how the rig stands."""


class DeviceTimeout(DeviceError):
    """No complete answer came in time; the line is not trusted until flushed."""


class DeviceBusy(DeviceError):
    """The device asked to be asked later."""


class DeviceFault(DeviceError):
    """The device refused; repeating the same request will not help."""


class GarbledReply(DeviceError):
    """An answer arrived that cannot be one: checksum, syntax or sender is wrong."""


class IdentityMismatch(DeviceError):
    """Another instrument answers than the configuration names; nothing was written."""


class PortUnavailable(DeviceError):
    """The port does not exist now, or nobody answers there."""


class PortHeld(PortUnavailable):
    """Another process holds the port. Waiting does not help, so a service manager is not to try again."""

    exit_code = 4


class ReadBackMismatch(DeviceError):
    """The actuator is not where it was sent."""


class GuardRefused(RigctlError):
    """A command to an actuator was out of range, over a cap, or not a number."""


class CapReached(GuardRefused):
    """A dose does not fit what may still be dispensed in this hour or these 24 hours; it will later."""

    def __init__(self, message: str, actuator: str = "", volume_ml: float = 0.0) -> None:
        self.actuator = actuator
        self.volume_ml = volume_ml
        super().__init__(message, devices={actuator} - {""})


class CapSpent(CapReached):
    """A dose does not fit what a pump, or its tank, may give in the whole campaign; it never will."""


class Tripped(RigctlError):
    """The trip is latched; only a person resets it."""

    exit_code = 3

    def __init__(self, reason: str, first: str = "Find the cause") -> None:
        self.reason = reason
        super().__init__(
            f"{reason}. {first}, then `rigctl alarm reset-trip CONFIG` (with the same --state), and run again"
        )


class JournalError(RigctlError):
    """The journal cannot be used."""


class JournalCorrupt(JournalError):
    """The journal's contents do not check out; it is kept as it is."""

    facts = ("damage",)

    def __init__(self, told: str, damage: str = "damaged", table: str = "", key: int | None = None) -> None:
        self.damage = damage
        """`damaged`, `no-file`, `no-log`, `foreign`, or `hopeless` if nothing can be recovered."""
        self.table, self.key = table, key
        """Where a checksum does not hold, and of the one row that makes the difference."""
        super().__init__(told)


class JournalUnwritable(JournalError):
    """Nothing can be written (disk full, read-only), so nothing may move."""


class JournalBusy(JournalUnwritable):
    """Another program has held the journal lock too long; nothing may move until the lock is released."""


class JournalVersion(JournalError):
    """Another version of rigctl wrote the journal."""

    exit_code = 4

    def __init__(self, path: object, found: int, known: int) -> None:
        self.found = found
        self.known = known
        newer = "update rigctl, or start a new campaign with another --state directory"
        older = "export its trials with the rigctl that wrote it, and `rigctl trial import` them into a new campaign"
        told = f"journal version {found}, but this rigctl reads version {known} only"
        super().__init__(f"{path}: {told}; {newer if found > known else older}")


class Locked(RigctlError):
    """Another process holds this state directory, or drives one of its buses."""

    exit_code = 4
