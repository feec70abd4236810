"""Makes a long campaign of a short one: every trial with all that belongs to it is copied, with other numbers in it."""

import random
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from rigctl.campaign.journal import Journal
from rigctl.rig.clocks import RealClock, boot_id

BESIDE = ("events", "states", "measurements", "meter_readings", "ledger", "doses")


def lengthen(directory: Path, trials: int, seed: int = 0) -> None:
    """Copy the journal's trials over and over until there are so many."""
    random.seed(seed)
    with closing(sqlite3.connect(directory / "journal.sqlite")) as connection:
        connection.create_function("jitter", 0, lambda: random.gauss(1.0, 0.02))
        (first,) = connection.execute("SELECT max(trial) FROM trials").fetchone()
        (end_s,) = connection.execute("SELECT max(at_s) FROM events").fetchone()
        for copy in range(1, -(-trials // first)):
            new = f"trial + {copy * first}"
            which = f"trial <= {min(first, trials - copy * first)} AND trial > 0"
            _copy(connection, "trials", {"trial": new}, which)
            for table in BESIDE:
                changes = {"trial": new}
                changes |= {"at_s": f"at_s + {copy * end_s}"} if table in ("events", "meter_readings", "doses") else {}
                changes |= {"value": "value * jitter()"} if table == "measurements" else {}
                _copy(connection, table, changes, which)
        connection.execute("UPDATE campaign SET budget_micros = budget_micros * ?", (trials // first + 2,))
        connection.commit()
    with closing(Journal(directory, RealClock(), boot_id())):
        pass  # what another program has changed is sealed again when it is opened


def _copy(connection: sqlite3.Connection, table: str, changes: dict[str, str], which: str) -> None:
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
    values = ", ".join(changes.get(name, name) for name in names)
    sql = f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} WHERE {which}"  # noqa: S608
    connection.execute(sql)


if __name__ == "__main__":
    short, long = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.copytree(short, long)
    lengthen(long, int(sys.argv[3]))
