"""What to run from now on: the reason, how sure it is and what to try next, held against the table beside them."""

from collections import Counter
from dataclasses import replace

import pytest

from rigctl.core.advice.answer import answer_of
from rigctl.core.advice.answer_words import AnswerWords
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from tests.core.claims import unreadable
from tests.core.conftest import make_history
from tests.core.made_up import WORDY, decisions
from tests.core.test_advice import tried

PRICES = (None, 0.0, 0.3, 2.0)
UNITS = {"a": "mM", "b": "V"}


def words(found):
    return AnswerWords(answer_of(found), "growth", "cm2", "EUR", UNITS)


def promises_more(answer, one, other):
    """Whether a row promises more than another, by the table: in money, else as good for less, or better."""
    if None not in (one.net, other.net):
        return one.net > other.net
    if one.cost is None or other.cost is None or (one.kind == "today" and one.cost_is == "at least"):
        return False
    gain = (1 if answer.maximise else -1) * (one.expected - other.expected)
    return gain >= 0 and one.cost <= other.cost and (gain > 0 or one.cost < other.cost)


def earned(answer, way, outcome):
    own = outcome if answer.maximise else -outcome
    return own if answer.price is None else answer.price * own - (way.cost or 0.0)


def hope(answer, way):
    return earned(answer, way, way.high if answer.maximise else way.low)


def wrong_amounts(answer):
    run, sign = answer.run, 1 if answer.maximise else -1
    for way in answer.ways:
        if not way.low <= way.expected <= way.high:
            yield f"{way}: its interval leaves it out"
        if way.net is not None and way.net != pytest.approx(sign * answer.price * way.expected - way.cost, abs=0.006):
            yield f"{way}: net is not what it is worth less what it costs"
    pairs = [(answer.why, run, answer.why.other)] if answer.why else []
    pairs += [(answer.try_next, answer.try_next.other, run)] if answer.try_next else []
    pairs += [(answer.today, run, answer.today.other)] if answer.today else []
    for said, one, other in pairs:
        differences = [
            (said.gain, sign * (one.expected - other.expected)),
            (said.saving, None if said.saving is None else other.cost - one.cost),
            (said.net, None if said.net is None else one.net - other.net),
        ]
        if any(told != pytest.approx(shown, abs=1e-9) for told, shown in differences):
            yield f"{said}: another difference than that of the rows"
        if said.other not in answer.ways[1:] or said.other not in answer.named(1):
            yield f"{said}: names what stands in no row"


def wrong_order(answer):
    run = answer.run
    more = [way for way in answer.ways[1:] if promises_more(answer, way, run)]
    if answer.why is not None and answer.why.other in more:
        yield "the reason is a way that promises more"
    if more and (answer.try_next is None or answer.try_next.other not in more):
        yield "a row promises more, and nobody says that it is to be tried"


def wrong_certainty(answer, allowed):
    run, certain, sign = answer.run, answer.certainty, 1 if answer.maximise else -1
    beyond = [way for way in answer.ways[1:] if hope(answer, way) > earned(answer, run, run.expected)]
    dearer = [
        way
        for way in beyond
        if way.net is None
        and None not in (way.cost, run.cost)
        and way.cost > run.cost
        and 0 < sign * (way.expected - run.expected) <= allowed + 10**-answer.decimals
    ]
    if certain.kind == "clear" and (len(beyond) != len(dearer) or certain.others_dearer != bool(dearer)):
        yield "called clear, but an interval reaches beyond it"
    if certain.kind == "may be as good" and certain.rival not in beyond:
        yield "called unsure, but no interval reaches so far"


def contradictions(answer, allowed=0.0):
    """Everything that the answer says and its table denies, in order, sign or amount."""
    return [*wrong_amounts(answer), *wrong_order(answer), *wrong_certainty(answer, allowed)]


