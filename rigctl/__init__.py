"""rigctl: chooses which variables of an experiment are worth controlling, and at what values.

What is named here is what others may build on (docs/python.md); everything else is private to rigctl and may change
with any release, whatever its name. A name is imported when it is first asked for, so `import rigctl` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rigctl.campaigns import read as read
    from rigctl.campaigns import run as run
    from rigctl.config.load import LoadedConfig as LoadedConfig
    from rigctl.config.load import load as load
    from rigctl.core.acquisition.outlook import Choice as Choice
    from rigctl.core.acquisition.outlook import Outlook as Outlook
    from rigctl.core.acquisition.outlook import OutlookPolicy as OutlookPolicy
    from rigctl.core.acquisition.outlook import first_point as first_point
    from rigctl.core.acquisition.outlook import look as look
    from rigctl.core.asking import next_proposal as next_proposal
    from rigctl.core.experiment.history import History as History
    from rigctl.core.experiment.history import Observation as Observation
    from rigctl.core.experiment.problem import FurtherOutcome as FurtherOutcome
    from rigctl.core.experiment.problem import ModelOptions as ModelOptions
    from rigctl.core.experiment.problem import Problem as Problem
    from rigctl.core.experiment.space import ControlSet as ControlSet
    from rigctl.core.experiment.space import Space as Space
    from rigctl.core.experiment.space import Variable as Variable
    from rigctl.core.explain import explain as explain
    from rigctl.core.marginals.families import Empirical as Empirical
    from rigctl.core.marginals.families import TruncatedNormal as TruncatedNormal
    from rigctl.core.marginals.families import Uniform as Uniform
    from rigctl.core.natural import Learned as Learned
    from rigctl.core.play import Played as Played
    from rigctl.core.play import play as play
    from rigctl.core.policies.check import check_policy as check_policy
    from rigctl.core.policies.registry import policy_class as policy_class
    from rigctl.core.policies.registry import policy_names as policy_names
    from rigctl.core.policy import BudgetSpent as BudgetSpent
    from rigctl.core.policy import Finished as Finished
    from rigctl.core.policy import Policy as Policy
    from rigctl.core.policy import Proposal as Proposal
    from rigctl.core.recommend import Recommendation as Recommendation
    from rigctl.core.recommend import recommend as recommend
    from rigctl.errors import ConfigError as ConfigError
    from rigctl.errors import PolicyError as PolicyError
    from rigctl.errors import RigctlError as RigctlError
    from rigctl.errors import UsageError as UsageError
    from rigctl.experiment import Experiment as Experiment
    from rigctl.experiment import Suggestion as Suggestion
    from rigctl.experiment import variable as variable
    from rigctl.rig.conformance import check_driver as check_driver

_HOMES = {
    "rigctl.campaigns": ("read", "run"),
    "rigctl.config.load": ("LoadedConfig", "load"),
    "rigctl.core.acquisition.outlook": ("Choice", "Outlook", "OutlookPolicy", "first_point", "look"),
    "rigctl.core.experiment.history": ("History", "Observation"),
    "rigctl.core.experiment.problem": ("FurtherOutcome", "ModelOptions", "Problem"),
    "rigctl.core.experiment.space": ("ControlSet", "Space", "Variable"),
    "rigctl.core.explain": ("explain",),
    "rigctl.core.marginals.families": ("Empirical", "TruncatedNormal", "Uniform"),
    "rigctl.core.natural": ("Learned",),
    "rigctl.core.play": ("Played", "play"),
    "rigctl.core.policies.check": ("check_policy",),
    "rigctl.core.policies.registry": ("policy_class", "policy_names"),
    "rigctl.core.policy": ("BudgetSpent", "Finished", "Policy", "Proposal"),
    "rigctl.core.asking": ("next_proposal",),
    "rigctl.core.recommend": ("Recommendation", "recommend"),
    "rigctl.errors": ("ConfigError", "PolicyError", "RigctlError", "UsageError"),
    "rigctl.experiment": ("Experiment", "Suggestion", "variable"),
    "rigctl.rig.conformance": ("check_driver",),
}
__all__ = ["__version__", *(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604 - they are strings


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata  # noqa: PLC0415 - only for what is asked for

    if name == "__version__":
        return metadata.version("rigctl")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'rigctl' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
