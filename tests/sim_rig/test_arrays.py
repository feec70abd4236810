import numpy as np
import pytest

from sim_rig.errors import DataError
from sim_rig.plants.arrays import load
from tests.sim_rig.fakes import small_arrays


def plain(arrays, u):
    """The formula, written as the file's description has it."""
    total = 0.0
    for centre, weight in zip(arrays["centers"], arrays["alpha"], strict=True):
        r2 = (((u - centre) / arrays["lengthscales"]) ** 2).sum()
        s = np.sqrt(5 * r2)
        total += weight * (np.exp(-r2 / 2) if arrays["kernel"] == "rbf" else (1 + s + s**2 / 3) * np.exp(-s))
    return arrays["output_mean"] + arrays["output_std"] * (arrays["mean_constant"] + arrays["outputscale"] * total)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_the_response_is_the_posterior_mean(tmp_path, kernel):
    """Evaluated in chunks, it agrees with the plain sum, at centres too."""
    arrays = small_arrays(kernel)
    np.savez(tmp_path / "a.npz", **arrays)
    u = np.vstack([np.random.default_rng(1).random((150, 5)), arrays["centers"]])
    assert load(tmp_path, "a.npz")(u) == pytest.approx(np.array([plain(arrays, row) for row in u]), rel=1e-9)


def test_a_missing_file_is_named_with_the_way_to_get_it(tmp_path, golden):
    """The error says which file is missing and how to point at it."""
    with golden.raises(DataError):
        load(tmp_path, "airfoil.npz")
    with golden.raises(DataError):
        load(None, "airfoil.npz")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"alpha": None}, "alpha.*missing"),
        ({"alpha": np.zeros(3)}, "do not match"),
        ({"centers": np.zeros(7)}, "axes"),
        ({"kernel": np.array("linear")}, "kernel 'linear'"),
        ({"lower": np.zeros(4)}, "do not match"),
        ({"alpha": np.array([None], dtype=object)}, "plain arrays"),
    ],
    ids=["missing", "short", "flat", "kernel", "range", "pickled"],
)
def test_arrays_that_do_not_hold_are_refused(tmp_path, change, complaint):
    """Missing, mismatched and pickled arrays are refused with the file's name; nothing is unpickled."""
    arrays = {k: v for k, v in (small_arrays() | change).items() if v is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=rf"a\.npz.*{complaint}"):
        load(tmp_path, "a.npz")


def test_a_file_that_is_no_archive_is_refused(tmp_path, golden):
    """Any other file is an error, not a crash."""
    (tmp_path / "a.npz").write_bytes(b"not an archive")
    with golden.raises(DataError):
        load(tmp_path, "a.npz")
