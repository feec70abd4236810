"""Registers that several devices of one unit share are read in one request when all are asked at about the same time.

No value is ever an old one: what was read is handed on for `FRESH_S` after it arrived, to each device at most once, and
not at all once anything was written or the line closed. Whoever asks again, or later, causes a new request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rigctl.rig.protocols import Clock, RegisterKind

FRESH_S = 0.1
"""Rig seconds: far below any sampling period."""

Block = tuple[int, RegisterKind, int, int]
"""Unit, table, first address, count."""


@dataclass(slots=True)
class _Held:
    words: Sequence[int]
    arrived_s: float
    given: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Blocks:
    """What has just been read over one line."""

    clock: Clock
    _held: dict[Block, _Held] = field(default_factory=dict)

    def take(self, block: Block, asker: object, read: Callable[[], Sequence[int]]) -> tuple[Sequence[int], float]:
        """The block's registers and when they arrived, rig time; read now unless they have just been for another."""
        held = self._held.pop(block, None)
        if held is None or id(asker) in held.given or self.clock.now_s() - held.arrived_s > FRESH_S:
            held = _Held(read(), self.clock.now_s())
        held.given.add(id(asker))
        self._held[block] = held
        return held.words, held.arrived_s

    def forget(self) -> None:
        """Something was written, or the line is not what it was."""
        self._held.clear()
