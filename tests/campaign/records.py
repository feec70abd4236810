"""Pieces of a trial, to put into a journal by hand."""

from rigctl.campaign.acts import Amend, Outcome, Void
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.database import ask
from rigctl.campaign.ledger.lines import LedgerLine
from rigctl.campaign.trial import Decision, Event, State
from rigctl.core.experiment.policy import Proposal
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import ActuatorState, Reading
from rigctl.rig.values import Measurement
from tests.campaign.fakes import make_spec


class SetClock(Clock):
    """Rig time that a test sets."""

    def __init__(self, now_s=1000.0, speedup=1.0):
        self.at_s = now_s
        self.speedup = speedup

    def now_s(self):
        return self.at_s

    def sleep(self, seconds):
        self.at_s += seconds


def make_decision(trial=1, control_set=("a",), **changes):
    """A decision of the policy, with its memory."""
    proposal = Proposal(trial, "ten-lines", "explore", 0, (0.5,), "its turn")
    fields = {
        "trial": trial,
        "control_set": control_set,
        "setpoints": dict.fromkeys(control_set, 5.0),
        "origin": "policy",
        "proposal": proposal,
        "policy_state": {"asked": trial},
        "seed": 7,
        "history_length": trial - 1,
        "budget": 100_000_000,
    }
    return Decision(**{**fields, **changes})


def rows(reader, table):
    """What stands in a table, by column."""
    return ask(reader._connection, f"SELECT * FROM {table} ORDER BY 1, 2")  # noqa: S608 - the journal's own names


READINGS = {"power": Reading(1.5, "kWh", 1000.0), "acid": Reading(20.0, "mL", 1000.0)}
STATES = {"a": ActuatorState(True, 5.0), "b": ActuatorState(False, None)}
MEASURED = {"a": Measurement(5.01, 0.02, 9, 1), "b": Measurement(0.3, 0.0, 10), "y": Measurement(1.7, 0.1, 10)}
LINES = (LedgerLine("power", "energy", 0.1, "kWh", 30_000), LedgerLine("water", "fixed", 1.0, "trial", 50_000))

STEPS = {
    Event.PROPOSE: lambda j, n: j.propose(make_decision(n)),
    Event.ARM: lambda j, n: j.arm(n, READINGS),
    Event.RUN: lambda j, n: j.run(n, STATES),
    Event.MEASURE: lambda j, n: j.measure(n, MEASURED, ("y",), READINGS),
    Event.RECORD: lambda j, n: j.finish(n, State.MEASURED, Event.RECORD, LINES),
}
"""The way of an ordinary trial, step by step."""


def begun(directory, trials=0, clock=None, boot="boot-1", **more):
    """Open a journal in which a campaign has begun and so many ordinary trials were recorded."""
    directory.mkdir(exist_ok=True)
    journal = Journal(directory, clock or SetClock(), boot, **more)
    journal.begin(make_spec(), "0.0")
    for trial in range(1, trials + 1):
        record_trial(journal, trial)
    return journal


def record_trial(journal, trial=1):
    """An ordinary trial, from proposal to record."""
    for step in STEPS.values():
        step(journal, trial)


# Acts upon trials, as one line each


def void(journal, trial, who, why):
    return Void(trial=trial, who=who, why=why).apply(journal, None)


def restore(journal, trial, who, why):
    return Void(trial=trial, who=who, why=why, undo=True).apply(journal, None)


def amend(journal, trial, becomes, who, why):
    return Amend(trial=trial, becomes=becomes, who=who, why=why).apply(journal, None)


def give(journal, trial, outcomes, who, why="", **how):
    return Outcome(trial=trial, outcomes=outcomes, who=who, why=why, **how).apply(journal, None)


def give_up(journal, trial, who, why):
    return Outcome(trial=trial, lost=True, who=who, why=why).apply(journal, None)
