"""`rigctl suggest`: the next trial, for whoever carries it out; reads a history, drives nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.instruments import barred
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.trial import Decision, Looked, look_of
from rigctl.codec import fields_of
from rigctl.codec import to_json as codec_json
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import has_journal, own_journal
from rigctl.console.benches.by_hand import memory, observation, quantities, read_rows
from rigctl.core.advice.explain import explain
from rigctl.core.asking import first_state
from rigctl.core.costs.beliefs import left_for_a_trial
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.money import Micros, to_units
from rigctl.core.experiment.policy import BudgetSpent, Finished, Proposal
from rigctl.core.experiment.problem import JsonState
from rigctl.errors import JournalError, Locked, PolicyError, UsageError, counted
from rigctl.flaws import got
from rigctl.page.campaign import campaign_spec
from rigctl.text import in_full, shown_unit

SQLITE = b"SQLite format 3"
"""What every journal begins with."""


@dataclass(frozen=True, slots=True)
class Known:
    """Holds what a decision starts from."""

    history: History
    state: JsonState
    """The policy's memory; as before the first trial where it has none."""
    idle: Micros = 0
    """What was used beside the trials."""
    unavailable: Mapping[int, str] = field(default_factory=dict)
    """Control sets whose instruments cannot be used now, and why."""


@dataclass(frozen=True, slots=True)
class NextTrial:
    """Holds the next trial."""

    proposal: Proposal
    decision: Decision
    """The same as the journal keeps it."""
    decision_s: float
    """Wall seconds."""


def read_past(loaded: LoadedConfig, directory: Path, history: Path | None) -> Known:
    """Read the history from `--history` (a CSV file, a journal, a state directory), else from the state directory.

    Raises:
        UsageError: `--history` is nothing of that kind.
        ConfigError: the CSV file does not hold.
        JournalError: the journal cannot be read.
    """
    space, fresh = loaded.problem.space, first_state(loaded.policy, loaded.problem)
    if history is None and not has_journal(directory):
        return Known(History(), fresh)
    source = directory if history is None else history
    if source.suffix.lower() == ".csv":
        rows = enumerate(read_rows(loaded, source), start=1)  # the trials, in the order of the file
        past = History.of(observation(trial, row, space) for trial, row in rows)
        return Known(past, memory(loaded, past) or fresh)
    if not source.exists():
        raise UsageError(f"--history {source}: not there; give a .csv file, a journal or a state directory")
    if source.is_file() and not _may_be_journal(source):
        raise UsageError(f"--history {source}: must be a .csv file, a journal or a state directory")
    with open_reader(source) as reader:
        # a control set may be gone from the configuration since
        try:
            past = reader.history(space, [f.name for f in loaded.problem.further])
        except ValueError as error:
            raise UsageError(f"{source}: does not fit {loaded.path}: {error}") from error
        return Known(past, reader.policy_state() or fresh, reader.idle.spent(), barred(reader, loaded.rig, space))


def _may_be_journal(file: Path) -> bool:
    """Tell by name or first bytes: what is wrong with a journal is the journal's to say."""
    with file.open("rb") as stream:
        return file.name == FILE_NAME or stream.read(len(SQLITE)) == SQLITE


def readings(loaded: LoadedConfig, given: str | None) -> Mapping[str, Looked]:
    """Return what a person has read just now, `ph=6.1,ca=3.3` in the variables' units; nothing where it was not said.

    Raises:
        UsageError: it is empty, a name is no variable, or a value no number, or one that its variable can hardly have.
    """
    if given is None:
        return {}
    if not given.strip():
        raise UsageError(got(given, "must be NAME=X,...", "leave --now out where nothing was read", where="--now"))
    found = {}
    for v, _, value in quantities(loaded, "--now", given):
        unit = f" {shown_unit(v.unit)}".rstrip()
        if not 2 * v.low - v.high <= value <= 2 * v.high - v.low:
            told = f"got {in_full(value)}{unit}, far outside its range of {in_full(v.low)} to {in_full(v.high)}{unit}"
            raise UsageError(f"--now: {v.name}: {told}; look at the reading and its unit, or leave it out")
        found[v.name] = Looked(value)
    return found


def read_now(loaded: LoadedConfig, given: str | None) -> Look | None:
    """Return it as policies take it; None where nothing is given. Raises as `readings`."""
    return look_of(loaded.problem.space, readings(loaded, given))


