"""Readings and prices to money: what a trial cost, what no trial used, and which readings can be believed. Pure."""

from rigctl.campaign.ledger.charging import Interlude, baseless, charge, idle_between, idle_in_trial, total
from rigctl.campaign.ledger.lines import COUNTED, UNITS, IdleLine, LedgerLine
from rigctl.campaign.ledger.rates import BY_TIME, UNDATED

__all__ = [
    "BY_TIME",
    "COUNTED",
    "UNDATED",
    "UNITS",
    "IdleLine",
    "Interlude",
    "LedgerLine",
    "baseless",
    "charge",
    "idle_between",
    "idle_in_trial",
    "total",
]
