"""Writes docs/journal.md from the journal's own tables: `python -m tests.campaign.journal_page`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rigctl.campaign.journal.schema import VERSION, lay_out

PAGE = Path(__file__).parent.parent.parent / "docs/journal.md"
HEAD = f"""# The journal's tables

One SQLite file, `journal.sqlite` in the state directory, holds everything that was decided, done and paid. Any program
may read it while a campaign runs; only rigctl writes it. For most purposes `rigctl export` and `rigctl.read` are the
better door. This is version {VERSION} (`PRAGMA user_version`). rigctl reads no other one.

Money is whole micro-units of the rig's currency; `_s` is campaign seconds, `_utc` and `utc` are for people, `_ml`
millilitres. NULL stands for NaN and for what is not known. Rows of {{kept}} never
change.
"""


def page() -> str:
    """The whole page."""
    with closing(sqlite3.connect(":memory:")) as connection:
        lay_out(connection)
        tables = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        ).fetchall()
        kept = [
            n for (n,) in connection.execute("SELECT DISTINCT tbl_name FROM sqlite_master WHERE name LIKE 'keep_%'")
        ]
        parts = [section(connection, name, sql) for name, sql in tables]
    return "\n".join([HEAD.replace("{kept}", ", ".join(f"`{name}`" for name in kept)), *parts])


def section(connection: sqlite3.Connection, table: str, sql: str) -> str:
    """One table: what it is, and its columns."""
    said = dict(comments(sql))
    lines = [f"## `{table}`", ""]
    if "" in said:
        lines += [f"{said[''][:1].upper()}{said[''][1:]}.", ""]
    lines += ["| column | type | |", "|---|---|---|"]
    for _, name, kind, not_null, _, key in connection.execute(f"PRAGMA table_info({table})"):
        remarks = ["key"] if key else [] if not_null else ["may be NULL"]
        lines.append(f"| `{name}` | {kind} | {'; '.join([*remarks, *([said[name]] if name in said else [])])} |")
    return "\n".join([*lines, ""])


def comments(sql: str) -> Iterator[tuple[str, str]]:
    """The remarks of a table's definition by column; by the empty name that of the table itself."""
    for line in sql.splitlines():
        before, dashes, remark = line.partition("--")
        if dashes:
            found = re.match(r"\s*(\w+)", before)
            yield ("" if "CREATE TABLE" in before or found is None else found[1], remark.strip().replace("|", "or"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
