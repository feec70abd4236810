from itertools import pairwise

from rigctl.notify.gathering import FIRST_PAUSE_S, LONGEST_PAUSE_S, MOST, WORRYING_S, Delivery
from rigctl.notify.texts import Notice


def message(number):
    return Notice(f"m{number}", "body", "info")


def test_a_failure_is_tried_again_with_growing_pauses():
    """Nothing is left out; after a quarter of an hour somebody should know; one success and all is as before."""
    delivery, tried, now_s = Delivery(), [], 0.0
    delivery.put(message(1))
    while now_s < 4000.0:
        if delivery.attempt(now_s) is not None:
            tried.append(now_s)
            delivery.done(now_s, well=False)
        now_s += 1.0
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert max(pauses) == LONGEST_PAUSE_S
    assert delivery.worrying(WORRYING_S)
    assert not delivery.worrying(WORRYING_S - 1.0)
    assert delivery.attempt(now_s + LONGEST_PAUSE_S) is not None
    delivery.done(now_s + LONGEST_PAUSE_S, well=True)
    assert not delivery.worrying(1e9)
    assert not delivery.waiting


def test_too_many_lose_the_oldest_and_the_next_says_so(golden):
    """The count is told with the first that can be delivered."""
    delivery = Delivery()
    for number in range(MOST + 3):
        delivery.put(message(number))
    first = delivery.attempt(0.0)
    assert first.title == "m3"
    golden(first.body)
    delivery.done(0.0, well=True)
    assert delivery.attempt(0.0).body == "body"


def test_what_comes_during_an_attempt_displaces_no_other_message_unsaid(golden):
    """The one under way arrives and is not counted; the one that had to go is, with the next."""
    delivery, arrived = Delivery(), []
    for number in range(MOST):
        delivery.put(message(number))
    arrived.append(delivery.attempt(0.0))
    delivery.put(message(MOST))
    delivery.done(0.0, well=True)
    while (sent := delivery.attempt(0.0)) is not None:
        arrived.append(sent)
        delivery.done(0.0, well=True)
    assert [one.title for one in arrived] == [f"m{n}" for n in (0, *range(2, MOST + 1))]
    golden([one.body for one in arrived[1:3]])
