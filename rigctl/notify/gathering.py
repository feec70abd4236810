"""Decides what people are told, and when (pure): grouped, without repetitions, and not too often.

The first alarm waits a moment for others, and all are one message. After a few messages the next ones wait for longer,
however much there is to be told. An alarm that people know to stand is told again after an hour at the earliest, with
how often it was raised meanwhile. One that comes and goes is told of three times, then once an hour. Shelved ones wait
for the end of their shelf.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, tzinfo
from typing import Final

from rigctl.campaign.journal.alarms import AlarmKey, AlarmMinded, Alarms, AlarmState
from rigctl.campaign.journal.rows import AlarmRow
from rigctl.errors import counted
from rigctl.notify.texts import NewsItem, Notice, Words
from rigctl.rig.protocols import Severity

GROUP_S: Final = 10.0
"""Wall seconds that the first alarm waits for others."""
BURST: Final = 4
"""Messages that may go out at once; then one every so many wall seconds."""
EVERY_S: Final = 300.0
REPEAT_S: Final = 3600.0
"""Wall seconds after which an alarm that people know of is told again."""
FLAPS: Final = 3
"""Times within that, after which an alarm that comes and goes is told no more until then."""
MOST_KNOWN: Final = 1000
"""Alarms that are remembered; beyond, those that are settled are forgotten."""


@dataclass(frozen=True, slots=True)
class Told:
    """What people know of one alarm."""

    at_s: float
    first_s: float
    """When it was told first of the last few times."""
    raises: int = 1
    """How often it was told since then."""
    over: bool = False
    since: int = 0
    """How often it was raised since they were told."""

    def flaps(self, now_s: float) -> bool:
        return self.raises >= FLAPS and now_s - self.first_s < REPEAT_S


@dataclass(slots=True)
class Gathering:
    """Takes in what happens and says what is to be told now. Mutable; all times are given, wall seconds, monotonic."""

    words: Words
    at_least: Severity
    book: Alarms = field(default_factory=Alarms)
    phase: str = ""
    """What the campaign does, in words."""
    _waiting: dict[AlarmKey, NewsItem] = field(default_factory=dict)
    _told: dict[AlarmKey, Told] = field(default_factory=dict)
    _first_s: float | None = None
    """When the first that waits came."""
    _allowed: float = float(BURST)
    _allowed_at_s: float | None = None

    def raised(self, event: AlarmRow, now_s: float) -> None:
        """Take in an alarm, or the end of one."""
        before, self.book = self.book.states, self.book.taken([event])
        for key, state in self.book.states.items():
            known = before.get(key)
            if state.until and known is not None and not known.until:
                self._over(key, state, now_s)
        silent = self.book.shelved(event.key, event.at_s, event.utc)
        if event.state != "over" and event.severity >= self.at_least and not silent:
            self._news(event.key, self.book.states[event.key], now_s)
        self._forget()

    def minded(self, event: AlarmMinded, now_s: float) -> None:
        """Take in that somebody has seen an alarm, has shelved it, or ended that."""
        key = event.key
        if event.verb in ("ack", "shelve"):
            self._waiting.pop(key, None)
        was = self.book.shelves.get(key)
        self.book = self.book.taken([event])
        if event.verb == "unshelve" and was is not None:
            self._back(key, now_s)

    def passed(self, at_s: float, utc: str, now_s: float) -> None:
        """Note how late it is: by campaign time, and by the wall clock."""
        ended = [key for key, shelf in self.book.shelves.items() if not shelf.holds(at_s, utc)]
        if ended:
            self.book = replace(self.book, shelves={k: s for k, s in self.book.shelves.items() if k not in ended})
        for key in ended:
            self._back(key, now_s)

    def due(self, now_s: float, *, at_once: bool = False) -> Notice | None:
        """Return the message that is to go out now, if any; `at_once`: whatever waits, for it is the last."""
        self._remind(now_s)
        if self._first_s is None or not (at_once or now_s - self._first_s >= GROUP_S):
            return None
        if not self._waiting:  # what waited is shelved or acknowledged by now
            self._first_s = None
            return None
        if not (self._may_send(now_s) or at_once):
            return None
        self._allowed -= 1.0
        waiting, self._waiting, self._first_s = self._waiting, {}, None
        news = [replace(n, flaps=self._flapping(key)) for key, n in waiting.items()]
        for key, one in waiting.items():
            told = self._told.get(key)
            if told is None or now_s - told.first_s >= REPEAT_S:
                told = Told(now_s, now_s, 0)
            over = bool(one.state.until)
            self._told[key] = replace(told, at_s=now_s, raises=told.raises + (one.what != "over"), over=over, since=0)
        return self.words.of_news(news, self.phase)

    def _over(self, key: AlarmKey, state: AlarmState, now_s: float) -> None:
        waits, told = self._waiting.get(key), self._told.get(key)
        if waits is not None and waits.what != "over" and told is None:
            # it came and went before anybody was told: they are told of both
            self._waiting[key] = replace(waits, state=state)
        elif told is not None and told.flaps(now_s):
            self._told[key] = replace(told, since=max(1, told.since))
        elif told is not None and not told.over:
            self._wait(key, NewsItem(state, "over"), now_s)

    def _news(self, key: AlarmKey, state: AlarmState, now_s: float) -> None:
        told, waits = self._told.get(key), self._waiting.get(key)
        if waits is not None and waits.what != "over":
            self._waiting[key] = replace(waits, state=state, times=waits.times + 1)
        elif told is None or ((told.over or state.count == 1) and not told.flaps(now_s)):
            self._wait(key, NewsItem(state, "raised"), now_s)
        else:
            self._waiting.pop(key, None)  # that it is over is no longer true
            self._told[key] = replace(told, since=told.since + 1)

    def _flapping(self, key: AlarmKey) -> bool:
        told = self._told.get(key)
        return told is not None and told.raises == FLAPS - 1

    def _back(self, key: AlarmKey, now_s: float) -> None:
        state = self.book.states.get(key)
        if state is not None and state.condition == "active" and state.severity >= self.at_least:
            self._wait(key, NewsItem(state, "unshelved"), now_s)

    def _wait(self, key: AlarmKey, news: NewsItem, now_s: float) -> None:
        self._waiting[key] = news
        self._first_s = now_s if self._first_s is None else self._first_s

    def _remind(self, now_s: float) -> None:
        for key, told in self._told.items():
            if told.since and now_s - told.at_s >= REPEAT_S and key not in self._waiting:
                state = self.book.states.get(key)
                if state is not None and state.condition in ("active", "over") and key not in self.book.shelves:
                    self._wait(key, NewsItem(state, "again", told.since), now_s)

    def _may_send(self, now_s: float) -> bool:
        last_s = now_s if self._allowed_at_s is None else self._allowed_at_s
        self._allowed = min(float(BURST), self._allowed + (now_s - last_s) / EVERY_S)
        self._allowed_at_s = now_s
        return self._allowed >= 1.0

    def _forget(self) -> None:
        states = self.book.states
        if len(states) <= MOST_KNOWN:
            return
        old = sorted(states, key=lambda k: (states[k].condition != "settled", states[k].last))[: MOST_KNOWN // 2]
        gone = {key for key in old if key not in self._waiting}
        self.book = replace(self.book, states={k: s for k, s in states.items() if k not in gone})
        self._told = {k: t for k, t in self._told.items() if k not in gone}


@dataclass(slots=True)
class SummaryClock:
    """Says when the day's summary is due: once a day by the calendar, whatever the clocks are changed to. Mutable."""

    at: time
    zone: tzinfo | None = None
    """None: this machine's."""
    _last: date | None = None

    def due(self, now: datetime) -> bool:
        """Tell whether it is to be made now; `now` is aware. The day it was first asked on counts if it is not past."""
        here = now.astimezone(self.zone)
        reached = here.time().replace(tzinfo=None) >= self.at
        if self._last is None:
            self._last = here.date() if reached else date.min
            return False
        if not reached or here.date() <= self._last:
            return False
        self._last = here.date()
        return True


