"""The thread that decisions run in."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rigctl.campaign.decide import FRUITLESS, Question, decide
from rigctl.campaign.decider import DecisionThread
from rigctl.core.history import History, Observation
from tests.campaign.fakes import make_spec


@pytest.fixture
def lingering(monkeypatch):
    """Makes the first deciding thread of the running loop linger between delivering its answer and its end."""
    let_go, lingers = threading.Event(), []

    def arrange():
        loop = asyncio.get_running_loop()
        deliver = loop.call_soon_threadsafe

        def deliver_and_linger(*args, **kwargs):
            thread = threading.current_thread()
            first = thread.name == "decide" and not lingers
            if first:
                lingers.append(thread)
            handle = deliver(*args, **kwargs)
            if first:
                let_go.wait()
            return handle

        monkeypatch.setattr(loop, "call_soon_threadsafe", deliver_and_linger)
        return lingers

    yield arrange
    let_go.set()
    for thread in lingers:
        thread.join()


async def test_who_has_the_answer_may_ask_again(lingering):
    """A thread that has delivered its answer but not ended yet does not make the next decision late."""
    lingers, decisions = lingering(), DecisionThread()
    assert await decisions.call(lambda: 1, None) == 1
    assert await decisions.call(lambda: 2, None) == 2
    assert lingers[0].is_alive()


async def test_an_error_is_an_answer_too(lingering):
    """What the work raises comes out of the call, and the next one is not late."""
    lingering()
    decisions = DecisionThread()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await decisions.call(fail, None)
    assert await decisions.call(lambda: 2, None) == 2


async def test_a_late_decision_keeps_the_next_one_waiting_until_it_is_done():
    """While late work still runs a call is late at once and runs nothing; once it has come to its end calls work."""
    decisions, begun, release, threads, ran = DecisionThread(), threading.Event(), threading.Event(), [], []

    def late():
        threads.append(threading.current_thread())
        begun.set()
        release.wait()
        return "late"

    with pytest.raises(TimeoutError):
        await decisions.call(late, 0.0)
    with pytest.raises(TimeoutError, match="still runs"):
        await decisions.call(lambda: ran.append("meanwhile"), None)
    begun.wait()
    release.set()
    threads[0].join()
    assert await decisions.call(lambda: "next", None) == "next"
    assert ran == []


async def test_without_another_thread_the_next_call_is_not_taken_for_late(monkeypatch):
    """A thread that could not be started is told, and blocks nothing."""
    decisions = DecisionThread()

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await decisions.call(lambda: 1, None)
    assert await decisions.call(lambda: 2, None) == 2


def decided(*outcomes):
    """The decision after trials of control set 0 with these outcomes; None: it gave none."""
    spec = make_spec()
    size = spec.problem.space.dimension
    history = History.of(
        Observation(t, 0, None if y is None else (0.5,) * size, y, 1) for t, y in enumerate(outcomes, start=1)
    )
    return decide(Question(spec.policy, spec.problem, 7, history, None))


def test_what_gives_no_outcome_is_not_asked_for_for_ever():
    """After a few trials of one control set without an outcome something else is tried, and said; once."""
    fruitless = decided(1.0, *[None] * FRUITLESS)
    assert (fruitless.origin, fruitless.control_set != ("a",)) == ("rejected", True)
    assert f"the last {FRUITLESS} trials, of a, gave no outcome" in fruitless.note
    for others in ([None] * (FRUITLESS - 1), [*[None] * FRUITLESS, 1.0]):
        assert decided(1.0, *others).origin == "policy"
