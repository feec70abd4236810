"""A nutrient tank: how fast plants grow in it; its supply, ion valves, dosing pumps, treatments, and their energy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sim_rig.plants.natural import FloatArray, Noise, PlantVariable, to_unit
from sim_rig.plants.parts import BatchChange, Channel, advance_in_steps, channel_state
from sim_rig.plants.pump import DosingPump, EnergyBook

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


class Tank:
    """Is the greenhouse's process. `advance` moves it through simulated time; everything else is immediate."""

    def __init__(self, seed: np.random.SeedSequence, response: Response = growth) -> None:
        nature, sensing, *pumps = seed.spawn(6)
        supply, ca_pump, acid_pump, base_pump, feed_pump = (np.random.default_rng(s) for s in (nature, *pumps))
        self.now_s = 0.0
        """Since power-up."""
        self._noise = Noise(sensing)
        self._response = response
        self.channels = {
            v.name: Channel(v, supply, error_sd=ERROR_SD[v.name], lag_s=VALVE_LAG_S, holds=True) for v in VARIABLES
        }
        self.ca_pump = DosingPump("ca_doser", ca_pump)
        self.acid_pump = DosingPump("ph_doser", acid_pump)
        self.base_pump = DosingPump("base_doser", base_pump)
        self.feed_pump = DosingPump("feed_doser", feed_pump)
        self.refill = BatchChange(REFILL_S)
        self.energy = EnergyBook(total_kwh=412.7)
        self.softener = Treatment(TREAT_S)
        self.alkaliser = Treatment(TREAT_S)
        self._unmixed = {"ca": 0.0, "ph": 0.0, "k": 0.0}

    @property
    def pumps(self) -> tuple[DosingPump, ...]:
        return self.ca_pump, self.acid_pump, self.base_pump, self.feed_pump

    # commands ----------------------------------------------------------------------------------------------------

    def command_refill(self, on: bool) -> None:
        """Drain the tank on a rising command, and fill it with whatever the supply brings now."""
        if self.refill.command(on):
            self.softener.remaining_s = self.alkaliser.remaining_s = 0.0  # what comes in is treated as it comes
            for channel in self.channels.values():
                channel.draw()

    # readings ----------------------------------------------------------------------------------------------------

    def composition(self) -> FloatArray:
        """Return (5,) true values in the order of `VARIABLES`, engineering units."""
        return np.array([self.channels[v.name].value for v in VARIABLES])

    def sense(self, name: str) -> float:
        return self.channels[name].value + NOISE_SD[name] * self._noise.at(name, self.now_s)

    def growth(self) -> float:
        """Read the growth instrument, cm2/day, never negative."""
        true = float(self._response(self.composition()[None, :])[0])
        return max(0.0, true * (1.0 + GROWTH_NOISE * self._noise.at("growth", self.now_s)))

    def power_w(self) -> float:
        """Return what is drawn from the mains now, dosing pumps included."""
        pumps = PUMP_W * sum(p.running and not p.paused for p in self.pumps)
        refill = REFILL_W if self.refill.running else 0.0
        return self._steady_w() + refill + pumps

    def state(self) -> dict[str, Any]:
        return {
            **channel_state(self.channels),
            "softener": self.softener.commanded,
            "alkaliser": self.alkaliser.commanded,
            "refilling": self.refill.running,
            "refill_commanded": self.refill.commanded,
            "batches": self.refill.count,
            "outcome": float(self._response(self.composition()[None, :])[0]),
            "power_w": self.power_w(),
        }

    def metered(self) -> dict[str, float]:
        return {
            "energy_kwh": self.energy.total_kwh,
            "ca_doser_ml": self.ca_pump.delivered_ml,
            "ph_doser_ml": self.acid_pump.delivered_ml,
            "base_doser_ml": self.base_pump.delivered_ml,
            "feed_doser_ml": self.feed_pump.delivered_ml,
        }

    # time --------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        advance_in_steps(seconds, STEP_S, self._moving, self._step)

    def _moving(self) -> bool:
        unmixed = any(abs(amount) > 1e-6 for amount in self._unmixed.values())
        passing = self.refill.running or self.softener.running or self.alkaliser.running
        return passing or any(p.running for p in self.pumps) or unmixed

    def _step(self, seconds: float) -> None:
        remaining_s = self.refill.remaining_s
        refilling_s = self.refill.advance(seconds)
        for name, treatment in (("ca", self.softener), ("ph", self.alkaliser)):
            if treatment.running:
                left_s = treatment.remaining_s
                self.channels[name].approach(_treated(self.channels[name]), treatment.advance(seconds), left_s)
        for name, channel in self.channels.items():
            if refilling_s > 0.0:
                channel.approach(self._incoming(name), refilling_s, remaining_s)
            if name in VALVE_W:
                channel.advance(seconds - refilling_s)
        ca_ml, ca_s = self.ca_pump.advance(seconds)
        acid_ml, acid_s = self.acid_pump.advance(seconds)
        base_ml, base_s = self.base_pump.advance(seconds)
        feed_ml, feed_s = self.feed_pump.advance(seconds)
        ph = self.channels["ph"].value
        self._dose("ca", ca_ml * CA_PER_ML, seconds)
        self._dose("ph", (acid_ml * PH_PER_ML + base_ml * BASE_PH_PER_ML) * (1.0 + BUFFERING * (ph - 6.0)), seconds)
        if feed_ml or self._unmixed["k"]:
            self._dose("k", feed_ml * K_PER_ML, seconds)
        if refilling_s > 0.0 and not self.refill.running:
            self._unmixed = dict.fromkeys(self._unmixed, 0.0)
        self.energy.power_w = self._steady_w()
        self.energy.advance(seconds, REFILL_W * refilling_s + PUMP_W * (ca_s + acid_s + base_s + feed_s))

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
