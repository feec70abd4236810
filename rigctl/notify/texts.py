"""What people are told, in plain words: which rig, what, since when, what it does about it, what to do (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, Literal

from rigctl.campaign.journal.alarms import AlarmState
from rigctl.campaign.status import AGAIN, ENDINGS
from rigctl.errors import counted
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import Action

Tone = Literal["failure", "warning", "success", "info"]
"""As the library that sends it has it."""
MOST: Final = 12
"""Alarms that one message names."""
MOST_CHARS: Final = 400
"""Of what one alarm says."""
SEVERITIES: Final[Mapping[Severity, str]] = {
    Severity.MINOR: "note",
    Severity.MAJOR: "warning",
    Severity.INVALID: "stop",
}
DOES: Final[Mapping[Action | Literal[""], str]] = {
    "warn": "The campaign continues.",
    "fail": "The trial ends as failed, and everything is made safe. The campaign continues.",
    "hold": "Everything is made safe. The campaign waits until the fault is cleared, then continues.",
    "safe": "Everything is made safe, and the campaign ends.",
    "trip": "Everything is made safe and stays so until a person resets the trip.",
    "": "The watch keeps checking until the alarm is over.",
}
ONCE: Final = "This alarm is reported once; no message will say that it is over."


@dataclass(frozen=True, slots=True)
class Notice:
    """Is sent to people as it is."""

    title: str
    body: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class NewsItem:
    """Something about one alarm that people do not know yet."""

    state: AlarmState
    what: Literal["raised", "again", "over", "unshelved"]
    times: int = 1
    """How often since they were told last."""
    flaps: bool = False
    """Whether they are not told again for a while."""


@dataclass(frozen=True, slots=True)
class Words:
    """Writes messages about one rig."""

    rig: str
    zone: tzinfo | None = None
    """None: this machine's."""

    def of_news(self, news: Sequence[NewsItem], phase: str) -> Notice:
        """Return one message about some alarms, the worst first."""
        ordered = sorted(news, key=lambda n: (n.what == "over", -n.state.severity))
        stand = [n for n in ordered if n.what != "over"]
        lines = [self._about(n) for n in ordered[:MOST]]
        if len(ordered) > MOST:
            lines.append(f"And {counted(len(ordered) - MOST, 'other')}; `rigctl alarm list` lists all.")
        if phase:
            lines.append(f"Now: {phase}.")
        lines.append(_to_do(stand))
        if not stand:
            return Notice(self._titled(_title("over", ordered)), "\n\n".join(lines), "success")
        worst = max(n.state.severity for n in stand)
        tone: Tone = "failure" if worst is Severity.INVALID or _trips(stand) else "warning"
        title = _title(SEVERITIES.get(stand[0].state.severity, "note"), stand)
        return Notice(self._titled(title), "\n\n".join(lines), tone if worst > Severity.MINOR else "info")

    def of_start(self, trials: int, lost: int | None) -> Notice:
        """Return what is told when a campaign begins, or goes on."""
        told = f"The campaign continues after {counted(trials, 'trial')}." if trials else "The campaign begins."
        if lost is not None:
            told += f" Trial {lost} was under way when the last process died. It is charged, and not repeated."
        return Notice(self._titled("runs"), f"{told} You will get a message if something goes wrong.", "info")

    def of_end(self, ending: str, reason: str, facts: str, *, safe: bool) -> Notice:
        """Return what is told when a campaign has ended; `facts` says what came of it."""
        why = ENDINGS.get(ending, ending) + (f" ({reason})" if reason and reason != ending else "")
        state = "Everything is safe." if safe else "NOT everything is confirmed safe. Go and look at the rig now."
        do = (
            "`rigctl recommend` says what to run from now on." if safe else "`rigctl safe` tries again to make it safe."
        )
        tone: Tone = "failure" if not safe else "warning" if ending in ("abandoned", "interlock") else "success"
        body = "\n\n".join(part for part in (f"The campaign has ended: {why}.", state, facts, do) if part)
        return Notice(self._titled("ended" if safe else "ended, NOT SAFE"), body, tone)

    def of_silence(self, failed: str, *, started: bool) -> Notice:
        """Return what is told when the controller has gone: with an error, or without a word."""
        what = "The controller ended before its campaign." if started else "The campaign could not begin."
        if failed:
            how = f"The error: {failed}"
            state = "Everything was made safe, unless the error says otherwise."
            do = f"`rigctl status` says more. {AGAIN} continues once the fault is mended."
        else:
            how = "It was killed, it crashed, or the machine is going down."
            state = "Actuators may still be driven, unless they stop by themselves."
            do = f"Go and look. `rigctl safe` makes everything safe, and {AGAIN} continues."
        title = "the controller has ended" if started else "could not begin"
        return Notice(self._titled(title), f"{what} {how}\n\n{state}\n\n{do}", "failure")

    def of_day(self, summary: str) -> Notice:
        return Notice(self._titled("daily summary"), summary, "info")

    def of_test(self) -> Notice:
        return Notice(self._titled("test"), "This is a test. Nothing has happened, and nothing need be done.", "info")

    def time(self, utc: str) -> str:
        """Write an instant as civil time, with its zone."""
        return f"{datetime.fromisoformat(utc).astimezone(self.zone):%Y-%m-%d %H:%M:%S %Z}"

    def _titled(self, what: str) -> str:
        return f"{self.rig}: {what}"

    def _about(self, news: NewsItem) -> str:
        state = news.state
        said = state.message if len(state.message) <= MOST_CHARS else f"{state.message[:MOST_CHARS]}…"
        trial = f", trial {state.trial}" if state.trial is not None else ""
        head = f"{SEVERITIES.get(state.severity, 'note').upper()} {state.source}: {said}"
        if news.what == "over":
            return f"OVER {state.source}: {said}\n(since {self.time(state.since)}; over {self.time(state.until)})"
        times = f", {counted(news.times, 'time')} since the last message" if news.what == "again" else ""
        back = " The alarm was shelved, and is back." if news.what == "unshelved" else ""
        does = DOES[state.action] if state.lasting else ONCE
        does = f"Over since {self.time(state.until)}." if state.until and state.lasting else does
        often = " The alarm is intermittent: the next message comes in an hour at the earliest." if news.flaps else ""
        return f"{head}\n(since {self.time(state.since)}{trial}{times})\n{does}{back}{often}"


def _title(word: str, news: Sequence[NewsItem]) -> str:
    more = f", and {counted(len(news) - 1, 'other')}" if len(news) > 1 else ""
    return f"{word}, {news[0].state.source}{more}"


def _trips(news: Sequence[NewsItem]) -> bool:
    return any(n.state.action == "trip" for n in news)


def _to_do(news: Sequence[NewsItem]) -> str:
    if not news:
        return "Nothing need be done. `rigctl alarm ack` acknowledges the alarm."
    if _trips(news):
        return "Find the cause, then `rigctl alarm reset-trip` and `rigctl run`."
    return "`rigctl alarm list` shows the active alarms, and `rigctl alarm ack` acknowledges one."
