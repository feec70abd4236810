"""One trial, from proposal to record: what goes on while nothing goes wrong.

A trial may begin with a look at the variables before it is decided; whether that counts when another process goes on
with it is said here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import TYPE_CHECKING, Final, Protocol

from rigctl.campaign.awaiting import Awaiting
from rigctl.campaign.caretaker import Caretaker
from rigctl.campaign.closing import cancel, close_open_trial, cost_so_far, idle_since, metered_before, record
from rigctl.campaign.decide import FRUITLESS, Question, done_instead, last_that_worked, runs_what_stands, without_answer
from rigctl.campaign.decider import Decider
from rigctl.campaign.desk import CampaignPart, StandingNews
from rigctl.campaign.events import TrialLooked, TrialProposed, TrialStep
from rigctl.campaign.instruments import judged_by_past, needed_ml, room_for
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.ledger.plausibility import slept_through
from rigctl.campaign.production import drifted
from rigctl.campaign.trial import Decision, Event, Looked, State, look_of, undecided
from rigctl.core.costs.beliefs import left_for_a_trial
from rigctl.core.experiment.history import History, end_of
from rigctl.core.experiment.money import Micros, to_units
from rigctl.core.experiment.policy import Finished
from rigctl.errors import NoAnswer, PolicyError, ReadBackMismatch, RigctlError, in_words
from rigctl.rig.clocks import ROUNDING_S
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import Action, RigSpec
from rigctl.rig.values import Measurement
from rigctl.text import in_full

if TYPE_CHECKING:
    from rigctl.rig.rig import Rig

# The look before the decision -----------------------------------------------------------------------------------------


def outdated(journal: Journal, rig: RigSpec, trial: TrialRow) -> str:
    """Say why a trial that was decided by what was read is not to be carried out any more; empty if it is.

    Going safe undoes no refill: a rig is still as it was prepared if going safe only lets go what was let go anyway,
    and no person has moved anything by hand.
    """
    if not trial.looks:
        return ""
    if rig.timing.look is None:
        return "nobody looks before a decision any more"
    driven = sorted(name for name, limits in rig.limits.items() if limits.safe_state != "off")
    if driven:
        return f"going safe drives {', '.join(driven)}, so the rig is not as it was when it was looked at"
    act = journal.read.people.moved_since(journal.read.events(trial.trial)[0].at_s)
    if act is not None:
        return f"{act.who} has done by hand since it was looked at: {act.argument}"
    age_s, most_s = journal.past.looked_since(trial.trial).certain_s, rig.timing.look.counts_for_s
    if age_s > most_s:
        unknown = "the computer was started anew since, and nobody knows how old what was read is"
        return (
            unknown
            if age_s == inf
            else f"what was read is {age_s / 60:.3g} min old, and counts for {most_s / 60:.3g} min"
        )
    return ""


async def look_first(campaign: CampaignPart, trial: Decision, before: Mapping[str, Reading]) -> None:
    """Commit that a trial begins, with the meters' readings; prepare the rig; read its variables and commit that.

    Raises:
        DeviceError, GuardRefused, Tripped: it cannot be prepared, or is not let go; whoever calls closes it.
        JournalError: something cannot be recorded; the same holds.
    """
    number, spec, rig, journal = trial.trial, campaign.spec.rig, campaign.rig, campaign.journal
    await journal.call(lambda j: j.look(trial, before, idle_since(j, spec, before)))
    now_s, timing = campaign.clock.now_s(), spec.timing
    until_s = {"prepare": now_s + timing.prepare_s} if timing.prepare_s else {}
    until_s["look"] = now_s + timing.prepare_s + timing.look_s
    campaign.desk.tell(TrialStep(number, State.LOOKING, now_s, until_s))
    await rig.prepare()
    await campaign.clock.rest(0.0 if timing.look is None else timing.look.after_s)
    read = await rig.measure(look=True)
    await all_hold(rig)
    found = await journal.call(judged_by_past, spec, number, read)
    for name in (n for n, m in found.items() if m.severity >= Severity.INVALID):
        found[name] = replace(found[name], value=nan)  # what a frozen sensor says decides nothing
        told = f"trial {number}: not read before the decision, so what is usual is taken: {found[name].detail}"
        campaign.desk.minor(name, told, kind="not looked at")
    await journal.call(lambda j: j.keep_look(number, found))
    campaign.desk.tell(TrialLooked(number, found))


async def all_hold(rig: Rig) -> None:
    """Raise `ReadBackMismatch` unless all that is driven holds its value, and all else is let go."""
    astray = await rig.verify()
    if astray:
        raise ReadBackMismatch("; ".join(f"{name}: {says}" for name, says in astray.items()), devices=astray)


# The trial ------------------------------------------------------------------------------------------------------------

TOO_DEAR: Final = "max_per_trial"


class Overseer(Protocol):
    """Who runs the trials, as one of them knows it."""

    @property
    def runs_a_trial(self) -> bool:
        """Tell whether a trial is under way: from its decision to its end."""

    def break_off(self, rule: str, why: str, then: Action = "fail") -> None:
        """Break off the trial under way for what the watch knows nothing of."""

    async def make_safe(self) -> float:
        """Bring everything to a confirmed safe state."""

    async def obstructed(self) -> bool:
        """Tell whether something is in the way of the trial that was decided."""


@dataclass(slots=True)
class TrialRun(CampaignPart):
    """Carries out trials; mutable, for what one trial leaves behind for the next."""

    decider: Decider
    overseer: Overseer
    care: Caretaker = field(init=False)
    awaiting: Awaiting = field(init=False)
    needs_ml: Mapping[str, float] = field(default_factory=dict)
    """What the next trial is likely to take, by pump; the caps must have room for it."""
    idle: Micros = 0
    """What was used beside trials so far."""
    apart: bool = False
    """Whether something lies between the last trial and the next that is neither's: its meters are read afresh."""
    frozen: Mapping[str, float] = field(default_factory=dict)
    """Sensors that the last trial found frozen, and what they read."""
    cancelled: int = 0
    """Trials that this process has closed before anything moved."""
    _drifts: StandingNews = field(init=False)
    _unusable: int = 0
    """Decisions in a row that could not be used."""
    _noted: tuple[str, ...] = ()
    """By the last decision: what holds for many trials is an alarm once."""
    _told: int = 0
    """The last trial that people were told of."""

    def __post_init__(self) -> None:
        self._drifts = StandingNews(self.desk)
        self.care = self.part(Caretaker, lambda: self.overseer.runs_a_trial)
        self.awaiting = self.part(Awaiting)

    async def carried_out(self, history: History) -> TrialRow | None:
        """Return the next trial's row, once it is over; None if it had to wait before it began, or none can be played.

        Raises:
            BudgetSpent, Finished: there is none.
            PolicyError: too many decisions in a row could not be used.
            DeviceError, GuardRefused, Tripped: it cannot be finished; whoever calls makes safe and closes it.
            JournalError: something cannot be recorded; the same holds.
        """
        await self.care.judge(first=True)
        if self.care.nothing_left() or await self.cancel_queued() is not None:
            return None
        if self.spec.rig.timing.look is not None:
            return await self._look_first(history)
        trial = await self._propose(history)
        if trial is None:
            return None
        await self._ask_for_room(trial)
        # who begins anew looks again at what people have done meanwhile
        if self.care.changed or await self.overseer.obstructed():
            return None
        return await self._carry_out(trial, history)

    async def _ask_for_room(self, trial: TrialRow) -> None:
        self.needs_ml = await self.journal.call(needed_ml, self.spec.rig, trial.control_set, trial.setpoints)

    async def room(self) -> tuple[tuple[float, str], ...]:
        """Return from when on the caps have room for the next trial, rig time, and what does not fit now."""
        return await self.journal.call(room_for, self.spec.rig, self.needs_ml) if self.needs_ml else ()

    async def cancel_queued(self) -> TrialRow | None:
        """Close a trial that was decided, but has moved nothing, if a pause or an instrument is against it (row 45).

        So is one that has looked and was left behind, if what was read counts no longer; it is charged. It is not taken
        up again: when trials go on, another decision is made. Returns the trial, if there was one.
        """
        trial = await self.journal.call(lambda j: j.read.open_trial())
        if trial is None or trial.state is not State.PROPOSED:
            return None
        number = self.spec.problem.space.index_of(trial.control_set)
        asked = await self.journal.call(lambda j: j.read.people.paused_since(trial.trial))
        stale = await self.journal.call(outdated, self.spec.rig, trial)
        why = self.stop.pause or asked or self.care.barred.get(number, "") or stale
        if not why:
            return None
        if trial.looks:
            await self.overseer.make_safe()
        closed = await cancel(self, trial, why)
        self.cancelled += not trial.looks
        self.needs_ml = {}
        return closed

    async def _propose(self, history: History) -> TrialRow | None:
        """Return the trial that a process left behind before anything moved, else commit a new decision.

        None if a person has paused meanwhile.
        """
        trial = await self.journal.call(lambda j: j.read.open_trial())
        started = time.monotonic()
        looking = trial is not None and trial.state is State.LOOKING
        if trial is None or looking:
            decision = await self._decide(history, None if trial is None else trial.looks)
            if self.stop.pause and not looking:
                return None
            await self.journal.call(lambda j: j.propose(decision))
            trial = await self.journal.call(lambda j: j.read.trial(decision.trial))
        if trial.proposal is None:
            raise PolicyError(f"trial {trial.trial}: waits to be run, but the journal has no proposal for it")
        if trial.trial == self._told:
            return trial
        self._told = trial.trial
        self.desk.tell(
            TrialProposed(
                trial=trial.trial,
                proposal=trial.proposal,
                control_set=trial.control_set,
                setpoints=trial.setpoints,
                origin=trial.origin,
                decision_s=time.monotonic() - started,
            )
        )
        return trial

    async def waits_for_instruments(self, history: History) -> bool:
        """Tell whether the policy, which proposes nothing now, would if all control sets could be played."""
        if not self.care.barred or self.care.for_good:
            return False
        try:
            await self.decider.decide(await _question(history, self, {}), self.spec.decision_limit_s)
        except Finished:
            return False
        except NoAnswer:
            pass  # it has not said that it is over
        self.care.nothing_useful()
        return True

    async def _decide(self, history: History, looks: Mapping[str, Looked] | None = None) -> Decision:
        spec = self.spec
        question = await _question(history, self, self.care.barred)
        if looks:
            question = replace(question, problem=replace(question.problem, look=look_of(spec.problem.space, looks)))
        try:
            decision = await self.decider.decide(question, spec.decision_limit_s)
        except NoAnswer as silent:
            # as it was asked: what came while it was silent is known from the next decision on
            last = last_that_worked(await self.journal.call(lambda j: j.read.trials(question.history.corrections)))
            question = replace(question, history=await _whole(question.history, self))
            # Not a plug-in's code, and nothing is left to fall back on: it may take as long as it takes.
            decision = await asyncio.to_thread(without_answer, question, last, str(silent))
            decision = replace(decision, traceback=silent.traceback)
        name = spec.policy_name if spec.operating is None else spec.operating.name
        if decision.origin == "policy":
            self._unusable = 0
            drifts = drifted(decision, spec)
            if drifts is not None:
                self._drifts.are(drifts)
            # of production it is what has changed since the rule was made that people are told
            notes = () if decision.proposal is None or spec.operating is not None else decision.proposal.notes
            for note in (n for n in notes if n not in self._noted):
                self.desk.minor(f"policy {name}", f"trial {decision.trial}: {note}", kind="note")
            self._noted = notes
            return decision
        # a policy may not know that something cannot be played; and what stands may be run as long as it stands
        self._unusable += not question.problem.unavailable and not runs_what_stands(decision)
        message = f"trial {decision.trial}: {decision.note}; {done_instead(decision)} instead"
        self.desk.major(f"policy {name}", message, decision.traceback, kind=decision.origin)
        if self._unusable >= spec.max_failures:
            raise PolicyError(f"{self._unusable} decisions in a row could not be used; the last: {decision.note}")
        return decision

    # a trial that looks first ----------------------------------------------------------------------------------------

    async def _look_first(self, history: History) -> TrialRow | None:
        """Prepare the rig and read its variables, then decide; or go on with a trial that another process left behind.

        Once it looks nothing but its end ends it: what came up meanwhile closes it, charged.
        """
        asleep_s = self.clock.suspended_s() or 0.0
        if await self.journal.call(lambda j: j.read.open_trial()) is None:
            if self.care.changed or await self.overseer.obstructed():
                return None
            begun = await _worth_a_look(history, self)
            before = await metered_before(self, afresh=self.apart)
            if self.stop.pause:
                return None
            asleep_s = self.clock.suspended_s() or 0.0
            await look_first(self, begun, before)
            await self.care.judge()
            why = self.care.nothing_left()
            if why:
                return await self._give_up(f"nothing can be controlled any more: {why}")
        elif self.care.changed or await self.overseer.obstructed():
            return None
        trial = await self._propose(history)
        if trial is None:
            raise AssertionError("unreachable: a trial that has looked is decided, whoever asks for a pause")
        await self._ask_for_room(trial)
        slept = slept_through(
            (self.clock.suspended_s() or 0.0) - asleep_s, 0.0
        )  # a reading ages however long a trial settles
        room = await self.room()
        now_s = self.clock.now_s()  # asked afterwards: what fits already fits since the journal was asked
        full = "; ".join(why for free_s, why in room if free_s > now_s + ROUNDING_S)
        if slept or full:  # what was read is no longer so, or it cannot go on
            return await self._give_up(f"decided, but {slept or f'it has to wait: {full}'}")
        return await self._carry_out(trial, history)

    async def _give_up(self, why: str) -> TrialRow | None:
        """Close the trial that has looked, charged, once everything is safe; return it."""
        await self.overseer.make_safe()
        return await close_open_trial(self, Event.ABANDON, why)

    # from the first move to the record -------------------------------------------------------------------------------

    async def _carry_out(self, trial: TrialRow, history: History) -> TrialRow | None:
        """Carry out a trial, and have it broken off if it costs more than it may."""
        watching = self.clock.enlist(self._watch_cost(trial.trial, history), "cost of the trial")
        watching.add_done_callback(self._tell_unwatched)
        try:
            return await self._work(trial)
        finally:
            watching.cancel()

    def _tell_unwatched(self, watching: asyncio.Task[None]) -> None:
        error = None if watching.cancelled() else watching.exception()
        if error is not None:
            message = f"the cost of this trial is not watched, so nothing breaks it off: {in_words(error)}"
            self.desk.major("budget", message, kind="cost not watched")

    async def _watch_cost(self, number: int, history: History) -> None:
        """Break off the trial once the meters say that it has passed what it may cost; production has no limit."""
        spec, most = self.spec, left_for_a_trial(self.spec.left(self.idle), history)
        while spec.operating is None:
            meters = await self.rig.meters_meanwhile()
            with suppress(RigctlError):  # the trial meets it too, and says so
                trial = await self.journal.call(lambda j: j.read.open_trial())
                if trial is None or trial.state not in (State.ARMED, State.RUNNING):
                    continue
                cost = await self.journal.call(cost_so_far, spec.rig, number, meters)
                if cost > most:
                    so_far, limit = in_full(to_units(cost), 4), in_full(to_units(most), 4)
                    why = f"cost so far {so_far}, limit {limit} {spec.currency}"
                    self.desk.major(f"trial {number}", f"broken off: {why}", kind="too dear")
                    self.overseer.break_off(TOO_DEAR, why)
                    return

    async def _work(self, trial: TrialRow) -> TrialRow | None:
        number, spec, timing = trial.trial, self.spec, self.spec.rig.timing
        self.needs_ml = {}
        if trial.looks:  # it was metered, and the rig prepared, before that
            await self.journal.call(lambda j: j.arm(number, {}))
        else:
            before = await metered_before(self, afresh=self.apart)
            if self.stop.pause:
                return None
            await self.journal.call(lambda j: j.arm(number, before, idle_since(j, spec.rig, before)))
        self.apart = False
        now_s, waits_s = self.clock.now_s(), 0.0 if trial.looks else timing.prepare_s
        self.desk.tell(TrialStep(number, State.ARMED, now_s, {"prepare": now_s + waits_s} if waits_s else {}))
        setting = trial.setpoints
        states = await (self.rig.control(setting, prepared=True) if trial.looks else self.rig.control(setting))
        await self.journal.call(lambda j: j.run(number, states))
        now_s = self.clock.now_s()
        settled_s = now_s + timing.settle_s
        until_s = {"settle": settled_s, "measure": settled_s + timing.measure.for_s}
        self.desk.tell(TrialStep(number, State.RUNNING, now_s, until_s))
        await self._settle(settled_s)
        measurements = await self._measured(number)
        after = await self.rig.meters()
        await self.journal.call(lambda j: j.measure(number, measurements, spec.rig.outcome_names, after))
        self.desk.tell(TrialStep(number, State.MEASURED, self.clock.now_s()))
        return await self.journal.call(record, spec.rig, spec.problem, number)

    async def _settle(self, settled_s: float) -> None:
        """Let rig time pass; read meanwhile what is due of earlier trials, if that does not keep this one waiting."""
        takes_s = self.spec.rig.timing.measure.for_s
        while (due_s := await self.awaiting.next_s()) + takes_s < settled_s:
            await self.clock.rest(max(0.0, due_s - self.clock.now_s()))
            await self.awaiting.attend()
        await self.clock.rest(max(0.0, settled_s - self.clock.now_s()))

    async def _measured(self, number: int) -> dict[str, Measurement]:
        """Measure the window of every sensor, believed only if all that is driven held its value to the end."""
        measurements = await self.rig.measure()
        await all_hold(self.rig)
        rig = self.spec.rig

        judged = await self.journal.call(judged_by_past, rig, number, measurements)
        self.frozen = {n: m.value for n, m in measurements.items() if m.severity < judged[n].severity}
        return judged


