import numpy as np
import pytest
from scipy.stats import kstest

from sim_rig.errors import PlantError
from sim_rig.plants import lathe, tank, tunnel
from sim_rig.plants.natural import CutNormal, Noise

MIDPOINTS = (np.arange(20000) + 0.5) / 20000


@pytest.mark.parametrize("variable", [*tank.VARIABLES, *lathe.VARIABLES, *tunnel.VARIABLES], ids=lambda v: v.name)
def test_mean_and_sd_are_those_of_the_variable_itself(variable):
    """A natural distribution has the declared mean and sd after it was cut, and never leaves the range."""
    natural = variable.natural
    values = natural.quantile(MIDPOINTS)
    assert values.mean() == pytest.approx(natural.mean, abs=2e-5 * (variable.high - variable.low))
    assert values.std() == pytest.approx(natural.sd, rel=2e-3)
    assert variable.low <= values.min() <= values.max() <= variable.high


def test_samples_follow_the_quantiles():
    """Draws are distributed as the quantile function says."""
    natural = CutNormal(0.5, 0.2, 0.0, 1.0)
    rng = np.random.default_rng(8)
    draws = np.sort([natural.sample(rng) for _ in range(4000)])
    expected = natural.quantile((np.arange(4000) + 0.5) / 4000)
    assert np.abs(draws - expected).max() < 0.05


@pytest.mark.parametrize(("mean", "sd"), [(0.5, 0.4), (0.05, 0.2)])
def test_an_impossible_pair_is_refused(mean, sd, golden):
    """A mean and sd that no cut normal distribution has in this range are an error, not a guess."""
    with golden.raises(PlantError):
        CutNormal(mean, sd, 0.0, 1.0)


def test_noise_depends_on_the_moment_and_not_on_who_reads():
    """One instrument at one moment reads the same however often it is asked; another, or later, it reads otherwise."""
    noise = Noise(np.random.SeedSequence(7))
    first = noise.at("ph", 30.0)
    others = [
        noise.at("ca", 30.0),
        noise.at("ph", np.nextafter(30.0, 31.0)),
        Noise(np.random.SeedSequence(8)).at("ph", 30.0),
    ]
    assert noise.at("ph", 30.0) == first == Noise(np.random.SeedSequence(7)).at("ph", 30.0)
    assert len({first, *others}) == 4


def test_noise_is_normal_and_independent():
    """Over many moments two instruments' noise is standard normal, and neither tells of the other or of the last."""
    noise = Noise(np.random.SeedSequence(9))
    series = np.array([[noise.at(name, 30.0 * i) for i in range(4000)] for name in ("ph", "ca")])
    for one in series:
        assert kstest(one, "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef([*series, np.roll(series[0], 1)]) - np.eye(3)).max() < 0.06
