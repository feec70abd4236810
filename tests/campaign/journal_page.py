"""The page of the journal's declared tables, for the site; `python -m tests.campaign.journal_page` prints it."""

from rigctl.campaign.journal.rows import TABLES, VERSION
from rigctl.campaign.journal.table import Column, Table

HEAD = """# The journal's tables

One SQLite file, `journal.sqlite` in the state directory, holds everything that was decided, done and paid. Any program
may read it while a campaign runs; only rigctl writes it. Mostly `rigctl journal export` and `rigctl.read` are
the better door. This is version {version} (`PRAGMA user_version`). rigctl reads no other one.

Money is whole micro-units of the rig's currency; `_s` is campaign seconds, `_utc` and `utc` are for people, `_ml`
millilitres. NULL stands for NaN and for what is not known. Rows of {kept} never
change. A last table, `seals`, holds a checksum of each of the others.

Trials stand in these tables as they were recorded. What people corrected later stands in `corrections`. Open the file
read-only, e.g. by `sqlite3 'file:journal.sqlite?mode=ro'`:

```sql
-- outcome and cost of each trial
SELECT trial, value, (SELECT sum(amount_micros) / 1e6 FROM ledger WHERE ledger.trial = m.trial) AS paid
FROM measurements m WHERE outcome = 1 AND severity < 3 ORDER BY trial;
-- what each pump gave per day
SELECT actuator, date(utc) AS day, sum(coalesce(dispensed_ml, volume_ml)) AS ml FROM doses GROUP BY actuator, day;
-- what people did, the latest first
SELECT utc, who, verb, argument, why FROM acts ORDER BY id DESC;
```
"""


def page() -> str:
    """The whole page."""
    kept = ", ".join(f"`{table.name}`" for table in TABLES.values() if table.kept)
    return "\n".join([HEAD.format(version=VERSION, kept=kept), *map(section, TABLES.values())])


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
    print(page())