def kept(history: History, decider: Decider) -> History:
    """Return as much of a history as this process need keep: its end, if whoever decides knows all of it."""
    return end_of(history, FRUITLESS) if decider.known(history) == len(history) else history


async def _question(history: History, trials: TrialRun, barred: Mapping[int, str], *, looks: bool = False) -> Question:
    """Return what is asked next, with all of the history if whoever decides has forgotten it or is new."""
    spec = trials.spec
    told = history if trials.decider.known(history) is not None else await _whole(history, trials)
    state = await trials.journal.call(lambda j: j.read.policy_state())
    return Question(spec.decides, spec.left(trials.idle, barred), spec.seed, told, state, looks=looks)


async def _worth_a_look(history: History, trials: TrialRun) -> Decision:
    """Return what stands for the decision while the trial looks; raise `BudgetSpent` if nothing fits anyway."""
    question = await _question(history, trials, trials.care.barred, looks=True)
    try:
        return await trials.decider.decide(question, trials.spec.decision_limit_s)
    except NoAnswer:  # what the decision itself makes of that is its own affair
        return undecided(question.trial, question.seed, question.problem.budget, question.history)


async def _whole(history: History, trials: TrialRun) -> History:
    """Return all of a history, read anew if only its end was kept."""
    if not history.before:
        return history
    space = trials.spec.problem.space
    return await trials.journal.call(lambda j: j.read.history(space, corrections=history.corrections))
