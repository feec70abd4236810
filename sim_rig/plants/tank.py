"""A nutrient tank: how fast plants grow in it; its supply, ion valves, dosing pumps, treatments, and their energy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sim_rig.plants.natural import FloatArray, PlantVariable, to_unit
from sim_rig.plants.parts import BatchChange, Channel, Process, advance_in_steps
from sim_rig.plants.pump import DosingPump

# The raw water is rain or from a well, as the weather has it: its potassium and pH are often right, and often far off.
VARIABLES = (
    PlantVariable.of("ca", "mM", (0.5, 6.0), 2.6, 0.9),
    PlantVariable.of("b", "uM", (5.0, 60.0), 28.0, 9.0),
    PlantVariable.of("nh4", "mM", (0.1, 4.0), 1.6, 0.6),
    PlantVariable.of("k", "mM", (1.0, 12.0), 7.5, 2.6),
    PlantVariable.of("ph", "pH", (5.0, 7.0), 5.85, 0.42),
)
CONTROL_SETS = (
    ("ca", "b"),
    ("nh4", "k"),
    ("k", "ph"),
    ("ca", "b", "nh4"),
    ("b", "nh4", "k"),
    ("nh4", "k", "ph"),
    ("ca", "b", "nh4", "k", "ph"),
)

STARVED, RICH = 3.0, 11.0
"""cm2/day far from the optimum, and what the optimum adds."""
_OPTIMUM = {"ca": 0.45, "b": 0.42, "nh4": 0.42, "k": 0.78, "ph": 0.30}
_WIDTH = {"ca": 1.1, "b": 1.2, "nh4": 0.85, "k": 0.36, "ph": 0.30}
_AMMONIUM_ON_PH = 0.18
_CALCIUM_ON_K = 0.12

STEP_S = 5.0
"""Longest step while something moves; the motions themselves are integrated in closed form."""
REFILL_S = 90.0
TREAT_S = 90.0
"""What a treatment takes for one pass of what is in the tank."""
MIXING_S = 10.0
"""Time constant with which a dose spreads through the tank."""
VALVE_LAG_S = 20.0

CA_PER_ML = 0.048
"""mM per mL of stock: a little less than the label says, so a setpoint is approached from below."""
PH_PER_ML = -0.038
"""pH per mL of acid at pH 6."""
BASE_PH_PER_ML = 0.046
"""pH per mL of base at pH 6."""
K_PER_ML = 0.06
"""mM per mL of feed."""
DOSES = {
    "ca_doser": ("ca", CA_PER_ML),
    "ph_doser": ("ph", PH_PER_ML),
    "base_doser": ("ph", BASE_PH_PER_ML),
    "feed_doser": ("k", K_PER_ML),
}
"""By pump the variable that it moves, and by how much per mL."""
BUFFERING = 0.05
"""Relative change of the acid's effect per pH unit: the tank is buffered a little better when it is acid."""
SOFTENED_MM, ALKALISED_PH = 0.45, 7.06
"""What comes out of the softener and of the alkaliser."""

BASE_W, REFILL_W, PUMP_W = 550.0, 750.0, 12.0
SOFTENER_W, ALKALISER_W = 900.0, 700.0
VALVE_W = {"b": (400.0, 600.0), "nh4": (700.0, 900.0), "k": (900.0, 1400.0)}
"""Power of an ion-exchange skid at its lowest setpoint, and what the highest adds."""
ERROR_SD = {"ca": 0.0, "b": 0.25, "nh4": 0.015, "k": 0.04, "ph": 0.0}
NOISE_SD = {"ca": 0.012, "b": 0.15, "nh4": 0.008, "k": 0.03, "ph": 0.006}
GROWTH_NOISE = 0.015
"""Relative standard deviation of one growth reading."""

Response = Callable[[FloatArray], FloatArray]


def growth(x: FloatArray) -> FloatArray:
    """Return growth in cm2/day; `x`: (n, 5) engineering units in the order of `VARIABLES` -> (n,).

    One interior optimum with two interactions known from hydroponics: with more ammonium the roots acidify their
    surroundings, so the best pH moves up; calcium and potassium compete for uptake, so more of one asks for more of
    the other. The numbers are made up.
    """
    u = to_unit(VARIABLES, x)
    ca, b, nh4, k, ph = (u[:, i] - _OPTIMUM[v.name] for i, v in enumerate(VARIABLES))
    stress = (
        (ca / _WIDTH["ca"]) ** 2
        + (b / _WIDTH["b"]) ** 2
        + (nh4 / _WIDTH["nh4"]) ** 2
        + ((k - _CALCIUM_ON_K * ca) / _WIDTH["k"]) ** 2
        + ((ph - _AMMONIUM_ON_PH * nh4) / _WIDTH["ph"]) ** 2
    )
    return np.asarray(STARVED + RICH * np.exp(-0.5 * stress))


class Treatment(BatchChange):
    """Treats what comes in with a refill while it is on; switched on at another time, what is in the tank, once."""

    def switch(self, on: bool, *, refilling: bool) -> None:
        if (self.command(on) and refilling) or not on:
            self.remaining_s = 0.0


