"""Lines over which values come by themselves: a broker hands on what devices say under topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rigctl.rig.protocols import Deadline, Line

Follow = Literal["all", "renews", "kept"]
"""All messages; all, and one means that whoever answers next may be another, as `is_lost` says then; only what the
broker has kept by the time the line is opened."""


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said under a topic."""

    topic: str
    payload: bytes
    at_s: float
    """When it arrived, monotonic wall seconds."""
    kept: bool = False
    """The broker had kept it: nobody knows how old it is, so no value in it is to be believed."""


class MessageLine(Line):
    """A connection to a broker."""

    me: str
    """Name of this connection; no other has it, so that answers sent to a topic under it are ours."""

    @abstractmethod
    def follow(self, topic: str, what: Follow = "all") -> None:
        """Let the messages of a topic come, whenever the line is open."""

    @abstractmethod
    def publish(self, topic: str, payload: bytes, deadline: Deadline) -> None:
        """Send a message, once, and wait until the broker has taken it; the broker is not to keep it.

        Raises:
            DeviceTimeout: the broker did not take it in time, or says that nobody follows the topic.
            DeviceFault: the broker refuses it.
        """

    @abstractmethod
    def arrivals(self, topic: str, since_s: float, deadline: Deadline, *, kept: bool = False) -> Sequence[Message]:
        """Return what came after this monotonic instant, the oldest first; wait for the first if there is none yet.

        `kept`: also what the broker had kept. Raises `DeviceTimeout`: nothing came.
        """
