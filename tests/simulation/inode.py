"""Files and their names: what is durable of them, and what a power loss leaves of the rest (pure, but for `look`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

SECTOR = 512
SHARED_MEMORY = "-shm"
"""Never durable: SQLite makes it anew."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put somewhere."""

    offset: int
    data: bytes

    def done_to(self, image: bytearray) -> None:
        if len(image) < self.offset:
            image.extend(bytes(self.offset - len(image)))
        image[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> list[Write]:
        """Return what of it lies in each sector of the file."""
        end = self.offset + len(self.data)
        first = self.offset - self.offset % SECTOR
        cuts = [max(self.offset, at) for at in range(first, end, SECTOR)] + [end]
        return [Write(a, self.data[a - self.offset : b - self.offset]) for a, b in pairwise(cuts)]


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file made shorter, or longer by zeros."""

    size: int

    def done_to(self, image: bytearray) -> None:
        del image[self.size :]
        image.extend(bytes(self.size - len(image)))

    def sectors(self) -> list[Truncate]:
        return [self]


@dataclass(eq=False, slots=True)
class Inode:
    """A file, whatever its name."""

    content: bytearray = field(default_factory=bytearray)
    """As everybody reads it now."""
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Truncate] = field(default_factory=list)
    """From `durable` to `content`."""
    handles: int = 0
    """How often SQLite has it open."""

    def do(self, operation: Write | Truncate) -> None:
        operation.done_to(self.content)
        self.pending.append(operation)

    def found(self, content: bytes) -> None:
        """Note what somebody has written past us."""
        if content != self.content:
            self.do(Truncate(0))
            self.do(Write(0, content))

    def sync(self) -> None:
        for operation in self.pending:
            operation.done_to(self.durable)
        self.pending.clear()

    def after_power_loss(self, rng: Random) -> Inode:
        image = bytearray(self.durable)
        for operation in _survivors(self.pending, rng):
            operation.done_to(image)
        if len(image) < len(self.content) and rng.random() < 0.2:
            image.extend(bytes(len(self.content) - len(image)))  # its length was noted, what stands there was not
        return Inode(image, bytearray(image))


def _survivors(pending: list[Write | Truncate], rng: Random) -> list[Write | Truncate]:
    """Return the operations, or sectors of them, that the disk still did."""
    kind = rng.choice(("none", "all", "torn", "each", "sectors"))
    if kind == "none" or not pending:
        return []
    if kind == "torn":
        last = rng.randrange(len(pending))
        parts = pending[last].sectors()
        return [*pending[:last], *parts[: rng.randrange(len(parts) + 1)]]
    share = 1.0 if kind == "all" else rng.random()
    whole = pending if kind != "sectors" else [part for operation in pending for part in operation.sectors()]
    return [operation for operation in whole if rng.random() < share]


Names = dict[str, Inode]


class Directory:
    """The names of one directory."""

    def __init__(self) -> None:
        self.names: Names = {}
        """As everybody sees them now."""
        self._durable: Names = {}
        self._changes: list[Callable[[Names], object]] = []
        """From `_durable` to `names`."""

    def create(self, name: str, inode: Inode) -> None:
        self._change(lambda names: names.update({name: inode}))

    def remove(self, name: str) -> None:
        self._change(lambda names: names.pop(name, None))

    def rename(self, old: str, new: str) -> None:
        self._change(lambda names: names.update({new: names.pop(old)}))

    def _change(self, change: Callable[[Names], object]) -> None:
        change(self.names)
        self._changes.append(change)

    def sync(self) -> None:
        self._durable = dict(self.names)
        self._changes.clear()

    def settle(self) -> None:
        """Take everything for durable."""
        self.sync()
        for inode in self.names.values():
            inode.durable = bytearray(inode.content)
            inode.pending.clear()

    def look(self, place: Path) -> None:
        """Take note of what is there: nobody tells when files are written that SQLite has nothing to do with."""
        there = {path.name: path for path in place.iterdir() if path.is_file() and not path.is_symlink()}
        for name in sorted(there):
            if name not in self.names:
                self.create(name, Inode())
            if not self.names[name].handles and not name.endswith(SHARED_MEMORY):
                self.names[name].found(there[name].read_bytes())
        for name in [name for name in self.names if name not in there]:
            self.remove(name)

    def after_power_loss(self, rng: Random) -> Names:
        """Return what was synced, and of all that was not as much as `rng` chooses."""
        names = dict(self._durable)
        for change in self._changes[: rng.randrange(len(self._changes) + 1)]:
            change(names)
        left = {name: inode for name, inode in names.items() if not name.endswith(SHARED_MEMORY)}
        return {name: inode.after_power_loss(rng) for name, inode in left.items()}