class Tank(Process):
    """Is the greenhouse's process. `advance` moves it through simulated time; everything else is immediate."""

    def __init__(self, seed: np.random.SeedSequence, response: Response = growth) -> None:
        lags_s = {v.name: VALVE_LAG_S for v in VARIABLES}
        super().__init__(VARIABLES, seed, ERROR_SD, NOISE_SD, lags_s, change_s=REFILL_S, total_kwh=412.7, holds=True)
        self._response = response
        generators = map(np.random.default_rng, seed.spawn(len(DOSES)))
        self.pumps = {name: DosingPump(name, rng) for name, rng in zip(DOSES, generators, strict=True)}
        self.softener = Treatment(TREAT_S)
        self.alkaliser = Treatment(TREAT_S)
        self._unmixed = {"ca": 0.0, "ph": 0.0, "k": 0.0}

    # commands ----------------------------------------------------------------------------------------------------

    def command_change(self, on: bool) -> bool:
        """Drain the tank on a rising command, and fill it with whatever the supply brings now. True if it began."""
        begun = super().command_change(on)
        if begun:
            self.softener.remaining_s = self.alkaliser.remaining_s = 0.0  # what comes in is treated as it comes
        return begun

    # readings ----------------------------------------------------------------------------------------------------

    def growth(self) -> float:
        """Read the growth instrument, cm2/day, never negative."""
        true = float(self._response(self.values()[None, :])[0])
        return max(0.0, true * (1.0 + GROWTH_NOISE * self.noise("growth")))

    def power_w(self) -> float:
        """Return what is drawn from the mains now, dosing pumps included."""
        pumps = PUMP_W * sum(p.running and not p.paused for p in self.pumps.values())
        refill = REFILL_W if self.change.running else 0.0
        return self._steady_w() + refill + pumps

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "softener": self.softener.commanded,
            "alkaliser": self.alkaliser.commanded,
            "refilling": self.change.running,
            "refill_commanded": self.change.commanded,
            "outcome": float(self._response(self.values()[None, :])[0]),
            "power_w": self.power_w(),
        }

    def metered(self) -> dict[str, float]:
        delivered = {f"{name}_ml": pump.delivered_ml for name, pump in self.pumps.items()}
        return {"energy_kwh": self.energy.total_kwh, **delivered}

    # time --------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        advance_in_steps(seconds, STEP_S, self._moving, self._step)

    def _moving(self) -> bool:
        unmixed = any(abs(amount) > 1e-6 for amount in self._unmixed.values())
        passing = self.change.running or self.softener.running or self.alkaliser.running
        return passing or any(p.running for p in self.pumps.values()) or unmixed

    def _step(self, seconds: float) -> None:
        remaining_s = self.change.remaining_s
        refilling_s = self.change.advance(seconds)
        for name, treatment in (("ca", self.softener), ("ph", self.alkaliser)):
            if treatment.running:
                left_s = treatment.remaining_s
                self.channels[name].approach(_treated(self.channels[name]), treatment.advance(seconds), left_s)
        for name, channel in self.channels.items():
            if refilling_s > 0.0:
                channel.approach(self._incoming(name), refilling_s, remaining_s)
            if name in VALVE_W:
                channel.advance(seconds - refilling_s)
        moved = {name: pump.advance(seconds) for name, pump in self.pumps.items()}
        buffered = 1.0 + BUFFERING * (self.channels["ph"].value - 6.0)
        for name in self._unmixed:
            amount = sum(moved[pump][0] * per_ml for pump, (variable, per_ml) in DOSES.items() if variable == name)
            self._dose(name, amount * (buffered if name == "ph" else 1.0), seconds)
        if refilling_s > 0.0 and not self.change.running:
            self._unmixed = dict.fromkeys(self._unmixed, 0.0)
        self.energy.power_w = self._steady_w()
        self.energy.advance(seconds, REFILL_W * refilling_s + PUMP_W * sum(ran_s for _, ran_s in moved.values()))

    def _incoming(self, name: str) -> float:
        if (name == "ca" and self.softener.commanded) or (name == "ph" and self.alkaliser.commanded):
            return _treated(self.channels[name])
        return self.channels[name].goal

    def _dose(self, name: str, amount: float, seconds: float) -> None:
        """Let a dose spread through the tank as a first-order lag."""
        waiting = self._unmixed[name] + amount
        left = waiting * math.exp(-seconds / MIXING_S)
        self.channels[name].value = max(0.0, self.channels[name].value + waiting - left)
        self._unmixed[name] = left

    def _steady_w(self) -> float:
        power = BASE_W + SOFTENER_W * self.softener.commanded + ALKALISER_W * self.alkaliser.commanded
        for name, (lowest_w, rise_w) in VALVE_W.items():
            channel = self.channels[name]
            if channel.enabled:
                v = channel.variable
                power += lowest_w + rise_w * (channel.setpoint - v.low) / (v.high - v.low)
        return power


def _treated(channel: Channel) -> float:
    return min(SOFTENED_MM, channel.natural) if channel.variable.name == "ca" else ALKALISED_PH
