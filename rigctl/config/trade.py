"""Units of the trades that own rigs, how people write them, and what they mean by units that look like others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

SCALES: Final = (
    *("pH", "HB", "HV", "HRC", "NTU", "FNU", "PSU", "OD", "cfu", "cells", "eq", "IU", "RH", "barg", "rcf", "phr"),
    *(
        "dBA",
        "Brix",
        "Plato",
        "IBU",
        "EBC",
        "wt_percent",
        "vol_percent",
        "mol_percent",
        "at_percent",
        "german_hardness",
    ),
    *(f"OD{nm}" for nm in (540, 550, 560, 578, 595, 600, 620, 650, 660, 680, 730, 750)),
)
"""Units that convert to nothing else: a percentage of mass is none of moles, and an OD depends on its wavelength."""

DEFINED: Final = (
    "@alias turn = rev",
    "@alias cfu = CFU",
    "@alias eq = Eq = equiv = val",
    "@alias bar = bara",
    "@alias torr = Torr",
    "@alias ohm = Ohm",
    "@alias count = step = pulse = piece = drop",
    "@alias standard_liter_per_minute = SLM = SLPM",
    "ppb = 1e-9",
    "sccm = 0.001 * slpm = _ = SCCM",
    "psig = 0.06894757293168 * barg",
)
"""As Pint reads definitions."""

_WORD: Final = r"(?<![A-Za-z°]){}(?![A-Za-z])"
SPELT: Final[Mapping[re.Pattern[str], str]] = {
    re.compile(pattern): name
    for pattern, name in (
        (r"(?<![A-Za-z])(?:wt|w|ma?|mass)[.-]{0,2} ?%|% ?\(?w/w\)?", "wt_percent"),
        (r"(?<![A-Za-z])[Vv]ol[.-]{0,2} ?%|% ?\(?v/v\)?|% ?[Vv]ol", "vol_percent"),
        (r"(?<![A-Za-z])mol[.-]{0,2} ?%", "mol_percent"),
        (r"(?<![A-Za-z])at[.-]{0,2} ?%", "at_percent"),
        (r"% ?RH", "RH"),
        (r"°dH", "german_hardness"),
        (r"°(?:Brix|Bx)", "Brix"),
        (r"°P(?![A-Za-z])", "Plato"),
        (r"dB\(A\)", "dBA"),
        (r"(?<![A-Za-z])([kmu]?)Nm(?![A-Za-z0-9])", r"\1N*m"),
    )
}
"""How people write units, and their names here: Pint takes `mol%` for moles, and `Nm` for a fineness of yarn."""

MEANT: Final[Mapping[re.Pattern[str], tuple[str, ...]]] = {
    re.compile(_WORD.format(f"(?:{pattern})")): tuple(meant.split())
    for pattern, meant in (
        (r"C(?!/(?:k?g|[cm]?m[23]?|mol)\b)|deg_C|ºC|Celsius|[Cc]entigrade", "degC"),
        (r"F(?!/(?:k?g|[cm]?m[23]?)\b)|deg_F|ºF|Fahrenheit", "degF"),
        (r"ph|PH|Ph", "pH"),
        (r"rh", "RH"),
        (r"M[lL]", "mL"),
        (r"M[gG](?=/[mud]?[lL])", "mg"),
        (r"gr", "g"),
        (r"ltr?s?", "L"),
        (r"MM", "mM mm"),
        (r"Mm", "mm"),
        (r"M?Mol", "mol"),
        (r"(?<=/)H", "h"),
        (r"(?<=/)S", "s"),
        (r"Mbar|mBar", "mbar"),
        (r"(?<!\S)uS(?!\S)", "uS/cm"),
        (r"(?<!\S)mS(?!\S)", "mS/cm"),
        (r"pct", "percent"),
        (r"ppt", "g/kg ng/kg"),
        (r"cts", "count"),
        (r"Gs", "gauss"),
        (r"au|[aA]bs", "AU"),
        (r"PPFD", "umol/m2/s"),
        (r"(?:pcs|points?|score|stars?|none|unitless|ratio|fraction|a\.u\.|pc|^-$|^\[\]$)", "1"),
        (r"Nm3", "m3"),
        (r"N[lL]/min", "slpm"),
        (r"[lL][pP][mM]", "L/min"),
        (r"gpm|GPM", "gallon/min"),
        (r"ccm", "cm3 cm3/min"),
        (r"ipm|IPM", "inch/min"),
        (r"ipr|IPR", "inch/rev"),
        (r"sfm|SFM", "ft/min"),
        (r"bpm", "1/min"),
        (r"dpi", "1/inch"),
        (r"R[az]", "um"),
        (r"xg", "rcf"),
    )
}
"""What people type, and what they may mean; nobody means what Pint reads there, such as a carat in cts."""

RARE: Final = re.compile(r"\b(?:quecto|ronto|yocto|zepto|atto|exa|peta|zetta|yotta|ronna|quetta)")
"""Prefixes that make a unit of almost any two letters: EC, the exacoulomb."""

COMMON: Final = (
    *(
        "s",
        "min",
        "h",
        "day",
        "mL",
        "L",
        "g",
        "kg",
        "mg",
        "ug",
        "mg/L",
        "g/L",
        "mol",
        "mmol",
        "mol/L",
        "mmol/L",
        "umol/L",
    ),
    *(
        "mM",
        "uM",
        "ppm",
        "percent",
        "degC",
        "degF",
        "K",
        "W",
        "kW",
        "kWh",
        "V",
        "mV",
        "A",
        "mA",
        "Hz",
        "kHz",
        "MHz",
        "rpm",
    ),
    *("bar", "Pa", "kPa", "hPa", "MPa", "mm", "cm", "m", "m/s", "m/min", "mm/rev", "mL/min", "L/min", "uS/cm", "mS/cm"),
    *("dB", "deg", "N", "Nm", "wt%", "vol%", "mol%", "sccm", "slpm", "psi", "hp", "cfu/mL", "eq", "IU", "OD600"),
    *(scale for scale in SCALES if "_" not in scale),
)
"""What may be meant by a unit that is none."""
