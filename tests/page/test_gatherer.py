import asyncio
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest

from rigctl.page.gatherer import PERIOD_S, SHARE, STILL_S, Gatherer, ProcessScholar
from tests.page.served import Clock, copied


class Counting:
    """Stands in for what gathers and draws: counts what it is asked, and shows that."""

    def __init__(self):
        self.gathered = 0
        self.trials = 1
        self.wrong = None
        self.takes_s = 0.0
        self.clock = Clock()

    def gather(self, reader, loaded, status, now, *, before, log_of=None, alive=None):
        self.gathered += 1
        self.clock.now_s += self.takes_s
        if self.wrong:
            raise self.wrong
        budget = reader.campaign().budget
        return SimpleNamespace(gathered=self.gathered, budget=budget, charged=self.trials)

    def sections(self, facts, study, *, acting):
        return {"now": f"{facts.gathered} {acting}", "same": "always", "model": str(study)}


class Studying:
    """A scholar that counts what it is asked."""

    def __init__(self, clock, takes_s=0.0):
        self.asked = 0
        self.clock = clock
        self.takes_s = takes_s

    async def studies(self):
        self.asked += 1
        self.clock.now_s += self.takes_s
        yield f"study {self.asked}"

    async def close(self):
        pass


def gatherer_of(state, views, takes_s=0.0):
    return Gatherer(state, Studying(views.clock, takes_s), views.clock, views.gather, views.sections)


def write(state):
    """Somebody writes into the journal."""
    with closing(sqlite3.connect(state / "journal.sqlite")) as connection:
        connection.execute("UPDATE campaign SET budget_micros = budget_micros + 1")
        connection.commit()


async def studied(gatherer):
    if gatherer._studying is not None:
        await gatherer._studying


async def test_all_who_ask_at_a_time_share_one_look(state):
    """Fifty first views cost as much as one."""
    views = Counting()
    gatherer = gatherer_of(state, views)
    shown = await asyncio.gather(*(gatherer.fresh() for _ in range(50)))
    assert views.gathered == 1
    assert {s.version for s in shown} <= {1, 2}
    await gatherer.close()


async def test_without_news_nothing_is_gathered_for_a_while(state):
    """A look that finds the same file and the same status costs next to nothing; after a while times are told anew."""
    views = Counting()
    gatherer = gatherer_of(state, views)
    await gatherer.fresh()
    for _ in range(3):
        views.clock.now_s += PERIOD_S + 0.1
        await gatherer.fresh()
    assert views.gathered == 1
    views.clock.now_s += STILL_S
    await gatherer.fresh()
    assert views.gathered == 2
    write(state)
    views.clock.now_s += PERIOD_S + 0.1
    assert (await gatherer.fresh()).facts.gathered == 3
    await gatherer.close()


async def test_a_look_that_takes_long_is_followed_by_a_long_rest(state):
    """The page takes a tenth of a processor at most, whatever the journal."""
    views = Counting()
    views.takes_s = 2.0
    gatherer = gatherer_of(state, views)
    await gatherer.fresh()
    for after_s, gathered in ((SHARE * 2.0 - 0.1, 1), (0.2, 2)):
        views.clock.now_s += after_s
        write(state)
        await gatherer.fresh()
        assert views.gathered == gathered
    await gatherer.close()


