"""What is summed up once and kept is what a fresh look gives, whatever happens; and nothing reads it all."""

from contextlib import closing, suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.campaign.journal.database import fetch
from rigctl.campaign.journal.past import COSTS
from rigctl.campaign.ledger.plausibility import ENOUGH, PastCosts, PastLine, hours
from rigctl.campaign.trial import Event, State
from rigctl.errors import JournalError
from tests.campaign.fakes import unsynced
from tests.campaign.records import LINES, STEPS, SetClock, begun, record_trial
from tests.profiles import share

lines = st.builds(
    PastLine,
    st.sampled_from([("a",), ("b",), ("a", "b")]),
    st.sampled_from(["power", "acid"]),
    st.integers(0, 10**12),
    st.one_of(st.just(0.0), st.floats(1e-3, 1e7)),
)


def per_hour(past, meter, control_set):
    """What they cost on a meter, micro-units per rig hour, each by itself."""
    return [
        p.amount / hours(p.elapsed_s)
        for p in past
        if p.meter == meter and p.elapsed_s > 0 and control_set in (None, p.control_set)
    ]


@share(0.5)
@given(st.lists(lines, max_size=60))
def test_sums_are_those_of_all_lines_to_the_last_digit(past):
    """Count, mean, dearest: as worked out from every line each time."""
    costs = PastCosts.of(past)
    for meter in ("power", "acid"):
        for control_set in (None, ("a",), ("b",), ("a", "b")):
            of = [p.amount for p in past if p.meter == meter and control_set in (None, p.control_set)]
            rates, tally = per_hour(past, meter, control_set), costs.on(meter, control_set)
            assert (tally.lines, tally.amount) == (len(of), sum(of))
            assert (tally.timed, tally.rates) == (len(rates), sum(rates, Decimal(0)))
            assert tally.dearest == max(rates, default=Decimal(0))
            assert tally.telling == (len(rates) >= ENOUGH and any(rates))


steps = st.lists(
    st.tuples(
        st.sampled_from(["RECORD", "FAIL", "LOSE"]),
        st.lists(st.tuples(st.floats(0.1, 20.0), st.sampled_from(["DONE", "UNKNOWN", "INTENT"])), max_size=3),
        st.booleans(),
    ),
    max_size=6,
)


def a_trial(journal, number, end, doses):
    """One that ends so, with these doses."""
    if end == "RECORD":
        record_trial(journal, number)
        return
    for event in (Event.PROPOSE, Event.ARM, Event.RUN):
        STEPS[event](journal, number)
    for volume, state in doses:
        dose = journal.doses.intend("pump", volume, 0.0)
        if state != "INTENT":
            journal.doses.settle(dose, state, volume, "")
    asked(journal)
    for left in journal.doses.open():
        journal.doses.settle(left.dose, "UNKNOWN", left.volume_ml, "")
    journal.finish(number, State.RUNNING, Event[end], LINES)


def asked(journal):
    """All that is kept, as this process has it."""
    return journal.costs(), journal.doses.dearest_trial_ml("pump"), journal.read.campaign().spent


def worked_out(journal):
    """The same, of every row."""
    sql = journal.read.connection.execute
    ml = "SELECT trial, sum(coalesce(dispensed_ml, volume_ml)) FROM doses WHERE trial IS NOT NULL GROUP BY trial"
    return (
        PastCosts.of(fetch(journal.read.connection, PastLine, COSTS, 0)),
        max((row[1] for row in sql(ml)), default=0.0),
        sql("SELECT coalesce(sum(amount_micros), 0) FROM ledger").fetchone()[0],
    )


@share(0.2)
@given(steps)
def test_what_is_kept_is_what_a_fresh_look_gives(tmp_path_factory, trials):
    """After every trial, however it ended, asked in between or not; and after a change that was rolled back."""
    with closing(unsynced(begun(tmp_path_factory.mktemp("j")))) as journal:
        for number, (end, doses, ask_now) in enumerate(trials, start=1):
            a_trial(journal, number, end, doses)
            if ask_now:
                assert asked(journal) == worked_out(journal)
                journal.read.connection.execute("BEGIN")
                journal.read.connection.execute(
                    "INSERT INTO ledger SELECT NULL, trial, 'x', kind, NULL, unit, 7, 0, note FROM ledger LIMIT 1"
                )
                assert journal.read.campaign().spent == worked_out_spent(journal)
                journal.read.connection.execute("ROLLBACK")
        assert asked(journal) == worked_out(journal)


def worked_out_spent(journal):
    return journal.read.connection.execute("SELECT sum(amount_micros) FROM ledger").fetchone()[0]


QUESTIONS = (
    *(lambda j, n, ask=ask: getattr(j.read, ask)(n) for ask in ("trial", "events", "measurements", "ledger")),
    lambda j, n: j.doses.rows(n),
    lambda j, n: (j.read.open_trial(), j.read.policy_state(), j.read.campaign(), j.costs()),
    lambda j, n: (j.past.meters(), j.past.last_meters(), j.past.unread_meters(), j.past.rested_s()),
    lambda j, n: (j.past.metered_trials(n, 2), j.read.idle.since_last_trial(), j.doses.dearest_trial_ml("pump")),
    lambda j, n: (j.doses.given_ml(["pump"], j.time.now_s() - 86_400.0), j.doses.unanswered("pump", "ph")),
)


def effort(journal, question, trial):
    """Steps of SQLite's machine that a question takes, asked again as the next trial does."""
    taken = [0]

    def step():
        taken[0] += 1

    question(journal, trial)
    journal.read.connection.set_progress_handler(step, 1)
    question(journal, trial)
    journal.read.connection.set_progress_handler(None, 1)
    return taken[0]


@pytest.mark.slow
def test_what_is_asked_for_every_trial_takes_the_same_however_many_there_are(tmp_path):
    """Counted in steps of SQLite's own machine, of which a clock knows nothing: 80 trials later they are the same."""
    clock = SetClock()
    with closing(unsynced(begun(tmp_path, clock=clock))) as journal:
        efforts = []
        for number in range(1, 91):
            clock.at_s += 86_400.0
            a_trial(journal, number, "FAIL" if number % 2 else "RECORD", [(1.0, "DONE")])
            with suppress(JournalError):
                journal.doses.answered("pump", "ph", 0.1, 0.1, answered=True)
            if number in (10, 90):
                efforts.append([effort(journal, question, number - 1) for question in QUESTIONS])
        for few, many in zip(*efforts, strict=True):
            assert many <= 1.1 * few + 20, efforts
