"""A bit flipped in SQLite's write-ahead log (fault 80).

SQLite takes a log for ended where a checksum does not hold, since that is what a power loss leaves; commits after it
would be gone without a word. A power loss, though, only spoils what was not yet synced: the last transaction. So what
is spoilt is damage if a further transaction follows, or if nothing but one bit of the last transaction is spoilt: a
write that was torn over an older version of the same page may differ in a single bit, but the rest seldom holds then.

The format is that of https://www.sqlite.org/fileformat2.html#walformat: a header of 32 bytes, then frames of 24 bytes
and a page, each with a checksum that goes on from the one before.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

HEADER: Final = 32
FRAME: Final = 24
MAGIC: Final = 0x377F0682
"""Its last bit says in which order the words are summed up: 0 little-endian, 1 big-endian."""
_MASK: Final = 0xFFFFFFFF

Sums = tuple[int, int]


def damaged_log(path: Path) -> str:
    """Say what is damaged in the log at this path; empty if nothing is, or there is none.

    A log that is just being written is looked at twice.
    """
    found = _damage(path)
    return found and _damage(path)


def _damage(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(data) < HEADER + FRAME or (int.from_bytes(data[:4], "big") ^ MAGIC).bit_count() > 2:
        return ""  # nothing of it was ever synced, e.g. only zeros
    magic, _, page, _, salt1, salt2, *stored = struct.unpack(">8I", data[:HEADER])
    order = ">" if magic & 1 else "<"
    sums = _summed(data[:24], (0, 0), order)
    frames = _frames(data, page)
    if not frames:
        return ""
    if magic & ~1 != MAGIC or sums != tuple(stored):
        whole = any(frames[0].sums(seed, order) == frames[0].stored for seed in (sums, tuple(stored)) for order in "<>")
        return "the header of its log" if whole else ""
    for number, frame in enumerate(frames):
        before, sums = sums, frame.sums(sums, order)
        salts_differ = (frame.salts[0] ^ salt1).bit_count() + (frame.salts[1] ^ salt2).bit_count()
        if sums == frame.stored and not salts_differ:
            continue
        if salts_differ:
            spoilt = sums == frame.stored and salts_differ == 1
        else:
            spoilt = _spoilt(frames[number:], (before, sums), order)
        return f"frame {number + 1} of its log" if spoilt else ""
    return ""


def _spoilt(rest: list[_Frame], sums: tuple[Sums, Sums], order: str) -> bool:
    """Tell whether a frame whose sums differ was whole once: others follow it, or one bit is off in the last one.

    `rest` is that frame and all after it; `sums` are those before it, and those that its own should be.
    """
    frame, (before, due) = rest[0], sums
    if _followed(rest, (due, frame.stored), order):
        return True
    ended = any(_holds(rest, seed, order) for seed in (due, frame.stored))  # all of its transaction is there
    return ended and frame.one_bit_off(before, order)


@dataclass(frozen=True, slots=True)
class _Frame:
    """One page as a transaction has left it."""

    head: bytes
    page: bytes

    @property
    def commits(self) -> bool:
        return self.head[4:8] != b"\0\0\0\0"

    @property
    def salts(self) -> Sums:
        """Return those of the log's header when it was written: a log is begun anew over its old frames."""
        first, second = struct.unpack(">2I", self.head[8:16])
        return first, second

    @property
    def stored(self) -> Sums:
        first, second = struct.unpack(">2I", self.head[16:24])
        return first, second

    def sums(self, seed: Sums, order: str) -> Sums:
        """Return the checksum it should have, going on from that of the frame before."""
        return _summed(self.page, _summed(self.head[:8], seed, order), order)

    def one_bit_off(self, seed: Sums, order: str) -> bool:
        """Tell whether flipping a single bit back would make its checksum hold.

        The sums are linear in the words: a word that is d too large adds d times its weight, which grows towards the
        frame's beginning. Zeros up to the end are a torn write's, even if a single bit is missing among them.
        """
        sums, stored = self.sums(seed, order), self.stored
        if (sums[0] ^ stored[0]).bit_count() + (sums[1] ^ stored[1]).bit_count() == 1:
            return True
        off = ((sums[0] - stored[0]) & _MASK, (sums[1] - stored[1]) & _MASK)
        even, odd = (1, 1), (0, 1)
        summed = self.head[:8] + self.page
        for place in range(len(summed) - 8, -1, -8):
            for first, second in (even, odd):
                for bit in range(32):
                    d = ((first << bit) & _MASK, (second << bit) & _MASK)
                    if off in (d, (-d[0] & _MASK, -d[1] & _MASK)):
                        return any(summed[place:])
            even, odd = _stepped(even), _stepped(odd)
        return False


def _frames(data: bytes, page: int) -> list[_Frame]:
    """Return all frames of pages of the size that the header says or, where that cannot be, of SQLite's usual one."""
    possible = page >= 512 and page & (page - 1) == 0 and HEADER + FRAME + page <= len(data)
    size = FRAME + (page if possible else 4096)
    begins = range(HEADER, len(data) - size + 1, size)
    return [_Frame(data[b : b + FRAME], data[b + FRAME : b + size]) for b in begins]


def _followed(frames: Sequence[_Frame], seeds: Sequence[Sums], order: str) -> bool:
    """Tell whether a frame of a further transaction comes after the one that the first of these frames belongs to."""
    for seed in seeds:
        sums, ended = seed, frames[0].commits
        for frame in frames[1:]:
            sums = frame.sums(sums, order)
            if sums != frame.stored:
                break
            if ended:
                return True
            ended = frame.commits
    return False


def _holds(frames: Sequence[_Frame], sums: Sums, order: str) -> bool:
    """Tell whether all of the first of these frames' transaction is there that comes after it, as it was written."""
    for before, frame in pairwise(frames):
        if before.commits:
            return True
        sums = frame.sums(sums, order)
        if sums != frame.stored:
            return False
    return bool(frames) and frames[-1].commits


def _summed(data: bytes, seed: Sums, order: str) -> Sums:
    first, second = seed
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second


def _stepped(weight: Sums) -> Sums:
    """Return the weight of a word one pair of words earlier."""
    first, second = weight
    return (first + second) & _MASK, (first + 2 * second) & _MASK