@dataclass(slots=True)
class SignOfLife:
    """Says when whoever waits for a sign of life is to be given one: only if the watch has looked. Mutable."""

    every_s: float
    fresh_s: float = 30.0
    """Wall seconds for which a look of the watch is good."""
    _looked_s: float | None = None
    _sent_s: float | None = None

    def looked(self, now_s: float) -> None:
        """Note that the watch has looked."""
        self._looked_s = now_s

    def due(self, now_s: float) -> bool:
        if self._looked_s is None or now_s - self._looked_s > self.fresh_s:
            return False
        if self._sent_s is not None and now_s - self._sent_s < self.every_s:
            return False
        self._sent_s = now_s
        return True


def phase_words(phase: str, why: str) -> str:
    known: Mapping[str, str] = {
        "RUNNING": "the campaign continues",
        "HOLDING": "the campaign holds",
        "PAUSED": "the campaign is paused, everything safe",
        "WAITING": "the campaign waits",
    }
    said = known.get(phase, phase.lower())
    return f"{said}: {why}" if why and phase != "RUNNING" else said


# Bringing messages to one receiver ------------------------------------------------------------------------------------


MOST: Final = 50
"""Messages that wait for one receiver; beyond, the oldest is lost, and that is told."""
FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 900.0
"""Wall seconds between two attempts."""
HANGS_S: Final = 60.0
"""Wall seconds after which an attempt is taken for failed, whether it returns or not."""
WORRYING_S: Final = 900.0
"""Wall seconds without success after which it is an alarm that people cannot be told."""


