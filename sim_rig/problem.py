"""A scenario's decision problem as it truly is: variables, response, and what control costs on average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sim_rig.plants.natural import FloatArray, Variable

Response = Callable[[FloatArray], FloatArray]
"""(n, d) engineering units -> (n,) outcome, noise free."""
CostModel = Callable[[tuple[str, ...], FloatArray], FloatArray]
"""Controlled variables and (n, d) true values -> (n,) expected cost of such a trial, the config's currency.

From the plant's own powers and volumes at nominal prices and timing: for telling the truth only, nothing in the
running rig knows a price.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a perfectly informed operator would decide on."""

    scenario: str
    variables: tuple[Variable, ...]
    control_sets: tuple[tuple[str, ...], ...]
    response: Response
    cost: CostModel
    outcome: str
    unit: str
    floor: float
    """The worst outcome there can be; how good a setting is counts from here."""
    currency: str = "EUR"

    @property
    def names(self) -> tuple[str, ...]:
        """Variables in column order."""
        return tuple(v.name for v in self.variables)
