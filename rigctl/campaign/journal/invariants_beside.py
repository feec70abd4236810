"""What else holds in every journal: of looks before decisions, the campaign's phases, and what people did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rigctl.campaign.journal.stored import Rows, Violation, known_state, violation
from rigctl.campaign.trial import Event
from rigctl.rig.protocols import Severity


def is_decided(rows: Rows, trial: int) -> bool:
    """Tell whether a trial was decided, by a policy or a person: one that looked may have ended before."""
    said = rows.said(trial)
    return Event.LOOK not in said or Event.PROPOSE in said


def looks(rows: Rows) -> Iterator[Violation]:
    """Find trials decided by a look of which nothing is kept, and such as have a decision before they were decided."""
    read = rows.by_trial("looks")
    for row in rows["trials"]:
        said = rows.said(row["trial"])
        if not is_decided(rows, row["trial"]) and (row["proposal"] is not None or row["policy_state"] is not None):
            yield violation(row, "trials", "has a decision, but no step says that it was decided")
        if {Event.LOOK, Event.PROPOSE} <= said.keys() and row["trial"] not in read:
            yield Violation(
                "looks", f"trial {row['trial']}", "was decided after a look, but nothing says what was read"
            )
    for row in rows["looks"]:
        if not 0 <= row["severity"] <= Severity.INVALID or (row["value"] is None) != (
            row["severity"] == Severity.INVALID
        ):
            yield violation(row, "looks", f"has the value {row['value']} at severity {row['severity']}")


def phases(rows: Rows) -> Iterator[Violation]:
    """Find phases that cannot follow each other: ENDED is the last that a process says.

    Its first one need not be RUNNING: that was not kept if the disk was full.
    """
    for before, row in pairwise([None, *rows["phases"]]):
        if row is None:
            continue
        if before is not None and before["start"] == row["start"] and before["phase"] == "ENDED":
            yield violation(row, "phases", f"{row['phase']} follows ENDED in the same process")
        if before is not None and (before["start"] or 0) > (row["start"] or 0):
            yield violation(row, "phases", f"process {row['start']} speaks after {before['start']}")
        if (row["until_s"] is not None) != (row["phase"] == "WAITING"):
            yield violation(row, "phases", f"{row['phase']} until {row['until_s']} s cannot be")


def people(rows: Rows) -> Iterator[Violation]:
    """Find what people did that stands in no audit."""
    acts = {(row["verb"], row["argument"]) for row in rows["acts"]}
    for row in rows["acknowledgements"]:
        if ("ack", f"alarm {row['alarm']}") not in acts:
            yield violation(row, "acknowledgements", f"{row['who']} has acknowledged it, but no act says so")
    audited = {(row["argument"], row["who"]) for row in rows["acts"]}
    for row in rows["upkeep"]:
        if (" ".join(filter(None, (row["device"], row["part"]))), row["who"]) not in audited:
            yield violation(row, "upkeep", f"{row['who']} has done it to {row['device']}, but no act says so")
    for row in rows["corrections"]:
        late = rows.came.get(row["trial"], (0, {}))[0] == row["id"]  # nobody has corrected it: it came
        if not late and (row["kind"], f"trial {row['trial']}") not in acts:
            yield violation(row, "corrections", f"{row['who']} has corrected trial {row['trial']}, but no act says so")
        if (state := known_state(rows.events[row["trial"]][-1]["state"] if row["trial"] in rows.events else "")) and (
            not state.final
        ):
            yield violation(row, "corrections", f"trial {row['trial']} is corrected, but it is {state}")
