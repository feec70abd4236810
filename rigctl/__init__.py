"""rigctl: chooses which variables of an experiment are worth controlling, and at what values.

What is named here is what others may build on (docs/python.md); everything else is private to rigctl and may change
with any release, whatever its name. A name is imported when it is first asked for, so `import rigctl` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rigctl import policies as policies
    from rigctl.campaigns import read as read
    from rigctl.campaigns import run as run
    from rigctl.config.load import LoadedConfig as LoadedConfig
    from rigctl.config.load import load as load
    from rigctl.core.advice.answer import answer_of as answer_of
    from rigctl.core.advice.explain import explain as explain
    from rigctl.core.advice.recommend import Recommendation as Recommendation
    from rigctl.core.asking import Played as Played
    from rigctl.core.asking import play as play
    from rigctl.core.experiment.history import History as History
    from rigctl.core.experiment.history import Observation as Observation
    from rigctl.core.experiment.marginals.families import Empirical as Empirical
    from rigctl.core.experiment.marginals.families import TruncatedNormal as TruncatedNormal
    from rigctl.core.experiment.marginals.families import Uniform as Uniform
    from rigctl.core.experiment.natural import Learned as Learned
    from rigctl.core.experiment.policy import Finished as Finished
    from rigctl.core.experiment.policy import Proposal as Proposal
    from rigctl.core.experiment.problem import FurtherOutcome as FurtherOutcome
    from rigctl.core.experiment.problem import ModelOptions as ModelOptions
    from rigctl.core.experiment.problem import Problem as Problem
    from rigctl.core.experiment.space import ControlSet as ControlSet
    from rigctl.core.experiment.space import Space as Space
    from rigctl.core.experiment.space import Variable as Variable
    from rigctl.errors import ConfigError as ConfigError
    from rigctl.errors import DeviceBusy as DeviceBusy
    from rigctl.errors import DeviceError as DeviceError
    from rigctl.errors import DeviceFault as DeviceFault
    from rigctl.errors import DeviceTimeout as DeviceTimeout
    from rigctl.errors import ExperimentFileError as ExperimentFileError
    from rigctl.errors import GarbledReply as GarbledReply
    from rigctl.errors import GuardRefused as GuardRefused
    from rigctl.errors import IdentityMismatch as IdentityMismatch
    from rigctl.errors import JournalError as JournalError
    from rigctl.errors import Locked as Locked
    from rigctl.errors import PluginError as PluginError
    from rigctl.errors import PolicyError as PolicyError
    from rigctl.errors import PortUnavailable as PortUnavailable
    from rigctl.errors import RigctlError as RigctlError
    from rigctl.errors import Tripped as Tripped
    from rigctl.errors import UnknownPlugin as UnknownPlugin
    from rigctl.errors import UsageError as UsageError
    from rigctl.experiment import Experiment as Experiment
    from rigctl.experiment import Suggestion as Suggestion
    from rigctl.experiment import category as category
    from rigctl.experiment import recommend as recommend
    from rigctl.experiment import variable as variable
    from rigctl.rig.clocks import Clock as Clock
    from rigctl.rig.conformance import check_driver as check_driver
    from rigctl.rig.messages import Message as Message
    from rigctl.rig.messages import MessageLine as MessageLine
    from rigctl.rig.protocols import Actuator as Actuator
    from rigctl.rig.protocols import ActuatorState as ActuatorState
    from rigctl.rig.protocols import AddressedLine as AddressedLine
    from rigctl.rig.protocols import ByteLine as ByteLine
    from rigctl.rig.protocols import Deadline as Deadline
    from rigctl.rig.protocols import Device as Device
    from rigctl.rig.protocols import DeviceOptions as DeviceOptions
    from rigctl.rig.protocols import Doser as Doser
    from rigctl.rig.protocols import DoseStatus as DoseStatus
    from rigctl.rig.protocols import Driver as Driver
    from rigctl.rig.protocols import Identity as Identity
    from rigctl.rig.protocols import Line as Line
    from rigctl.rig.protocols import Meter as Meter
    from rigctl.rig.protocols import OpenLine as OpenLine
    from rigctl.rig.protocols import Reading as Reading
    from rigctl.rig.protocols import RegisterLine as RegisterLine
    from rigctl.rig.protocols import Sensor as Sensor
    from rigctl.rig.protocols import Severity as Severity

_HOMES = {
    "rigctl.campaigns": ("read", "run"),
    "rigctl.config.load": ("LoadedConfig", "load"),
    "rigctl.core.experiment.history": ("History", "Observation"),
    "rigctl.core.experiment.problem": ("FurtherOutcome", "ModelOptions", "Problem"),
    "rigctl.core.experiment.space": ("ControlSet", "Space", "Variable"),
    "rigctl.core.advice.explain": ("explain",),
    "rigctl.core.experiment.marginals.families": ("Empirical", "TruncatedNormal", "Uniform"),
    "rigctl.core.experiment.natural": ("Learned",),
    "rigctl.core.asking": ("Played", "play"),
    "rigctl.core.experiment.policy": ("Finished", "Proposal"),
    "rigctl.core.advice.answer": ("answer_of",),
    "rigctl.core.advice.recommend": ("Recommendation",),
    "rigctl.errors": (
        *("ConfigError", "DeviceBusy", "DeviceError", "DeviceFault", "DeviceTimeout", "ExperimentFileError"),
        *("GarbledReply", "GuardRefused", "IdentityMismatch", "JournalError", "Locked", "PluginError"),
        *("PolicyError", "PortUnavailable", "RigctlError", "Tripped", "UnknownPlugin", "UsageError"),
    ),
    "rigctl.experiment": ("Experiment", "Suggestion", "category", "recommend", "variable"),
    "rigctl.rig.clocks": ("Clock",),
    "rigctl.rig.conformance": ("check_driver",),
    "rigctl.rig.messages": ("Message", "MessageLine"),
    "rigctl.rig.protocols": (
        *("Actuator", "ActuatorState", "AddressedLine", "ByteLine", "Deadline", "Device", "DeviceOptions"),
        *("DoseStatus", "Doser", "Driver", "Identity", "Line", "Meter", "OpenLine", "Reading"),
        *("RegisterLine", "Sensor", "Severity"),
    ),
}
__all__ = ["__version__", "policies", *(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604 - they are strings


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata  # noqa: PLC0415 - only for what is asked for

    if name == "__version__":
        return metadata.version("rigctl")
    if name == "policies":
        return import_module("rigctl.policies")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'rigctl' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