def suggest(loaded: LoadedConfig, past: Known, looks: Mapping[str, Looked] = MappingProxyType({})) -> NextTrial:
    """Ask the policy, as a running campaign would: what cannot be played is replaced by safe exploration, and said.

    The decision starts from `past`; `looks` are what the variables read just now, see `readings`.

    Raises:
        PolicyError: it cannot decide, nothing fits the remaining budget, or its stopping rule fired.
    """
    trial = len(past.history) + 1
    began = time.perf_counter()
    problem = replace(loaded.problem, budget=loaded.problem.budget - past.idle, unavailable=past.unavailable)
    if looks:
        problem = replace(problem, looks=True, look=look_of(problem.space, looks))
    try:
        decision = decide(Question(loaded.policy, problem, loaded.seed, past.history, past.state))
    except BudgetSpent as spent:
        known = counted(len(past.history), "trial")
        capped = left_for_a_trial(problem, past.history) < problem.budget - past.history.spent
        more = "" if capped else "give more with --budget, or "
        raise PolicyError(
            f"suggest: no trial {trial}, nothing fits the remaining budget after {known} ({loaded.currency}: "
            f"{spent}); {more}ask `rigctl recommend` for what to run from now on"
        ) from spent
    except Finished as finished:
        raise PolicyError(
            f"suggest: no trial {trial}, the policy's stopping rule fired after {counted(len(past.history), 'trial')}: "
            f"{finished}; ask `rigctl recommend` for what to run from now on"
        ) from finished
    suggested = decision.proposal
    if suggested is None:
        raise AssertionError("unreachable: only trials done by hand have none")
    decision = replace(decision, looks=dict(looks))
    return NextTrial(suggested, decision, time.perf_counter() - began)


def keep(loaded: LoadedConfig, directory: Path, decision: Decision) -> str:
    """Keep a suggestion in the journal, made if missing, for `ingest`, `explain` and `replay`; say why it was not.

    It is not kept where it would not be that of this campaign; empty if it was. A rig that drives itself has decisions
    of its own: before its campaign has begun nothing is kept.
    """
    if not has_journal(directory) and loaded.wired:
        return "the campaign has not begun"
    if _is_kept(directory, decision):
        return ""
    try:
        with own_journal(directory, loaded.rig.speedup) as journal:
            journal.begin(campaign_spec(loaded), version("rigctl"))
            read = journal.read
            known = len(read.trials()), read.people.last_correction()
            if known == (decision.history_length, decision.corrections):
                journal.people.suggest(decision)
            journal.beat(ended="suggest")
    except (Locked, UsageError, JournalError) as error:
        return str(error)
    return "" if known == (decision.history_length, decision.corrections) else "another trial was recorded meanwhile"


def _is_kept(directory: Path, decision: Decision) -> bool:
    if not has_journal(directory):
        return False
    with open_reader(directory) as reader:
        kept = reader.people.suggestion_for(decision.trial)
    given = fields_of(decision)
    # as text, so that NaN equals NaN
    return kept is not None and codec_json({n: getattr(kept, n) for n in given}) == codec_json(given)


def to_json(loaded: LoadedConfig, past: Known, suggestion: NextTrial) -> Mapping[str, Any]:
    """Return the answer for programs: bounds in the outcome's own units, money in currency units."""
    proposal, space = suggestion.proposal, loaded.problem.space
    looks = suggestion.decision.looks
    return {
        "trial": proposal.trial,
        "policy": loaded.policy_name,
        "phase": proposal.phase,
        "control_set": space.control_sets[proposal.control_set].names,
        "setpoints": space.setpoints(proposal.control_set, proposal.setting),
        "seed": loaded.seed,
        "decision_s": suggestion.decision_s,
        "reason": proposal.reason,
        "technical": proposal.technical,
        "control_sets": proposal.sets,
        "read": proposal.read,
        "threshold": proposal.threshold,
        "budget": {
            "total": to_units(loaded.problem.budget),
            "spent": to_units(past.history.spent + past.idle),
            "predicted_next": proposal.predicted_cost if proposal.cost_known else None,
            "assumed_next": proposal.assumed_cost,
        },
        **({"now": {name: look.value for name, look in looks.items()}} if looks else {}),
    }


def sentences(
    loaded: LoadedConfig, proposal: Proposal, *, technical: bool = False, titled: bool = True
) -> tuple[str, ...]:
    """Return why a trial is proposed, for people, or in the terms of the policy's paper."""
    return explain(
        proposal,
        loaded.problem,
        outcome=loaded.rig.outcome_label,
        unit=loaded.outcome_unit,
        currency=loaded.currency,
        technical=technical,
        titled=titled,
    )
