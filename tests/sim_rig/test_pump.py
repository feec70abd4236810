import math

import numpy as np
import pytest

from sim_rig.errors import PlantError
from sim_rig.plants.pump import DosingPump


def new_pump():
    return DosingPump("ca_doser", np.random.default_rng(2))


def test_faults_are_physical():
    """A dry pump counts and delivers nothing, a short one stops early, a stuck one does not stop."""
    dry, short, stuck = new_pump(), new_pump(), new_pump()
    dry.faults.dry, short.faults.short, stuck.faults.stuck = True, 0.4, True
    for pump in (dry, short, stuck):
        pump.start(10.0, 58.5, 1)
        pump.advance(60.0)
    assert (dry.total_ml, dry.delivered_ml) == (pytest.approx(10.0), 0.0)
    assert short.total_ml == pytest.approx(4.0)
    assert stuck.running
    assert stuck.total_ml == pytest.approx(58.5)


def test_a_pause_stops_time_and_a_new_dose_ends_the_old():
    """Paused, nothing is dispensed; a dose sent while one runs replaces it, and both are on record."""
    pump = new_pump()
    pump.start(10.0, 58.5, 1)
    pump.paused = True
    pump.advance(60.0)
    assert (pump.dispensed_ml, pump.remaining_s) == (0.0, math.inf)
    pump.start(5.0, 58.5, 2)
    pump.advance(60.0)
    assert [d["how"] for d in pump.testimony()] == ["replaced", "done"]


@pytest.mark.parametrize(("volume", "rate"), [(0.0, 50.0), (-1.0, 50.0), (1.0, 60.0), (1.0, 0.0), (math.nan, 1.0)])
def test_nonsense_is_refused(volume, rate, golden):
    """A pump does not start on what is no volume, or faster than it can."""
    with golden.raises(PlantError):
        new_pump().start(volume, rate, 1)
