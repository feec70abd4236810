"""What a trial costs on average, from the plants' own powers and volumes at nominal prices.

For telling the truth only: nothing in the running rig knows a price. Prices and timing are those of the example
configurations; a test holds the two together.

Each cost is of (n, 5) true values, of which `members` are controlled -> (n,) EUR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from sim_rig.plants import lathe, tank, tunnel
from sim_rig.plants.natural import FloatArray, PlantVariable, to_unit
from sim_rig.plants.pump import DosingPump

JOULES_PER_KWH = 3.6e6
MIX_S = 45.0
DOSES_PER_SETPOINT = 1.3
"""As controllers need them whose effect of a dose is known to a tenth; seldom a second one."""


@dataclass(frozen=True, slots=True)
class Nominal:
    """Holds the prices and the timing of an example configuration."""

    energy_per_kwh: float
    time_per_h: float
    fixed: float
    prepare_s: float
    settle_s: float
    measure_s: float
    """Until the last sample: four of them, 30 s apart, are taken within 90 s."""
    consumables: Mapping[str, float] = field(default_factory=dict)
    """By meter, a unit of what `cost` is told of: L, or mm3 of wear."""
    look_s: float = 0.0
    """What is waited and read before the trial is decided."""
    treat_s: float = 0.0
    """What a treatment takes after that, where one is used."""

    @property
    def idle_s(self) -> float:
        """Return for how long nothing is imposed yet: while a tank that is looked at first is filled and read."""
        return self.prepare_s + self.look_s if self.look_s else 0.0

    def blind(self) -> Nominal:
        """Return the same of trials that do not look: what is treated is treated while the tank is filled."""
        return replace(self, look_s=0.0, treat_s=max(0.0, self.treat_s - self.prepare_s))

    @property
    def trial_s(self) -> float:
        return self.prepare_s + self.look_s + self.settle_s + self.measure_s

    def cost(self, duration_s: FloatArray | float, energy_j: FloatArray, **used: FloatArray) -> FloatArray:
        """Return (n,) what trials of this length, energy and consumption cost."""
        consumed = sum((amount * self.consumables[name] for name, amount in used.items()), np.zeros_like(energy_j))
        energy = energy_j / JOULES_PER_KWH * self.energy_per_kwh
        return np.asarray(energy + consumed + duration_s / 3600.0 * self.time_per_h + self.fixed)


GREENHOUSE: Final = Nominal(0.31, 0.5, 0.05, 120.0, 420.0, 90.0, {"calcium": 4.2, "acid": 9.0}, 75.0, 120.0)
LATHE: Final = Nominal(0.31, 0.9, 0.10, 90.0, 480.0, 90.0, {"tool": 18.0, "coolant": 6.0})
TUNNEL: Final = Nominal(0.31, 0.6, 0.05, 90.0, 480.0, 90.0)


def greenhouse_cost(members: tuple[str, ...], x: FloatArray, nominal: Nominal = GREENHOUSE) -> FloatArray:
    """Charge valves, treatments, doses and the time that dosing takes."""
    u = to_unit(tank.VARIABLES, x)
    column = _columns(tank.VARIABLES)
    power_w = np.zeros(len(x))
    for name, (lowest_w, rise_w) in tank.VALVE_W.items():
        if name in members:
            power_w = power_w + lowest_w + rise_w * u[:, column[name]]
    power_w = power_w + tank.SOFTENER_W * ("ca" in members) + tank.ALKALISER_W * ("ph" in members)
    ca_ml = np.maximum(0.0, x[:, column["ca"]] - tank.SOFTENED_MM) / tank.CA_PER_ML * ("ca" in members)
    acid_ml = np.maximum(0.0, _acid_ml(x[:, column["ph"]])) * ("ph" in members)
    # calcium and acid are dosed side by side
    pumping_s = (ca_ml + acid_ml) * 60.0 / DosingPump.max_rate_ml_per_min
    longer_s = np.maximum(ca_ml, acid_ml) * 60.0 / DosingPump.max_rate_ml_per_min
    dosed = bool({"ca", "ph"} & set(members))
    duration_s = nominal.trial_s + (nominal.treat_s + MIX_S * DOSES_PER_SETPOINT) * dosed + longer_s
    energy_j = (
        tank.BASE_W * duration_s
        + power_w * (duration_s - nominal.idle_s)
        + tank.REFILL_W * tank.REFILL_S
        + tank.PUMP_W * pumping_s
    )
    return nominal.cost(duration_s, energy_j, calcium=ca_ml / 1000.0, acid=acid_ml / 1000.0)


def _acid_ml(ph: FloatArray) -> FloatArray:
    """Return what brings an alkalised tank to these values, mL: each takes it down by less the more acid it is."""
    buffered = [1.0 + tank.BUFFERING * (value - 6.0) for value in (tank.ALKALISED_PH, ph)]
    return np.asarray(np.log(buffered[0] / buffered[1]) / (tank.BUFFERING * -tank.PH_PER_ML))


def lathe_cost(members: tuple[str, ...], x: FloatArray) -> FloatArray:
    cut_min = lathe.cutting_min(x[:, 0], x[:, 1])
    steady_j = (lathe.BASE_W + _drives_w(lathe.DRIVE_W, members)) * LATHE.trial_s + lathe.LOADER_W * lathe.LOAD_S
    return LATHE.cost(
        LATHE.trial_s,
        steady_j + lathe.cutting_w(x) * cut_min * 60.0,
        tool=lathe.wear_mm3_per_min(x) * cut_min,
        coolant=lathe.CONCENTRATE * x[:, _columns(lathe.VARIABLES)["coolant"]] * cut_min,
    )


def tunnel_cost(members: tuple[str, ...], x: FloatArray) -> FloatArray:
    fan_w = tunnel.fan_w(x[:, _columns(tunnel.VARIABLES)["velocity"]])
    steady_w = tunnel.BASE_W + _drives_w(tunnel.DRIVE_W, members) + fan_w
    return TUNNEL.cost(TUNNEL.trial_s, steady_w * TUNNEL.trial_s + tunnel.RUN_W * tunnel.RUN_S)


def _columns(variables: tuple[PlantVariable, ...]) -> dict[str, int]:
    return {v.name: i for i, v in enumerate(variables)}


def _drives_w(powers_w: Mapping[str, float], members: tuple[str, ...]) -> float:
    return sum(power for name, power in powers_w.items() if name in members)
