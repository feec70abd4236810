"""An experiment in a file: JSON with all that its next decision depends on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rigctl.codec import plain, typed
from rigctl.core.experiment.history import ALONE, History, Observation
from rigctl.core.experiment.marginals.conditional import Stretched
from rigctl.core.experiment.marginals.families import Discrete, Empirical, Marginal, TruncatedNormal, Uniform
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.policies.registry import policy_class
from rigctl.errors import ExperimentFileError, reason
from rigctl.files import whole

FORMAT = 1
"""Version of the file's layout."""
MARGINALS = (Uniform, TruncatedNormal, Empirical, Discrete, Learned, Stretched)
INNER = ("marginal", "prior")
"""Fields of a marginal that hold another one."""


@dataclass(slots=True)
class Saved:
    """What a file holds."""

    problem: Problem
    policy: Policy
    seed: int = 0
    currency: str = "EUR"
    outcome: str = "outcome"
    unit: str = ""
    history: History = field(default_factory=History)
    state: JsonState | None = None
    """The policy's memory; None before the first trial it has chosen."""


def write(path: Path, saved: Saved) -> None:
    """Write the file whole, or leave what was there.

    Raises:
        ExperimentFileError: the problem holds an object that no file can hold, or the file cannot be written.
    """
    if saved.problem.known_cost_field is not None:
        raise ExperimentFileError(path, "known_cost_field is code, must be None; save known_costs instead")
    problem = plain(saved.problem)
    for name in ("space", "usual"):
        space = getattr(saved.problem, name)
        if space is not None:
            for variable, into in zip(space.variables, problem[name]["variables"], strict=True):
                into["marginal"] = _tagged(path, variable.marginal)
    document = {
        "rigctl_experiment": FORMAT,
        "seed": saved.seed,
        "currency": saved.currency,
        "outcome": saved.outcome,
        "unit": saved.unit,
        "policy": {"name": saved.policy.name, "options": plain(saved.policy)},
        "problem": problem,
        "state": saved.state,
        "trials": plain(saved.history.observations),
    }
    try:
        with whole(path) as new:
            new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ExperimentFileError(path, f"cannot be written: {reason(error)}") from error


def read(path: Path, policy: Policy | None = None) -> Saved:
    """Read an experiment.

    Args:
        path: the file that `write` has written.
        policy: replaces the saved policy; needed where that one is not installed.

    Raises:
        ExperimentFileError: the file is missing, damaged, or of another version.
        UnknownPlugin: the saved policy is not installed.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentFileError(path, f"cannot be read: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ExperimentFileError(path, f"is no JSON: {error}") from error
    version = document.get("rigctl_experiment") if isinstance(document, dict) else None
    if version != FORMAT:
        raise ExperimentFileError(
            path, f"rigctl_experiment: got {version}, must be {FORMAT}; load a file that Experiment.save has written"
        )
    try:
        return _saved(document, policy)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise ExperimentFileError(path, f"does not hold an experiment: {type(error).__name__}: {error}") from error


def _saved(document: Mapping[str, Any], policy: Policy | None) -> Saved:
    given = document["policy"]
    problem = _problem(document["problem"])
    observations = typed(tuple[Observation, ...], document["trials"])
    for o in observations:
        if not ALONE <= o.control_set < len(problem.space.control_sets):
            raise ValueError(f"trial {o.trial}: there is no control set {o.control_set}")
        if o.x is not None and len(o.x) != problem.space.dimension:
            raise ValueError(f"trial {o.trial}: got {len(o.x)} values, must be {problem.space.dimension}")
    return Saved(
        problem,
        typed(policy_class(given["name"]), given["options"]) if policy is None else policy,
        int(document["seed"]),
        document["currency"],
        document["outcome"],
        document["unit"],
        History.of(observations),
        document["state"],
    )


def _problem(document: Mapping[str, Any]) -> Problem:
    for name in ("space", "usual"):
        if document[name] is not None:
            for variable in document[name]["variables"]:
                variable["marginal"] = _marginal(variable["marginal"])
    problem = typed(Problem, document)
    return replace(problem, unavailable={int(i): why for i, why in problem.unavailable.items()})


def _tagged(path: Path, marginal: Marginal) -> dict[str, Any]:
    """Return a marginal as plain values with its kind."""
    if not isinstance(marginal, MARGINALS):
        allowed = ", ".join(kind.__name__ for kind in MARGINALS)
        raise ExperimentFileError(path, f"got a marginal of type {type(marginal).__name__}, must be one of {allowed}")
    inner = {name: _tagged(path, getattr(marginal, name)) for name in INNER if hasattr(marginal, name)}
    return {"kind": type(marginal).__name__, **plain(marginal), **inner}


def _marginal(document: Mapping[str, Any]) -> Marginal:
    """Return the marginal that `_tagged` has written."""
    kinds = {kind.__name__: kind for kind in MARGINALS}
    fields = {name: _marginal(value) if name in INNER else value for name, value in document.items() if name != "kind"}
    kind: type[Any] = kinds[document["kind"]]
    made: Marginal = typed(kind, fields)
    return made