async def test_nobody_looks_and_nothing_is_gathered(state):
    """Without readers the server rests."""
    views = Counting()
    gatherer = gatherer_of(state, views)
    running = asyncio.create_task(gatherer.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert views.gathered == 0
    news = gatherer.news
    gatherer.begin_reading()
    await news.wait()
    gatherer.end_reading()
    assert views.gathered == 1
    running.cancel()
    await asyncio.wait([running])
    await gatherer.close()


async def test_only_what_has_changed_is_newer(state):
    """By section; what has not changed keeps its number."""
    views = Counting()
    gatherer = gatherer_of(state, views)
    first = await gatherer.fresh()
    await studied(gatherer)
    assert set(gatherer.shown.newer_than(first.version, acting=False)) == {"model"}
    write(state)
    views.clock.now_s += PERIOD_S + 0.1
    version = gatherer.shown.version
    assert set((await gatherer.fresh()).newer_than(version, acting=False)) == {"now"}
    await gatherer.close()


@pytest.mark.slow
async def test_the_model_is_looked_into_once_per_trial(state):
    """Not again for the same trials; again after another one; and it rests for as long as it took."""
    views = Counting()
    gatherer = gatherer_of(state, views, takes_s=30.0)
    asked = []
    for trials, after_s in ((1, 0.0), (1, 40.0), (2, 40.0), (3, 10.0), (3, 30.0)):
        views.trials = trials
        views.clock.now_s += after_s
        write(state)
        gatherer._seen_s = float("-inf")
        await gatherer.fresh()
        await studied(gatherer)
        asked.append(gatherer.scholar.asked)
    assert asked == [1, 1, 2, 2, 3]
    assert gatherer.shown.study == "study 3"
    await gatherer.close()


class Longwinded(Studying):
    """A scholar whose second answer waits to be let out."""

    def __init__(self, clock):
        super().__init__(clock)
        self.more = asyncio.Event()

    async def studies(self):
        yield "advice"
        await self.more.wait()
        yield "advice and what would change it"


async def test_advice_does_not_wait_for_what_would_change_the_choice(state, golden):
    """That decides forty times again: on a busy machine a minute."""
    gatherer = gatherer_of(state, Counting())
    gatherer.scholar = Longwinded(gatherer.clock)
    await gatherer.fresh()
    news = gatherer.news
    if gatherer.shown.study is None:
        await news.wait()
    assert gatherer.shown.study == "advice"
    gatherer.scholar.more.set()
    await studied(gatherer)
    golden(gatherer.shown.study)
    await gatherer.close()


@pytest.mark.parametrize("error", [ZeroDivisionError("a mistake"), sqlite3.OperationalError("locked")])
async def test_what_cannot_be_shown_is_told_and_looked_at_again(state, error):
    """A mistake of ours, or of a plug-in: the server lives, and shows the campaign when it can."""
    views = Counting()
    gatherer = gatherer_of(state, views)
    views.wrong = error
    assert (await gatherer.fresh()).trouble
    views.wrong = None
    views.clock.now_s += PERIOD_S + 0.1
    assert (await gatherer.fresh()).trouble == ""
    await gatherer.close()


async def test_another_journal_in_its_place_begins_anew(state, finished, tmp_path):
    """Nothing of the old one is taken over."""
    views = Counting()
    gatherer = gatherer_of(state, views)
    first = await gatherer.fresh()
    copied(finished, tmp_path / "other")
    (tmp_path / "other" / "journal.sqlite").replace(state / "journal.sqlite")
    views.clock.now_s += PERIOD_S + 0.1
    second = await gatherer.fresh()
    assert second.file != first.file
    assert second.study is None
    await gatherer.close()


@pytest.mark.system
async def test_the_model_is_looked_into_by_a_polite_process_that_ends_with_the_server(state):
    """It gives way to others, knows what the journal says, and leaves nothing behind."""
    scholar = ProcessScholar(state)
    first, second = [study async for study in scholar.studies()]
    assert first.recommendation is not None
    assert first.flips is None
    assert second == replace(first, flips=second.flips, flips_of=second.decision)
    assert second.flips
    children = psutil.Process(os.getpid()).children(recursive=True)
    workers = [p for p in children if "spawn_main" in " ".join(p.cmdline())]
    assert [p.nice() for p in workers] == [15]
    await scholar.close()
    gone, alive = psutil.wait_procs(workers, timeout=60)
    assert (len(gone), alive) == (1, [])


@pytest.mark.system
async def test_what_the_model_says_may_be_missing(tmp_path):
    """No journal, no study, and why not; the next one is asked for as if nothing had been."""
    scholar = ProcessScholar(tmp_path)
    for _ in range(2):
        (study,) = [study async for study in scholar.studies()]
        assert (study.recommendation, study.trouble != "") == (None, True)
    await scholar.close()
