"""The terminal, spoken to by rich: nothing that others wrote can command it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from rigctl.printable import printable


class Screen(Console):
    """A console that prints texts as texts, wherever they come from; colours and the cursor are rich's alone."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        clean = (s if s.control else Segment(printable(s.text), s.style) for s in buffer)
        return super()._render_buffer(clean)
