"""The greenhouse as a rig specification made by hand, over the buses of a running simulator."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.registry import Registry
from rigctl.rig.spec import (
    DeviceSpec,
    DosingSpec,
    MeasureSpec,
    MeterSpec,
    OutcomeSpec,
    PrepareStep,
    RigSpec,
    TrialTiming,
    VariableWiring,
)

PROBES: Mapping[str, dict[str, Any]] = {
    "ca": {"unit": "mM", "read": {"at": 0, "type": "float32"}},
    "b": {"unit": "uM", "read": {"at": 2, "type": "float32", "order": "CDAB"}},
    "nh4": {"unit": "mM", "read": {"at": 4, "type": "float32"}},
    "k": {"unit": "mM", "read": {"at": 6, "type": "int16", "scale": 0.01}},
}
COILS = {"softener": 0, "alkaliser": 1, "b_valve": 2, "nh4_valve": 3, "k_valve": 4, "refill": 5}
RANGES = {"ca": (0.5, 6.0), "b": (5.0, 60.0), "nh4": (0.1, 4.0), "k": (1.0, 12.0), "ph": (5.0, 7.0)}


def _sections() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Driver, bus and options by device."""
    devices: dict[str, tuple[str, str, dict[str, Any]]] = {
        "mains_meter": ("sdm120", "mains", {}),
        "ph_probe": ("ezo", "ph", {"model": "pH"}),
        "ca_doser": ("ezo-pmp", "ca", {}),
        "ph_doser": ("ezo-pmp", "acid", {}),
        "camera": ("scpi", "cam", {"unit": "cm2/day", "query": "MEAS:GROW?", "model": "GC-1"}),
    }
    devices |= {f"{name}_probe": ("modbus", "plc", options) for name, options in PROBES.items()}
    for name, coil in COILS.items():
        options: dict[str, Any] = {"enable": {"coil": coil}}
        probe = PROBES.get(name.removesuffix("_valve"))
        if probe is not None:
            options |= {"unit": probe["unit"], "write": probe["read"]}
        devices[name] = ("modbus", "plc", options)
    return devices


def greenhouse_spec(buses: Mapping[str, str], registry: Registry, *, timeout_s: float = 1.0) -> RigSpec:
    """The rig of config/greenhouse.yaml, on these buses."""
    devices = {
        name: DeviceSpec(name, driver, buses[bus], registry.driver(driver).options(**options), timeout_s)
        for name, (driver, bus, options) in _sections().items()
    }
    actuators = {"ca": "ca_doser", "b": "b_valve", "nh4": "nh4_valve", "k": "k_valve", "ph": "ph_doser"}
    limits = {
        actuator: ActuatorLimits(low=RANGES[name][0], high=RANGES[name][1], safe_state="off")
        for name, actuator in actuators.items()
    }
    limits |= {
        name: ActuatorLimits(low=0.0, high=1.0, safe_state="off") for name in ("softener", "alkaliser", "refill")
    }
    limits["ca_doser"] = ActuatorLimits(low=0.5, high=6.0, safe_state="off", per_dose_ml=150.0, per_day_ml=20_000.0)
    limits["ph_doser"] = ActuatorLimits(low=5.0, high=7.0, safe_state="off", per_dose_ml=80.0, per_day_ml=10_000.0)
    return RigSpec(
        name="greenhouse",
        devices=devices,
        variables=tuple(VariableWiring(n, f"{n}_probe", a, 0.02) for n, a in actuators.items()),
        outcomes=(OutcomeSpec(name="growth", unit="cm2/day", sensor="camera"),),
        timing=TrialTiming(480.0, MeasureSpec(120.0, 15.0, "median", 3), (PrepareStep("refill", 1.0, 120.0),)),
        meters=(
            MeterSpec("energy", Decimal("0.31"), "mains_meter", "electricity"),
            MeterSpec("volume", Decimal("0.0042"), "ca_doser", "calcium"),
            MeterSpec("volume", Decimal("0.009"), "ph_doser", "acid"),
            MeterSpec("time", Decimal("0.5"), name="labour"),
        ),
        limits=limits,
        dosing={
            "ca_doser": DosingSpec("ca_probe", 0.05, 0.08, 45.0, 6, "softener"),
            "ph_doser": DosingSpec("ph_probe", -0.04, 0.04, 45.0, 6, "alkaliser"),
        },
    )
