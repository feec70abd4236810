"""How fast the plants grow in a nutrient solution: the greenhouse's response, its variables and what control costs."""

from __future__ import annotations

import numpy as np

from sim_rig.plants.natural import FloatArray, Variable, to_unit

VARIABLES = (
    Variable.of("ca", "mM", (0.5, 6.0), 2.6, 0.9),
    Variable.of("b", "uM", (5.0, 60.0), 28.0, 9.0),
    Variable.of("nh4", "mM", (0.1, 4.0), 1.6, 0.6),
    Variable.of("k", "mM", (1.0, 12.0), 5.5, 1.8),
    Variable.of("ph", "pH", (5.0, 7.0), 6.3, 0.3),
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


def growth(x: FloatArray) -> FloatArray:
    """Growth in cm2/day; `x`: (n, 5) engineering units in the order of `VARIABLES` -> (n,).

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
