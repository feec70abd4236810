import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from rigctl.campaign.ledger.lines import LedgerLine
from rigctl.campaign.trial import TRANSITIONS, Event, IllegalTransition, State, advance
from rigctl.errors import JournalError
from tests.campaign.fakes import make_space, unsynced
from tests.campaign.records import MEASURED, READINGS, STATES, SetClock, begun, make_decision
from tests.profiles import share

SPACE = make_space()
amounts = st.integers(0, 10**12)


class JournalMachine(RuleBasedStateMachine):
    """Any order of steps, right and wrong ones, with the process killed at any moment, against a model in memory."""

    doses = Bundle("doses")

    @initialize()
    def begin(self):
        self.home = Path(tempfile.mkdtemp())
        self.clock = SetClock()
        self.lives = 0
        self.states: dict[int, State] = {}
        self.costs: dict[int, int] = {}
        self.open_doses: dict[int, float] = {}
        self.booked = 0.0
        self.journal = self.open()

    def open(self):
        """The next process, on a copy of exactly the bytes that the last one left."""
        return unsynced(begun(self.home / str(self.lives), clock=self.clock))

    @rule()
    def kill(self):
        """Nothing is closed, flushed or told; only the files are there."""
        before = self.home / str(self.lives)
        self.lives += 1
        after = self.home / str(self.lives)
        after.mkdir()
        for file in before.iterdir():
            if not file.name.endswith("-shm"):
                shutil.copy(file, after)
        self.journal.close()
        self.journal = self.open()

    @property
    def under_way(self):
        return next((n for n, state in self.states.items() if not state.final), None)

    @rule()
    def propose(self):
        number = len(self.states) + 1
        if self.under_way is not None:
            self.refused(self.journal.propose, make_decision(number))
            return
        self.journal.propose(make_decision(number))
        self.states[number] = State.PROPOSED

    @precondition(lambda self: self.states)
    @rule(event=st.sampled_from([e for e in Event if "INGEST" not in e and e is not Event.PROPOSE]), cost=amounts)
    def step(self, event, cost):
        """Any event on the last trial, whether its state allows it or not."""
        number = len(self.states)
        state, lines = self.states[number], [LedgerLine("power", "energy", 1.0, "kWh", cost)]
        writes = {
            Event.ARM: lambda: self.journal.arm(number, READINGS),
            Event.RUN: lambda: self.journal.run(number, STATES),
            Event.MEASURE: lambda: self.journal.measure(number, MEASURED, ("y",), READINGS),
        }
        write = writes.get(event, lambda: self.journal.finish(number, state, event, lines))
        if event not in TRANSITIONS.get(state, {}):
            self.refused(write)
            return
        write()
        self.states[number] = advance(state, event)
        if self.states[number].final:
            self.costs[number] = cost

    @rule(target=doses, volume=st.sampled_from([0.5, 1.0, 2.5]))
    def intend(self, volume):
        dose = self.journal.doses.intend("pump", volume, 0.0)
        self.open_doses[dose] = volume
        return dose

    @rule(dose=doses, volume=st.sampled_from([0.0, 0.5, 1.0]), state=st.sampled_from(["DONE", "UNKNOWN"]))
    def settle(self, dose, volume, state):
        if dose not in self.open_doses:
            self.refused(self.journal.doses.settle, dose, state, volume, "")
            return
        self.journal.doses.settle(dose, state, volume, "")
        del self.open_doses[dose]
        self.booked += volume

    def refused(self, write, *arguments):
        before = list(self.journal._connection.iterdump())
        with pytest.raises((JournalError, IllegalTransition)) as refusal:
            write(*arguments)
        assert not isinstance(refusal.value.__cause__, sqlite3.Error)  # by the state, not by a key that is there
        assert list(self.journal._connection.iterdump()) == before

    @invariant()
    def journal_agrees_with_the_model(self):
        if not hasattr(self, "journal"):
            return
        read = self.journal.read
        assert {row.trial: row.state for row in read.trials()} == self.states
        assert {row.trial: row.cost for row in read.trials() if row.state.final} == self.costs
        assert read.campaign().spent == sum(self.costs.values()) == read.history(SPACE).spent
        assert {d.dose: d.volume_ml for d in self.journal.doses.open()} == self.open_doses
        assert self.journal.doses.given_ml(["pump"], 0.0) == self.booked + sum(self.open_doses.values())
        assert [e.state for e in read.events()][-1:] == list(self.states.values())[-1:]

    def teardown(self):
        self.journal.close()
        shutil.rmtree(self.home)


TestJournalMachine = JournalMachine.TestCase
TestJournalMachine.settings = share(0.15)
