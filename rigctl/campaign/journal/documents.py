"""The JSON documents in the journal's columns, each of which says of which version it is.

In column `proposal` stands `{"version": 1, "proposal": ...}`. The upgraders stand beside the numbered migrations: entry
k of a column takes a document from version k to k + 1 whenever it is read; what is on disk stays as it was written. One
that has been released is never edited. Whoever adds one adds a migration too, if only an empty one, so that older
versions refuse the file as a whole. Version 0 is release 0.1.0's, which wrote the bare value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from rigctl.codec import parsed, plain
from rigctl.errors import JournalNewer

Upgrader = Callable[[Any], Any]


def _enveloped(value: Any) -> Any:
    return value  # the envelope is all that is new


_NATURALS = MappingProxyType(
    {"Uniform": "uniform", "TruncatedNormal": "truncated_normal", "Empirical": "empirical", "Learned": "learned"}
)
"""What release 0.1.0 called them; the names of its classes."""


def _without_classes(identity: Mapping[str, str]) -> Mapping[str, str]:
    """Take an `identity` to version 1: kinds are called by their words in a configuration, or not at all.

    In 0.1.0 every `kind` that begins with a capital is the name of a Python class.
    """
    kept = {}
    for key, text in identity.items():
        value = parsed(text)
        if key.endswith(".kind") and value[:1].isupper():
            if value not in _NATURALS:
                continue
            value = _NATURALS[value]
        if key == "trial.prepare":
            value = [{name: part for name, part in step.items() if name != "kind"} for step in value]
        kept[key] = json.dumps(value)
    return kept


def _without_look(identity: Mapping[str, str]) -> Mapping[str, str]:
    """Take an `identity` to version 2: nobody looked before deciding."""
    return {**identity, "trial.look": "null"} if identity else identity


def _with_versions(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a `policy_state` to version 1: the hyper-parameters in it say their own version."""
    known = state.get("hyperparameters")
    return state if known is None else {**state, "hyperparameters": {"version": 1, **known}}


def _of_one_setting(proposal: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a `proposal` to version 2: all numbers of a set are of one setting, and reasons are plain words.

    Mean, spread and hopeful bound were of `upper_at`; the cautious bound, which was another setting's, is as far on the
    other side of the mean. A mean of exactly 0 for every set is a model's that had seen nothing.
    """
    phases = {"explore": "this trial was to learn", "commit": "this trial was to be good at least cost"}
    reports = proposal.get("sets", ())
    unseen = all(report["mean"] == 0.0 for report in reports)
    sets = []
    for report in reports:
        kept = {name: value for name, value in report.items() if name not in ("upper_at", "lower_at")}
        values = {"lower": 2 * report["mean"] - report["upper"], "best_lower": report["lower"]}
        if unseen:
            values = dict.fromkeys(("mean", "sd", "lower", "upper", "best_lower"))
        sets.append({**kept, **values, "at": report["upper_at"], "best_lower_at": report["lower_at"]})
    reason = proposal["reason"]
    return {**proposal, "sets": sets, "reason": phases.get(proposal["phase"], reason), "technical": reason}


UPGRADERS: Final[Mapping[str, tuple[Upgrader, ...]]] = MappingProxyType(
    {
        "policy_options": (_enveloped,),
        "identity": (_without_classes, _without_look),
        "code": (_enveloped,),
        "control_set": (_enveloped,),
        "setpoints": (_enveloped,),
        "proposal": (_enveloped, _of_one_setting),
        "policy_state": (_with_versions,),
        "was": (_enveloped,),
        "becomes": (_enveloped,),
        "unavailable": (_enveloped,),
        "slopes": (_enveloped,),
        "looks": (_enveloped,),
    }
)
"""By column; a column's present version is their number."""


def stored(column: str, value: Any) -> str:
    return json.dumps({"version": len(UPGRADERS[column]), column: plain(value)})


def loaded(column: str, text: str) -> Any:
    """Return what a document of this column says, as the present version would have written it.

    Raises:
        JournalNewer: a newer rigctl wrote it.
    """
    found, upgraders = parsed(text), UPGRADERS[column]
    enveloped = isinstance(found, dict) and len(found) == 2 and "version" in found and column in found
    version, value = (found["version"], found[column]) if enveloped else (0, found)
    if version > len(upgraders):
        raise JournalNewer(
            f"the journal's {column} was written by a newer rigctl (version {version}, this one knows up to "
            f"{len(upgraders)}); update rigctl, or start a new campaign with another --state directory"
        )
    for upgrade in upgraders[version:]:
        value = upgrade(value)
    return value