@dataclass(slots=True)
class Delivery:
    """Knows what one receiver is still to be brought, and when. Mutable; times are given, wall seconds, monotonic."""

    waiting: deque[Notice] = field(default_factory=deque)
    lost: int = 0
    failing_since_s: float | None = None
    under_way_s: float | None = None
    """When the attempt that is under way began."""
    _told: int = 0
    """Of those lost, how many the attempt under way tells of."""
    _pause_s: float = 0.0
    _next_s: float = 0.0

    def put(self, message: Notice) -> None:
        if len(self.waiting) >= MOST:
            del self.waiting[0 if self.under_way_s is None else 1]  # the one under way may well arrive
            self.lost += 1
        self.waiting.append(message)

    def attempt(self, now_s: float) -> Notice | None:
        """Return what is to be sent now, and take it for under way; None: nothing is."""
        if self.under_way_s is not None or not self.waiting or now_s < self._next_s:
            return None
        self.under_way_s, self._told = now_s, self.lost
        first = self.waiting[0]
        if not self.lost:
            return first
        return replace(first, body=f"({counted(self.lost, 'earlier message')} could not be delivered.)\n\n{first.body}")

    def done(self, now_s: float, *, well: bool) -> None:
        began_s, self.under_way_s = self.under_way_s, None
        if well:
            self.waiting.popleft()
            self.lost -= self._told
            self.failing_since_s, self._pause_s, self._next_s = None, 0.0, 0.0
            return
        if self.failing_since_s is None:
            self.failing_since_s = now_s if began_s is None else began_s
        self._pause_s = min(LONGEST_PAUSE_S, 2.0 * self._pause_s or FIRST_PAUSE_S)
        self._next_s = now_s + self._pause_s

    def hangs(self, now_s: float) -> bool:
        """Tell whether the attempt under way has taken too long to be waited for."""
        return self.under_way_s is not None and now_s - self.under_way_s >= HANGS_S

    def worrying(self, now_s: float) -> bool:
        """Tell whether nothing could be delivered for so long that somebody should know."""
        return self.failing_since_s is not None and now_s - self.failing_since_s >= WORRYING_S