def check(policies, seeds):
    """Read every answer that these campaigns would have given, at several prices; count what they were."""
    seen, denied = Counter(), []
    for policy in policies:
        for seed in seeds:
            for situation, _, _ in decisions(policy, seed):
                if not situation.history.complete:
                    continue
                price = PRICES[(len(situation.history) + 1) % len(PRICES)]
                rng, tolerance = situation.rng, 0.1 * (seed % 3)
                today = {} if (len(situation.history) + 1) % 5 else {"b": 0.5}
                found = recommend(
                    situation.problem, situation.history, rng, tolerance, today=today, floor_cost=0.05, price=price
                )
                answer = answer_of(found)
                where = f"{policy.name}, seed {seed}, trial {len(situation.history) + 1}"
                denied += [f"{where}: {line}" for line in contradictions(answer, found.allowed)]
                denied += [f"{where}: {line}" for line in words(found).lines() if unreadable(line)]
                played = {o.control_set for o in situation.history.complete}
                if played and answer.run.kind == "setting" and not answer.run.trials:
                    denied.append(f"{where}: runs what was never tried")
                seen["answers"] += 1
                seen[answer.certainty.kind] += 1
                seen["try next"] += answer.try_next is not None
    return seen, denied


@pytest.mark.parametrize(
    ("policies", "seeds", "least"),
    [
        pytest.param(WORDY[::12], (1,), 25, marks=pytest.mark.slow),
        pytest.param(WORDY, range(4), 1000, marks=pytest.mark.nightly),
    ],
    ids=["some policies", "a thousand decisions of all"],
)
def test_no_reason_contradicts_the_table_beside_it(policies, seeds, least):
    """In order, sign and amount; minimised and maximised, with and without a price."""
    seen, denied = check(policies, seeds)
    assert denied == []
    assert seen["answers"] >= least
    assert least < 1000 or min(seen[kind] for kind in ("clear", "may be as good", "try next")) > 20


def imported(n=16):
    """Trials of the past that controlled both variables, where b plays no part, and a alone would be cheaper."""
    at = [(u, v) for u in (0.1, 0.3, 0.5, 0.8) for v in (0.1, 0.4, 0.6, 0.9)][:n]
    return make_history([(2, x, 1.0 - (x[0] - 0.3) ** 2, 10.0) for x in at])


def test_what_was_never_tried_is_to_be_tried_next(problem, golden):
    """Every old trial controlled both; a alone promises as much for less: both are run, and a is tried next."""
    known = replace(problem, known_costs=(2.0, 2.0, 10.0))
    found = recommend(known, imported(), trial_rng(0, 1), 0.05)
    answer = answer_of(found)
    assert (answer.run.control_set, answer.run.trials) == (("a", "b"), 16)
    assert (answer.try_next.other.control_set, answer.try_next.other.trials) == (("a",), 0)
    assert answer.try_next.saving == pytest.approx(8.0)
    golden([words(found).headline(), *words(found).lines()])


def test_what_an_instrument_holds_is_not_run(problem):
    """While another set can be played; without a price the cheapest that is good enough, with one what earns more."""
    found = recommend(problem, tried((0, 1, 2), (0.3, 0.2, 1.0)), trial_rng(0, 1), 0.1)
    assert answer_of(found).run.control_set == ("a",)
    answer = answer_of(replace(found, held={"a": "its pump is silent"}))
    assert answer.run.control_set == ("a", "b")
    assert answer.try_next is None
    assert contradictions(answer, found.allowed) == []
    every = dict.fromkeys(("a", "b", "a+b"), "no power")
    assert answer_of(replace(found, held=every)).run.control_set == ("a",)
    history = tried((0, 1), (0.3, 0.01, 1.0))
    runs = {
        price: answer_of(recommend(problem, history, trial_rng(0, 1), 0.05, price=price)).run for price in (0.01, 5.0)
    }
    assert [way.control_set for way in runs.values()] == [("b",), ("a",)]


def test_all_that_is_said_is_said_once(problem, golden):
    """Headline, reason, certainty, at a price and without one, maximised and minimised."""
    said = []
    for price in (None, 0.5):
        for maximise in (True, False):
            history = tried((0, 1, 2), (0.3, 0.2, 1.0))
            turned = [(o.control_set, o.x, o.y if maximise else -o.y, o.cost / 1e6) for o in history.observations]
            asked = replace(problem, maximise=maximise, floor=0.0 if maximise else None)
            found = recommend(asked, make_history(turned), trial_rng(0, 1), 0.1, price=price)
            said += [words(found).in_short(), words(found).headline(), *words(found).lines()]
    golden(said)
