"""What a campaign is started with, and what of it must stay the same when it is resumed."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import BaseModel

from rigctl.codec import fields_of, plain
from rigctl.core.experiment.marginals.conditional import Stretched
from rigctl.core.experiment.marginals.families import Discrete, Empirical, Marginal, TruncatedNormal, Uniform
from rigctl.core.experiment.money import Micros, to_units
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import FurtherOutcome, Problem
from rigctl.core.experiment.space import Variable
from rigctl.errors import UsageError
from rigctl.rig.spec import MeterSpec, RigSpec, TrialTiming, VariableWiring
from rigctl.text import in_full

if TYPE_CHECKING:
    from rigctl.core.operating.policy import Operating


ENDLESS: Final = 10**15
"""More micro-units than are ever spent."""


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """One campaign, as configured."""

    rig: RigSpec
    problem: Problem
    policy: Policy
    policy_name: str
    policy_options: Mapping[str, Any]
    """JSON."""
    seed: int
    currency: str
    config_text: str
    """The configuration as the user wrote it, kept with the results."""
    decision_limit_s: float = 60.0
    """Wall seconds a decision may take."""
    outcome_unit: str | None = None
    """None: not compared with what the campaign began with."""
    same_unit: Callable[[str, str], bool] = operator.eq
    """Whether two spellings are of one unit."""
    max_trials: int | None = None
    """The campaign ends when it has this many trials."""
    max_failures: int = 5
    """Consecutive trials that fail (or decisions that cannot be used) before the campaign gives up."""
    operating: Operating | None = None
    """Runs batches for production instead of trials; None: it is the campaign that is run."""
    batches: int | None = None
    """Of these the process ends after so many; None: it goes on until it is stopped."""

    @property
    def decides(self) -> Policy:
        """Return who is asked what to do next."""
        return self.policy if self.operating is None else self.operating

    def left(self, idle: Micros, barred: Mapping[int, str] = MappingProxyType({})) -> Problem:
        """Return the problem with what the budget leaves for trials; production has none, and lacks nothing.

        `idle` is what was used beside the trials; `barred` says of each control set that cannot be played now why.
        """
        budget = self.problem.budget - idle if self.operating is None else ENDLESS
        return replace(self.problem, budget=budget, unavailable=barred)

    @property
    def identity(self) -> Mapping[str, str]:
        """Return what makes results comparable, as dotted key -> JSON; a resumed campaign must have the same.

        Left out on purpose: the budget (may be raised), ports and timeouts (cables move), safety limits and dosing
        steps (may be tightened), trial limits and the clock's speedup.
        """
        return identity_of(self)


NATURALS: Final[Mapping[type, str]] = MappingProxyType(
    {
        Uniform: "uniform",
        TruncatedNormal: "truncated_normal",
        Empirical: "empirical",
        Discrete: "shares",
        Learned: "learned",
        Stretched: "natural_range",
    }
)
"""What a configuration calls them. An identity holds such words, never the name of a class: code may be renamed."""


def identity_of(spec: CampaignSpec) -> Mapping[str, str]:
    space, problem, rig = spec.problem.space, spec.problem, spec.rig
    options = spec.policy if is_dataclass(spec.policy) else spec.policy_options
    parts: dict[str, Any] = {
        "rig": rig.name,
        "currency": spec.currency,
        "seed": spec.seed,
        "policy": {"name": spec.policy_name, "options": options},
        "model": {**fields_of(problem.model), "kernel": problem.model.kernel_used},
        "control_sets": [c.label for c in space.control_sets],
        "outcome": {
            "name": rig.outcome_name,
            "sensor": rig.outcomes[0].sensor or "",
            "maximise": problem.maximise,
            "late": None,  # one that comes later, or no longer does, is noticed
        },
        "further_outcomes": [
            {"name": f.name, "sensor": wired.sensor or "", "maximise": f.maximise, "floor": f.floor, **_limit(f)}
            for f, wired in zip(problem.further, rig.outcomes[1:], strict=True)
        ],
        "floor": problem.floor,
        "costs": {"ceiling": problem.cost_ceiling, "known": problem.known_costs, "model": problem.cost_model},
        "trial": _timing(rig.timing),
        "variables": {v.name: {**_lasting(v), "marginal": _natural(v.marginal)} for v in space.variables},
        "wiring": {w.name: _wiring(rig, w) for w in rig.variables},
        "meters": {m.name: _meter(m) for m in rig.meters},
        "devices": {n: {"driver": d.driver, "options": d.options} for n, d in rig.devices.items()},
    }
    if problem.changeovers:
        parts["costs"]["changeovers"] = [space.variables[i].name for i in problem.changeovers]
    if spec.outcome_unit is not None:
        parts["outcome"]["unit"] = spec.outcome_unit
        parts["further"] = {f.name: {"unit": f.unit} for f in problem.further}
    if rig.late is not None:
        parts["outcome"] |= {"late": rig.late_names, "how": rig.late.by, "after_s": rig.late.after_s or 0.0}
    # With the names listed, a part that comes or goes is noticed; see `check_resumable`.
    names = {f"{part}.names": sorted(parts[part]) for part in ("variables", "meters", "devices")}
    return dict(_leaves("", plain({**parts, **names}, _leaf)))


def _limit(further: FurtherOutcome) -> Mapping[str, float | None]:
    """Return what its limit is; nothing where it has none."""
    told = {"at_least": further.at_least, "at_most": further.at_most, "probability": further.probability}
    return told if further.limited else {}


def _lasting(variable: Variable) -> Mapping[str, Any]:
    """Return what of a variable stays: people may read it under another label."""
    return {key: value for key, value in fields_of(variable).items() if key != "label"}


def _timing(timing: TrialTiming) -> Mapping[str, Any]:
    """Return what happens in a trial; the look as one value, so that one that comes or goes is noticed."""
    look = timing.look
    told = None if look is None else [look.after_s, look.for_s, look.every_s]
    return {**fields_of(timing), "look": told}


def _meter(meter: MeterSpec) -> Mapping[str, Any]:
    parts = {"kind": meter.kind, "device": meter.device, "price": meter.mean_price}
    if meter.tariff is None:
        return parts
    rates = [[r.price, [[sorted(d.days), d.begin_min, d.end_min] for d in r.during]] for r in meter.tariff.rates]
    return {**parts, "tariff": {"zone": meter.tariff.zone, "rates": rates}}


def _wiring(rig: RigSpec, wired: VariableWiring) -> Mapping[str, Any]:
    """Return what moves a variable; the names of pumps that dose along as one value, as of a look."""
    partners = {name: rig.partners[name] for name in wired.actuators if rig.partners.get(name)}
    along = sorted(partner for others in partners.values() for partner in others)
    parts = {"sensor": wired.sensor or "", "actuator": wired.actuator, "second": wired.second}
    return {**parts, "partners": partners, "along": along}


def _natural(marginal: Marginal) -> Mapping[str, Any]:
    values = {
        name: _natural(value) if name in ("prior", "marginal") else value for name, value in fields_of(marginal).items()
    }
    return {"kind": NATURALS[type(marginal)], **values}


def _leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    else:
        yield path, json.dumps(value)


READ_BY: Final = re.compile(r"control_sets|variables\.names|.+\.unit|variables\.[^.]+\.(low|high|step|levels)")
"""A proposal is kept as the number of its control set and a point of the unit cube: by others it would be another."""


def check_readable(before: Mapping[str, str], spec: CampaignSpec) -> None:
    """Refuse to read results as those of other control sets, ranges or units; raises as `check_resumable`."""
    meant = {k: v for k, v in before.items() if READ_BY.fullmatch(k)}
    check_resumable(meant, spec, spec.problem.budget)


def check_resumable(before: Mapping[str, str], spec: CampaignSpec, budget_before: Micros) -> None:
    """Refuse to go on with results that are not comparable.

    Only keys that both have are compared: one more option in a newer rigctl is no change of the experiment. Nor is
    another spelling of the same unit.

    Raises:
        UsageError: names every part that changed, with its old and new value.
    """
    now, budget_now = spec.identity, spec.problem.budget

    def same(key: str) -> bool:
        was, is_ = (json.loads(parts[key]) for parts in (before, now))
        units = key.endswith(".unit") and isinstance(was, str) and isinstance(is_, str)
        return before[key] == now[key] or (units and spec.same_unit(was, is_))

    changed = [f"{k}: was {before[k]}, is {now[k]}" for k in sorted(before) if k in now and not same(k)]
    if budget_now < budget_before:
        was, is_ = (in_full(to_units(budget), 6) for budget in (budget_before, budget_now))
        changed.append(f"budget: was {was}, is {is_}; it may only be raised")
    if changed:
        listing = "\n  ".join(changed)
        raise UsageError(
            "the configuration is not the one that the campaign in this state directory was started with:\n  "
            f"{listing}\nput these back, or start a new campaign with another --state directory"
        )
