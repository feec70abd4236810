"""The greenhouse's instruments: beside PLC and meter a pH probe, two pumps and a camera."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from sim_rig.clock import Timer
from sim_rig.faces.ezo import PhCircuit
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.faces.registers import Bank
from sim_rig.faces.scpi import Output, ScpiInstrument
from sim_rig.faces.watchdog import Watchdog
from sim_rig.faults import SensorTap
from sim_rig.plants.tank import Response, Tank, Treatment
from sim_rig.rigs.assembly import Assembly, MainsMeter, PlcPoint, map_points

SOFTENER_COIL, ALKALISER_COIL, REFILL_COIL, COILS = 0, 1, 5, 6
POINTS: Final = (
    PlcPoint("ca", 0, None, 20.0),
    PlcPoint("b", 2, 2, 200.0, order="CDAB"),
    PlcPoint("nh4", 4, 3, 20.0),
    PlcPoint("k", 6, 4, 40.0, kind="int16", scale=0.01),
)


def build(timer: Timer, seed: np.random.SeedSequence, response: Response, *, more_pumps: bool = False) -> Assembly:
    """Build the whole rig; `response` is the growth over the tank's variables.

    With `more_pumps` there are two more, which the example configuration does not use: base, and a feed of potassium.
    """
    tank = Tank(seed, response)
    ca, acid, *others = tank.pumps.values()
    more = dict(zip(("base", "feed"), others, strict=True)) if more_pumps else {}
    full_scales = {p.name: p.full_scale for p in POINTS} | {"ph": 14.0}
    probes = {name: SensorTap(partial(tank.sense, name), full) for name, full in full_scales.items()}
    growth = SensorTap(tank.growth, 1000.0)
    camera = ScpiInstrument(timer, "SIMULATED,GC-1,1027,2.3", "MEASure:GROWth", growth)
    camera.output = Output("ILLumination", 100.0)  # its ring light, percent: growth does not feel it
    plc = _plc(tank, probes)
    watchdog = Watchdog(timer, plc, partial(plc.write_coils, 0, [False] * COILS))
    return Assembly(
        "greenhouse",
        timer,
        tank,
        plc,
        MainsMeter("SDM120", 1, 2400),
        sensors={f"{name}_probe": tap for name, tap in probes.items()} | {"camera": growth},
        instruments={
            "ph": ("ph", PhCircuit(timer, probes["ph"], "nutrient_ph")),
            "ca": ("ca_pump", PumpCircuit(timer, ca, "calcium")),
            "acid": ("acid_pump", PumpCircuit(timer, acid, "acid")),
            "cam": ("camera", camera),
            **{bus: (f"{bus}_pump", PumpCircuit(timer, pump, bus)) for bus, pump in more.items()},
        },
        pumps={"ca": ca, "acid": acid, **more},
        watchdog=watchdog,
    )


def _plc(tank: Tank, probes: dict[str, SensorTap]) -> Bank:
    bank = Bank()
    map_points(bank, POINTS, probes, tank.channels)
    for coil, treatment in ((SOFTENER_COIL, tank.softener), (ALKALISER_COIL, tank.alkaliser)):
        bank.bit("coil", coil, partial(getattr, treatment, "commanded"), partial(_switch, tank, treatment))
    bank.bit("coil", REFILL_COIL, lambda: tank.change.commanded, tank.command_change)
    bank.bit("discrete", 0, lambda: tank.change.running)
    return bank


def _switch(tank: Tank, treatment: Treatment, on: bool) -> None:
    treatment.switch(on, refilling=tank.change.running)
