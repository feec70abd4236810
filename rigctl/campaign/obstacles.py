"""What is in the way of the next trial: one table, the most pressing row first. Pure; the loop sees, enters and waits.

Whatever is waited for, everything is safe meanwhile, the journal and whoever watches are told, a person may end it, and
a trip is never waited out. A new obstacle is a field of `Scene`, a row of `ROWS`, and who sees it: `loop.Runner`. One
that time alone ends is a `Wait` more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from rigctl.campaign.events import Ending
from rigctl.campaign.journal.rows import CampaignPhase
from rigctl.campaign.watch import Finding
from rigctl.rig.clocks import ROUNDING_S
from rigctl.rig.spec import Action

Kind = Literal["trip", "end", "hold", "pause", "wait"]
"""The rig trips; the campaign ends; it holds until something is mended; a person has paused it; it waits for a time."""
PHASES: Final[Mapping[Kind, CampaignPhase]] = MappingProxyType(
    {"hold": "HOLDING", "pause": "PAUSED", "wait": "WAITING"}
)
"""What the campaign is in meanwhile."""
ASK_S = 0.5
"""Wall seconds between two looks at instruments that are missing or unreliable."""
REMEMBERED = 20
"""Trials over which failures of one device are counted, however many good ones lie between."""
UNRELIABLE = 5
"""Of those, as many make a hold."""
RETRY_UNWRITABLE_S = 10.0
"""Wall seconds between looks whether the journal can be written again."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that lets no trial begin, or ends the campaign."""

    key: tuple[str, str]
    """Kind and source, as of an alarm."""
    kind: Kind
    why: str
    clear: str = "the wait is over"
    """What is said once it is gone."""
    until_s: float | None = None
    """Rig time at which it is over by itself."""
    due_s: float | None = None
    """Rig time at which something may come of it; it may stand after that, too."""
    every_s: float | None = None
    """Wall seconds between two looks whether it is over; None: as often as the watch looks."""
    told: bool = False
    """Whether people are told of it as long as it stands."""
    kept: bool = True
    """Whether the journal can take it."""
    silent: bool = False
    """Whether it is not worth a word: it will be over in a moment."""
    ending: Ending | None = None


class Wait(NamedTuple):
    """Something that lets no trial begin before a certain time."""

    kind: str
    until_s: float
    """Rig time."""
    why: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Holds everything that a row may look at, as it is between two trials. Times are rig time."""

    now_s: float = 0.0
    finish: str | None = None
    """Why a person has asked for the end."""
    paused: str = ""
    findings: tuple[Finding, ...] = ()
    """What the watch has found that demands more than an alarm, and that stands or was not heeded yet."""
    unjudged: bool = False
    """Whether an interlock cannot be judged for want of a first reading: what it forbids may be so."""
    lingers: bool = False
    """Whether what the watch held for has not been gone for long enough."""
    unwritable: str = ""
    """Why the journal cannot be written; nothing else but the watch and a person is asked then."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with instruments that a failed trial has shown to be missing or frozen."""
    unsteady: str = ""
    """The device that keeps failing, and must answer steadily first."""
    unplayable: str = ""
    """Why no control set can be played now."""
    reopens_s: float = inf
    """When one can be that only its hours keep from it."""
    waits: tuple[Wait, ...] = ()
    """What time alone ends, by rank."""
    awaited: str = ""
    """Whose outcomes must be known before the next trial; or, once all trials are over, before the end."""
    due_s: float = inf
    """When something of them is due."""
    over: tuple[Ending, str] | None = None
    """How all trials have ended, and why."""

    def demanding(self, *actions: Action) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.then in actions)

    def later(self, time_s: float) -> bool:
        """Tell whether this rig time is still to come."""
        return time_s > self.now_s + ROUNDING_S


def obstacles(scene: Scene) -> list[Obstacle]:
    """Return what is in the way, the most pressing first."""
    return [obstacle for row in ROWS for obstacle in row(scene)]


# The rows -------------------------------------------------------------------------------------------------------------


def _trip(scene: Scene) -> Iterator[Obstacle]:
    """End by a trip, once it can be kept: it must outlive the process. The rig has tripped as soon as it was found."""
    if scene.unwritable:
        return
    for finding in scene.demanding("trip"):
        yield Obstacle((finding.rule, finding.subject), "trip", str(finding))


def _end(scene: Scene) -> Iterator[Obstacle]:
    if scene.finish is not None:
        yield Obstacle(("asked to end", ""), "end", scene.finish, ending="stopped")
    for finding in scene.demanding("safe"):
        yield Obstacle((finding.rule, finding.subject), "end", str(finding), ending="interlock")


def _unwritable(scene: Scene) -> Iterator[Obstacle]:
    if scene.unwritable:
        clear, every_s = "the journal can be written again", RETRY_UNWRITABLE_S
        key = ("unwritable", "journal")
        yield Obstacle(key, "hold", scene.unwritable, clear, every_s=every_s, told=True, kept=False)


def _missing(scene: Scene) -> Iterator[Obstacle]:
    for name, why in scene.missing.items():
        clear = "the fault is cleared"
        yield Obstacle(("missing", name), "hold", f"{name}: {why}", clear, every_s=ASK_S, told=True)


def _unsteady(scene: Scene) -> Iterator[Obstacle]:
    if scene.unsteady:
        why = f"{scene.unsteady} failed {UNRELIABLE} of the last {REMEMBERED} trials; it must answer steadily first"
        clear = f"{scene.unsteady} answers steadily"
        yield Obstacle(("unreliable", scene.unsteady), "hold", why, clear, every_s=ASK_S, told=True)


def _paused(scene: Scene) -> Iterator[Obstacle]:
    if scene.paused:
        yield Obstacle(("paused", ""), "pause", scene.paused, "a person has resumed it")


def _watched(scene: Scene) -> Iterator[Obstacle]:
    """Wait also while an interlock cannot be judged: what it forbids may be so."""
    holding = "; ".join(map(str, scene.demanding("hold", "fail")))
    if holding or scene.lingers:
        yield Obstacle(("watch", ""), "hold", holding or "the fault must stay away for a while", "the alarm is over")
    elif scene.unjudged:
        yield Obstacle(("unjudged", ""), "hold", "an interlock has no first reading yet", silent=True)


def _over(scene: Scene) -> Iterator[Obstacle]:
    if scene.over is None:
        return
    ending, why = scene.over
    if not scene.awaited:
        yield Obstacle((ending, ""), "end", why, ending=ending)


def _unplayable(scene: Scene) -> Iterator[Obstacle]:
    if not scene.unplayable:
        return
    if scene.reopens_s < inf:
        yield Obstacle(("hours", ""), "wait", scene.unplayable, until_s=scene.reopens_s)
    else:
        clear = "something can be played again"
        yield Obstacle(("nothing playable", "campaign"), "hold", scene.unplayable, clear, told=True)


def _awaited(scene: Scene) -> Iterator[Obstacle]:
    if scene.awaited:
        yield Obstacle(("outcomes", ""), "wait", scene.awaited, due_s=scene.due_s)


def _waits(scene: Scene) -> Iterator[Obstacle]:
    for wait in scene.waits:
        if scene.later(wait.until_s):
            yield Obstacle((wait.kind, ""), "wait", wait.why, until_s=wait.until_s)


ROWS: Final[tuple[Callable[[Scene], Iterator[Obstacle]], ...]] = (
    _trip,
    _end,
    _unwritable,
    _missing,
    _unsteady,
    _paused,
    _watched,
    _over,
    _unplayable,
    _awaited,
    _waits,
)
"""By rank."""
