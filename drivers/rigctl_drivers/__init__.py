"""Instrument drivers, one file per family; they know `rigctl.rig.protocols` and nothing of policies."""
