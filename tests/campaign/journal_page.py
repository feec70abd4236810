"""Writes docs/journal.md from the journal's declared tables: `python -m tests.campaign.journal_page`."""

from __future__ import annotations

from pathlib import Path

from rigctl.campaign.journal.rows import TABLES, VERSION
from rigctl.campaign.journal.table import Column, Table

PAGE = Path(__file__).parent.parent.parent / "docs/journal.md"
HEAD = f"""# The journal's tables

One SQLite file, `journal.sqlite` in the state directory, holds everything that was decided, done and paid. Any program
may read it while a campaign runs; only rigctl writes it. For most purposes `rigctl export` and `rigctl.read` are the
better door. This is version {VERSION} (`PRAGMA user_version`). rigctl reads no other one.

Money is whole micro-units of the rig's currency; `_s` is campaign seconds, `_utc` and `utc` are for people, `_ml`
millilitres. NULL stands for NaN and for what is not known. Rows of {{kept}} never
change. A last table, `seals`, holds a checksum of each of the others.
"""


def page() -> str:
    """The whole page."""
    kept = ", ".join(f"`{table.name}`" for table in TABLES.values() if table.kept)
    return "\n".join([HEAD.replace("{kept}", kept), *map(section, TABLES.values())])


def section(table: Table) -> str:
    """One table: what it is, and its columns."""
    about = [f"{table.about[:1].upper()}{table.about[1:]}.", ""] if table.about else []
    lines = [f"| `{one.name}` | {one.kind} | {remarks(table, one)} |" for one in table.columns.values()]
    return "\n".join([f"## `{table.name}`", "", *about, "| column | type | |", "|---|---|---|", *lines, ""])


def remarks(table: Table, column: Column) -> str:
    """What is said of one column."""
    names = table.references.get(column.name)
    said = ["key" if column.name in table.key else "may be NULL" if column.nullable else ""]
    said += ["JSON" if column.json else "", column.about, f"in `{names.name}`" if names else ""]
    return "; ".join(filter(None, said)).replace("|", "or")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
