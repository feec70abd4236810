"""Simulated rigs to test against: one process per scenario, its faults cleared after each test."""

import numpy as np
import pytest

from tests.sim_rig.fakes import small_arrays
from tests.simulated import start_sim


@pytest.fixture(scope="package")
def data_directory(tmp_path_factory):
    """Arrays of the stored kind, made up."""
    directory = tmp_path_factory.mktemp("data")
    np.savez(directory / "plant_growth.npz", **small_arrays("rbf"))
    np.savez(directory / "airfoil.npz", **small_arrays("matern52"))
    return directory


@pytest.fixture(scope="package")
def greenhouse_process(tmp_path_factory):
    handle = start_sim("greenhouse", tmp_path_factory.mktemp("greenhouse"), seed=4)
    yield handle
    handle.stop()


@pytest.fixture
def greenhouse(greenhouse_process):
    """A running greenhouse in which nothing is broken."""
    yield greenhouse_process
    greenhouse_process.control({"clear": True})


@pytest.fixture(scope="package")
def lathe(tmp_path_factory):
    handle = start_sim("lathe", tmp_path_factory.mktemp("lathe"), seed=5)
    yield handle
    handle.stop()


@pytest.fixture(scope="package")
def tunnel(tmp_path_factory, data_directory):
    handle = start_sim("wind-tunnel", tmp_path_factory.mktemp("tunnel"), seed=6, data=data_directory)
    yield handle
    handle.stop()
