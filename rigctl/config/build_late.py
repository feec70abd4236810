"""Second check, outcomes that come later: from a person, or from sensors that are read when it is time."""

from __future__ import annotations

from typing import Final

from rigctl.config.findings import Context
from rigctl.config.sections import LateSection
from rigctl.errors import KeyPath
from rigctl.rig.spec import LateSpec

WITHIN_S: Final = 7 * 86400.0
"""Of an outcome by hand, unless the file says otherwise, rig seconds."""
PATIENCE: Final = 2.0
"""Of an outcome by a sensor: so many times `after`."""
_OF_LATE: Final = ("within", "then", "pending", "at_end")


def build_late(context: Context) -> LateSpec | None:
    """Return how outcomes come after the rig has done its part of a trial; None: all are measured in it."""
    first, findings = context.config.outcome, context.findings
    _further(context)
    by_hand = first.by == "hand"
    for path, section in context.outcomes:
        if section.by == "hand" and section.sensor is not None:
            what = f'got "{section.sensor}", but a person says it (by: hand); take one of them out'
            findings.add((*path, "sensor"), what)
    if by_hand and first.after is not None:
        findings.add(("outcome", "after"), "is for an outcome that a sensor reads; by: hand takes `within` alone")
    if not by_hand and first.after is None:
        for key in (key for key in _OF_LATE if key in first.model_fields_set):
            findings.add(("outcome", key), "is only for an outcome that comes later; give by: hand, or `after`")
        return None
    after_s = first.after or 0.0
    within_s = first.within or (WITHIN_S if by_hand else PATIENCE * after_s)
    if not by_hand and within_s <= after_s and not findings.told(("outcome", "after")):
        within, after = (findings.given(("outcome", key)) for key in ("within", "after"))
        what = f'got "{within}", must be more than `after`, {after}: the sensor is tried again until then'
        findings.add(("outcome", "within"), what)
    names = [section.name for _, section in context.outcomes if not by_hand or section.by == "hand"]
    return LateSpec(
        names=tuple(names),
        how="hand" if by_hand else "sensor",
        within_s=within_s,
        after_s=0.0 if by_hand else after_s,
        hold=first.then == "hold",
        pending=first.pending,
        wait_at_end=first.at_end == "wait",
    )


def _further(context: Context) -> None:
    first = context.config.outcome
    for i, section in enumerate(context.config.further_outcomes):
        path: KeyPath = ("further_outcomes", i)
        for key in LateSection.model_fields.keys() - {"by"}:
            if key in section.model_fields_set:
                what = "is said of `outcome`, for all outcomes of a trial are awaited together; move it there"
                context.findings.add((*path, key), what)
        if section.by == "hand" and first.by != "hand":
            what = "got hand, must be sensor unless `outcome` is by hand, too: the trial waits for all of them"
            context.findings.add((*path, "by"), what)
