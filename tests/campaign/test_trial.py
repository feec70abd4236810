import itertools

import pytest

from rigctl.campaign.trial import TRANSITIONS, Event, IllegalTransition, State, advance

ALLOWED = {
    (None, Event.LOOK): State.LOOKING,
    (State.LOOKING, Event.PROPOSE): State.PROPOSED,
    (State.LOOKING, Event.FAIL): State.FAILED,
    (State.LOOKING, Event.ABANDON): State.ABANDONED,
    (State.LOOKING, Event.LOSE): State.LOST,
    (None, Event.PROPOSE): State.PROPOSED,
    (None, Event.INGEST): State.RECORDED,
    (None, Event.INGEST_FAILED): State.FAILED,
    (State.PROPOSED, Event.ARM): State.ARMED,
    (State.PROPOSED, Event.FAIL): State.FAILED,
    (State.PROPOSED, Event.ABANDON): State.ABANDONED,
    (State.ARMED, Event.RUN): State.RUNNING,
    (State.ARMED, Event.FAIL): State.FAILED,
    (State.ARMED, Event.ABANDON): State.ABANDONED,
    (State.ARMED, Event.LOSE): State.LOST,
    (State.RUNNING, Event.MEASURE): State.MEASURED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.ABANDON): State.ABANDONED,
    (State.RUNNING, Event.LOSE): State.LOST,
    (State.MEASURED, Event.RECORD): State.RECORDED,
    (State.MEASURED, Event.FAIL): State.FAILED,
    (State.MEASURED, Event.AWAIT): State.AWAITING,
    (State.AWAITING, Event.RECORD): State.RECORDED,
    (State.AWAITING, Event.FAIL): State.FAILED,
}


def test_only_the_agreed_steps_are_allowed():
    """Every pair of state and event leads where the design says, or is refused by name."""
    for state, event in itertools.product([None, *State], Event):
        if (state, event) in ALLOWED:
            assert advance(state, event) is ALLOWED[state, event]
        else:
            with pytest.raises(IllegalTransition, match=f"{state} cannot {event}"):
                advance(state, event)


def test_a_trial_that_awaits_its_outcome_is_charged_but_not_over():
    """All others are charged once they are over."""
    assert {state for state in State if state.charged != state.final} == {State.AWAITING}
    assert State.AWAITING.charged


def test_final_states_are_those_without_a_way_out():
    """RECORDED, FAILED, ABANDONED and LOST are final, the others are not."""
    final = {State.RECORDED, State.FAILED, State.ABANDONED, State.LOST}
    assert {state for state in State if state.final} == final
    assert final.isdisjoint(TRANSITIONS)


def test_a_refusal_says_what_is_allowed(golden):
    """The message names the events that the state does allow."""
    with golden.raises(IllegalTransition):
        advance(State.MEASURED, Event.LOSE)
