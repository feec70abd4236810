"""What a trial costs on average, from the plants' own powers and volumes at nominal prices.

For telling the truth only. Prices and timing are those of the example configurations; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_rig.plants import growth, lathe, tank, tunnel, turning
from sim_rig.plants.natural import FloatArray, to_unit
from sim_rig.plants.pump import DosingPump

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class GreenhousePrices:
    """As in config/greenhouse.yaml."""

    energy_per_kwh: float = 0.31
    calcium_per_l: float = 4.2
    acid_per_l: float = 9.0
    time_per_h: float = 0.5
    fixed: float = 0.05
    prepare_s: float = 120.0
    settle_s: float = 420.0
    measure_s: float = 120.0
    mix_s: float = 45.0
    doses: float = 2.0
    """Doses a setpoint takes, on average."""


def greenhouse_cost(members: tuple[str, ...], x: FloatArray, prices: GreenhousePrices | None = None) -> FloatArray:
    """(n,) EUR for (n, 5) true values of which `members` are controlled."""
    p = prices or GreenhousePrices()
    u = to_unit(growth.VARIABLES, x)
    column = {v.name: i for i, v in enumerate(growth.VARIABLES)}
    power_w = np.full(len(x), tank.BASE_W)
    for name, (lowest_w, rise_w) in tank.VALVE_W.items():
        if name in members:
            power_w = power_w + lowest_w + rise_w * u[:, column[name]]
    power_w = power_w + tank.SOFTENER_W * ("ca" in members) + tank.ALKALISER_W * ("ph" in members)
    ca_ml = np.maximum(0.0, x[:, column["ca"]] - tank.SOFTENED_MM) / tank.CA_PER_ML * ("ca" in members)
    acid_ml = np.maximum(0.0, tank.ALKALISED_PH - x[:, column["ph"]]) / -tank.PH_PER_ML * ("ph" in members)
    pumping_s = (ca_ml + acid_ml) * 60.0 / DosingPump.max_rate_ml_per_min
    mixing_s = p.mix_s * p.doses * (("ca" in members) + ("ph" in members))
    duration_s = p.prepare_s + p.settle_s + p.measure_s + pumping_s + mixing_s
    energy_j = power_w * duration_s + tank.REFILL_W * tank.REFILL_S + tank.PUMP_W * pumping_s
    return np.asarray(
        energy_j / JOULES_PER_KWH * p.energy_per_kwh
        + (ca_ml * p.calcium_per_l + acid_ml * p.acid_per_l) / 1000.0
        + duration_s / 3600.0 * p.time_per_h
        + p.fixed
    )


@dataclass(frozen=True, slots=True)
class LathePrices:
    """As in config/lathe.yaml."""

    energy_per_kwh: float = 0.31
    tool_per_mm3: float = 18.0
    coolant_per_l: float = 6.0
    time_per_h: float = 0.9
    fixed: float = 0.10
    prepare_s: float = 90.0
    settle_s: float = 480.0
    measure_s: float = 120.0


def lathe_cost(members: tuple[str, ...], x: FloatArray, prices: LathePrices | None = None) -> FloatArray:
    """(n,) EUR for (n, 5) true values of which `members` are controlled."""
    p = prices or LathePrices()
    duration_s = p.prepare_s + p.settle_s + p.measure_s
    cut_min = turning.cutting_min(x[:, 0], x[:, 1])
    drives_w = sum(power for name, power in lathe.DRIVE_W.items() if name in members)
    steady_j = (lathe.BASE_W + drives_w) * duration_s + lathe.LOADER_W * lathe.LOAD_S
    energy_j = steady_j + turning.cutting_w(x) * cut_min * 60.0
    column = {v.name: i for i, v in enumerate(turning.VARIABLES)}
    concentrate_l = lathe.CONCENTRATE * x[:, column["coolant"]] * cut_min
    return np.asarray(
        energy_j / JOULES_PER_KWH * p.energy_per_kwh
        + turning.wear_mm3_per_min(x) * cut_min * p.tool_per_mm3
        + concentrate_l * p.coolant_per_l
        + duration_s / 3600.0 * p.time_per_h
        + p.fixed
    )


@dataclass(frozen=True, slots=True)
class TunnelPrices:
    """As in config/wind-tunnel.yaml."""

    energy_per_kwh: float = 0.31
    time_per_h: float = 0.6
    fixed: float = 0.05
    prepare_s: float = 90.0
    settle_s: float = 480.0
    measure_s: float = 120.0


def tunnel_cost(members: tuple[str, ...], x: FloatArray, prices: TunnelPrices | None = None) -> FloatArray:
    """(n,) EUR for (n, 5) true values of which `members` are controlled."""
    p = prices or TunnelPrices()
    duration_s = p.prepare_s + p.settle_s + p.measure_s
    drives_w = sum(power for name, power in tunnel.DRIVE_W.items() if name in members)
    velocity = x[:, [v.name for v in tunnel.VARIABLES].index("velocity")]
    energy_j = (tunnel.BASE_W + drives_w + tunnel.fan_w(velocity)) * duration_s + tunnel.RUN_W * tunnel.RUN_S
    return np.asarray(energy_j / JOULES_PER_KWH * p.energy_per_kwh + duration_s / 3600.0 * p.time_per_h + p.fixed)
