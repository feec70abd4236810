"""The local echo of RS-485 adapters: what is sent comes back before the answer, or instead of one if the cable is cut.

To functions 05 and 06 a sound answer is the request once more, so an echo looks like success. Whether a line echoes is
learnt from what can be told apart: the answer to any other request never begins with the request.
"""

from __future__ import annotations

from rigctl.errors import GarbledReply


class Echo:
    """Whether a line echoes, as far as is known."""

    def __init__(self, declared: bool | None) -> None:
        self._declared = declared
        self.known = declared
        """None: nothing has come yet that could tell."""

    def forget(self) -> None:
        """The port was opened: another adapter may be there."""
        self.known = self._declared

    def rest(self, sent: bytes, received: bytes, *, ambiguous: bool) -> bytes:
        """What has come besides the echo; empty as long as there may be nothing else.

        Args:
            sent: the request.
            received: all that has come since.
            ambiguous: the answer may be the request once more, so nothing can be learnt from it.

        Raises:
            GarbledReply: the line echoes, but this is not what was sent.
        """
        if self.known is False or (self.known is None and ambiguous):
            return received
        if received.startswith(sent):
            self.known = True
            return received[len(sent) :]
        if sent.startswith(received):
            return b""
        if self.known:
            raise GarbledReply(
                f"the echo of what was sent came back as {received[:40].hex(' ')}: do two speak at once?"
            )
        return received

    def answered(self, *, ambiguous: bool) -> None:
        """A sound answer came, and no echo before it, or this were known."""
        if self.known is None and not ambiguous:
            self.known = False
