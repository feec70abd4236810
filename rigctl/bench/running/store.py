"""Results on disk: one file per finished cell, so that a stopped grid goes on where it was; and which code made them.

A cell's file appears under its name only when it is whole: written beside it, synced, renamed. Tables of one grid mean
something together only if the same code made them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rigctl.bench.asking.grid import Grid
from rigctl.errors import UsageError
from rigctl.files import whole
from rigctl.plugins import need
from rigctl.provenance import digest, libraries

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["parquet", "csv"]
TEXT = ("cell", "problem", "costs", "policy", "code", "control_set", "phase", "recommended")
WHOLE = ("seed", "trial")
MAKES = ("core", "bench/problems", "bench/running")
"""Parts of rigctl that a result depends on."""


@dataclass(frozen=True, slots=True)
class Store:
    """A directory of results: `cells/<id>.parquet` or `.csv`, `failed/<id>.txt`, `grid.json`."""

    directory: Path
    form: Form = "parquet"

    def __post_init__(self) -> None:
        need("pandas")
        if self.form == "parquet":
            need("pyarrow")
        try:
            (self.directory / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.directory}: cannot be a directory of results: {error.strerror}") from error

    def finished(self) -> frozenset[str]:
        return frozenset(p.stem for p in cell_files(self.directory))

    def of_other_code(self, cells: Iterable[str], version: str) -> frozenset[str]:
        """Return those of these finished cells that another version made; one without trials does not say."""
        wanted = set(cells)
        tables = {p.stem: _read(p) for p in cell_files(self.directory) if p.stem in wanted}
        made_by = {cell: table.get("code") for cell, table in tables.items() if len(table)}
        return frozenset(cell for cell, code in made_by.items() if code is None or code.iloc[0] != version)

    def write(self, cell: str, rows: Sequence[dict[str, Any]]) -> None:
        import pandas as pd  # noqa: PLC0415 - heavy, and an extra

        frame = pd.DataFrame(list(rows))
        buffer = io.BytesIO()
        if self.form == "parquet":
            frame.to_parquet(buffer, index=False)
        else:
            buffer.write(frame.to_csv(index=False, na_rep="nan").encode())
        _replace(self.directory / "cells" / f"{cell}.{self.form}", buffer.getvalue())
        (self.directory / "failed" / f"{cell}.txt").unlink(missing_ok=True)

    def write_failure(self, cell: str, traceback: str) -> Path:
        """Keep why a cell failed, which is run again the next time; return where that stands."""
        path = self.directory / "failed" / f"{cell}.txt"
        path.parent.mkdir(exist_ok=True)
        _replace(path, traceback.encode())
        return path

    def write_grid(self, grid: Grid) -> None:
        """Add what is asked to what was asked before in this directory."""
        path = self.directory / "grid.json"
        try:
            asked: list[Any] = json.loads(path.read_text(encoding="utf-8"))["grids"] if path.is_file() else []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: is damaged ({error}); delete it: it only says what was asked before") from error
        wanted = json.loads(json.dumps(grid.to_json()))
        asked += [block for block in wanted if block not in asked]
        _replace(path, (json.dumps({"grids": asked}, indent=2) + "\n").encode())


def cell_files(directory: Path) -> list[Path]:
    """Return the tables of finished cells, by name; what is only half written is hidden under another name."""
    found = [p for form in ("parquet", "csv") for p in (Path(directory) / "cells").glob(f"[!.]*.{form}")]
    return sorted(found, key=lambda p: p.stem)


def load(directory: Path) -> pd.DataFrame:
    """Return all finished cells of a directory as one table, a row per charged trial.

    Raises:
        UsageError: there are none, or the extra that reads them is not installed.
    """
    need("pandas")
    import pandas as pd  # noqa: PLC0415 - heavy, and an extra

    files = {p.stem: p for p in cell_files(directory)}
    if not files:
        raise UsageError(f"{directory}: no finished cells; run `rigctl tools bench run ... --out {directory}` first")
    tables = [table for table in map(_read, files.values()) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - heavy, and an extra

    if path.suffix == ".csv":
        # not by pandas, which reads the last digit of a number differently from version to version
        with path.open(encoding="utf-8", newline="") as stream:
            table = list(csv.DictReader(stream))
        kinds: dict[str, type] = {**dict.fromkeys(TEXT, str), **dict.fromkeys(WHOLE, int)}
        names = table[0] if table else ()
        return pd.DataFrame({name: [kinds.get(name, float)(row[name]) for row in table] for name in names})
    need("pyarrow")
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); delete it, and its cell is run again") from error


def _replace(path: Path, content: bytes) -> None:
    """Put all of the content under this name, or leave what was there before."""
    try:
        with whole(path) as new:
            new.write_bytes(content)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}; what is finished is kept: make room, then run the same again"
        ) from error


def code_version() -> str:
    """Return eight hexadecimal digits that change with the code that decides and measures, and the numerical libraries.

    Installed plug-ins are not part of it.
    """
    return hashlib.sha256(f"{digest(MAKES)} {libraries()}".encode()).hexdigest()[:8]
