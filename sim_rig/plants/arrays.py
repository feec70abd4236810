"""A response given as plain numbers: the posterior mean of a Gaussian process, read from an `.npz` file.

For u in [0, 1]^d: f(u) = mean + outputscale * sum_j alpha_j k(r2_j), r2_j = sum_i ((u_i - c_ji) / l_i)^2, with k the
squared-exponential or Matern-5/2 kernel (Rasmussen & Williams 2006, eqs. 4.9 and 4.17); outcome = output_mean +
output_std * f.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim_rig.errors import DataError
from sim_rig.plants.natural import FloatArray, PlantVariable, to_unit

CHUNK_ROWS = 64
"""Rows evaluated at once: the kernel matrix of 4096 x 1503 would take 50 MB, and no cache would hold it."""
_SHAPES: Final = {"lengthscales": 1, "centers": 2, "alpha": 1, "lower": 1, "upper": 1, "log_input": 1}
_SCALARS: Final = ("outputscale", "mean_constant", "output_mean", "output_std", "kernel")
HOW_TO_GET: Final = (
    "it holds the fitted process of the paper's data, which does not come with this program; "
    "name the directory it is in with --data DIR"
)


@dataclass(frozen=True, slots=True)
class ArrayResponse:
    """Evaluates the posterior mean."""

    centers: FloatArray
    """(J, d), unit cube, divided by the lengthscales."""
    weights: FloatArray
    """(J,), outcome units."""
    lengthscales: FloatArray
    """(d,), unit cube."""
    offset: float
    """Outcome where no centre is near."""
    matern: bool
    lower: FloatArray
    """(d,) physical value at 0."""
    upper: FloatArray
    """(d,) physical value at 1."""
    log_input: tuple[bool, ...]

    def __call__(self, u: FloatArray) -> FloatArray:
        """Map (n, d), unit cube -> (n,), outcome units."""
        rows = [self._chunk(u[i : i + CHUNK_ROWS]) for i in range(0, len(u), CHUNK_ROWS)]
        return np.concatenate(rows)

    def _chunk(self, u: FloatArray) -> FloatArray:
        scaled = u / self.lengthscales
        squares = (scaled**2).sum(1)[:, None] + (self.centers**2).sum(1) - 2.0 * scaled @ self.centers.T
        r2 = np.maximum(squares, 0.0)  # rounding may leave -1e-16 where a point meets a centre
        if self.matern:
            s = np.sqrt(5.0 * r2)
            k = np.exp(-s) * (1.0 + s * (1.0 + s / 3.0))
        else:
            k = np.exp(-0.5 * r2)
        return np.asarray(self.offset + k @ self.weights)

    def over(self, variables: tuple[PlantVariable, ...]) -> Callable[[FloatArray], FloatArray]:
        """Return the same response over engineering units, of variables whose range stands for [0, 1]."""
        return lambda x: self(to_unit(variables, x))


def load(directory: Path | None, name: str) -> ArrayResponse:
    """Read `name` from the data directory.

    Raises:
        DataError: no directory was given, the file is missing, or it does not hold what it should.
    """
    if directory is None:
        raise DataError(f"this scenario needs {name}: {HOW_TO_GET}")
    path = directory / name
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in (*_SHAPES, *_SCALARS)}
    except FileNotFoundError as error:
        raise DataError(f"{path}: not there; {HOW_TO_GET}") from error
    except KeyError as error:
        raise DataError(f"{path}: array {error} is missing") from error
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read as plain arrays: {error}") from error
    _check(path, arrays)
    return _response(arrays)


def _check(path: Path, arrays: dict[str, Any]) -> None:
    centers, dimension = arrays["centers"], arrays["lengthscales"].shape
    for key, axes in _SHAPES.items():
        if arrays[key].ndim != axes:
            raise DataError(f"{path}: {key} has {arrays[key].ndim} axes, must have {axes}")
    shapes_hold = centers.shape[1:] == dimension and arrays["alpha"].shape == centers.shape[:1]
    if not shapes_hold or any(arrays[key].shape != dimension for key in ("lower", "upper", "log_input")):
        raise DataError(f"{path}: centers {centers.shape} do not match the other arrays")
    if str(arrays["kernel"]) not in ("rbf", "matern52"):
        raise DataError(f"{path}: kernel {str(arrays['kernel'])!r}, must be rbf or matern52")


def _response(arrays: dict[str, Any]) -> ArrayResponse:
    std = float(arrays["output_std"])
    return ArrayResponse(
        centers=arrays["centers"] / arrays["lengthscales"],
        weights=arrays["alpha"] * float(arrays["outputscale"]) * std,
        lengthscales=arrays["lengthscales"],
        offset=float(arrays["output_mean"]) + std * float(arrays["mean_constant"]),
        matern=str(arrays["kernel"]) == "matern52",
        lower=arrays["lower"],
        upper=arrays["upper"],
        log_input=tuple(bool(b) for b in arrays["log_input"]),
    )
