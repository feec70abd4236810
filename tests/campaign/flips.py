"""Flips single bits of what a campaign has left on disk, and holds what is then read against what was there.

    python -m tests.campaign.flips DIR [FLIPS [SEED]]

is the long form, for a state directory of one's own, which stays as it is.
"""

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.campaign.journal import Journal, Reader, open_reader
from rigctl.campaign.journal.integrity import has_table
from rigctl.campaign.journal.rows import TABLES
from rigctl.errors import JournalCorrupt
from tests.campaign.records import SetClock, rows

FILES = ("journal.sqlite", "journal.sqlite-wal")
ADVICE = ".recover"
EVERY_WRITING = 8
"""One in so many is opened for writing, too, which takes longer."""


@dataclass(frozen=True)
class Flip:
    """One bit of one file."""

    file: str
    byte: int
    bit: int


def everything(reader: Reader) -> list[Any]:
    """Whatever can be asked of a journal, and what stands in the tables; as text, so that NaN equals NaN."""
    questions = (reader.campaign, reader.trials, reader.policy_state, reader.starts, reader.idle.rows)
    others = (reader.pins.by_device, reader.deciders)
    tables = [tuple(map(tuple, rows(reader, table))) for table in TABLES if has_table(reader._connection, table)]
    return [repr(found) for found in (*tables, *(ask() for ask in (*questions, *others)))]


def flips(state: Path, count: int, seed: int) -> Iterator[Flip]:
    """Bits all over the files, by their sizes; those of the first hundred bytes of each, which say what it is, more."""
    some = random.Random(seed)
    sizes = {name: (state / name).stat().st_size for name in FILES if (state / name).exists()}
    for number in range(count):
        (name,) = some.choices(list(sizes), list(sizes.values()))
        yield Flip(name, some.randrange(min(sizes[name], 100) if number % 8 == 0 else sizes[name]), some.randrange(8))


def found(state: Path, flip: Flip, sound: list[Any], *, writing: bool) -> bool:
    """Whether a flipped bit is told, with advice; if not, nothing may be different.

    Raises:
        AssertionError: something else is read than what was written, or the advice is missing, or a file was changed.
    """
    with tempfile.TemporaryDirectory(dir=state.parent) as name:
        copy = Path(name)
        for file in FILES:
            if (state / file).exists():
                shutil.copy(state / file, copy)
        data = bytearray((copy / flip.file).read_bytes())
        data[flip.byte] ^= 1 << flip.bit
        (copy / flip.file).write_bytes(data)
        said = ""
        try:
            with open_reader(copy) as reader:
                assert everything(reader) == sound, flip
            if writing:
                Journal(copy, SetClock(), "boot-1").close()
        except JournalCorrupt as error:
            said = str(error)
        if said:
            assert ADVICE in said, flip
            assert (copy / flip.file).read_bytes() == data, flip
    return bool(said)


def held(state: Path, count: int, seed: int) -> int:
    """How many of so many flips are told; all others change nothing."""
    with open_reader(state) as reader:
        sound = everything(reader)
    told = [
        found(state, flip, sound, writing=number % EVERY_WRITING == 0)
        for number, flip in enumerate(flips(state, count, seed))
    ]
    return sum(told)


def main(state: Path, count: int = 10_000, seed: int = 0) -> None:
    """The long form."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "state"
        copy.mkdir()
        for file in FILES:
            if (state / file).exists():
                shutil.copy(state / file, copy)
        print(f"{held(copy, count, seed)} of {count} flips are told, the others change nothing")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
