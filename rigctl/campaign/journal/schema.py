"""The journal's tables, as numbered migrations: entry k takes a file from version k to k + 1.

Those up to version 4 stand in `first_tables`. A migration that has been released is never edited; a change is a new
entry. Money is whole micro-units, floats are SQLite's 8-byte reals (exact both ways), NaN is NULL, times are campaign
seconds (rig time made continuous across boots, see `Journal`) beside UTC for people.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from rigctl.campaign.journal.first_tables import SEALED_SINCE_V3, V1, V2, V3, V4, unsealing

APPLICATION_ID: Final = 0x52494743
"""`RIGC`, in the file's header."""

_PEOPLES_SINCE: Final = 5
_PEOPLES: Final = ("acts", "acknowledgements", "suggestions", "imports", "by_hand", "corrections")
_KEPT_FOR_GOOD: Final = ("acts", "acknowledgements", "imports", "corrections")
"""Tables whose rows never change and never go."""

_V5 = (
    """CREATE TABLE acts (                    -- audit: what people have done to the campaign
        id INTEGER PRIMARY KEY,
        verb TEXT NOT NULL,                 -- pause, resume, void, amend, ack, finish, safe, ..., wrong token
        argument TEXT NOT NULL,             -- what it was done to, e.g. trial 12
        who TEXT NOT NULL,
        why TEXT NOT NULL,
        outcome TEXT NOT NULL,              -- what came of it, in words
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        start INTEGER REFERENCES starts (id)  -- of the process that carried it out
    )""",
    """CREATE TABLE acknowledgements (        -- a person has seen the alarm
        alarm INTEGER PRIMARY KEY REFERENCES alarms (id),
        who TEXT NOT NULL,
        note TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL
    )""",
    """CREATE TABLE suggestions (             -- decisions handed to a person; columns as in trials
        id INTEGER PRIMARY KEY,
        trial INTEGER NOT NULL,             -- the number it was made for; the last one made for it counts
        control_set TEXT NOT NULL,          -- JSON
        setpoints TEXT NOT NULL,            -- JSON
        origin TEXT NOT NULL CHECK (origin IN ('policy', 'rejected', 'timed-out')),
        proposal TEXT NOT NULL,             -- JSON
        policy_state TEXT,                  -- JSON
        seed INTEGER NOT NULL,
        history_length INTEGER NOT NULL,
        corrections INTEGER NOT NULL,
        budget_micros INTEGER NOT NULL CHECK (typeof(budget_micros) = 'integer'),
        note TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        start INTEGER REFERENCES starts (id)  -- of the process that decided
    )""",
    """CREATE TABLE imports (                 -- files of trials from before the campaign
        id INTEGER PRIMARY KEY,
        source TEXT NOT NULL,               -- the file's name
        digest TEXT NOT NULL,               -- SHA-256 of its bytes
        trials INTEGER NOT NULL,
        noise_sd REAL,                      -- of its outcomes, own units; NULL: as the model learns it
        noise_factor REAL NOT NULL,         -- its outcomes' noise sd over that of the campaign's own
        who TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL
    )""",
    """CREATE TABLE by_hand (                 -- what is known besides of a trial that a person did
        trial INTEGER PRIMARY KEY REFERENCES trials (trial),
        date TEXT NOT NULL,                 -- of the trial, as the person wrote it; empty: not said
        operator TEXT NOT NULL,
        batch TEXT NOT NULL,
        note TEXT NOT NULL,
        who TEXT NOT NULL,                  -- who recorded it
        suggestion INTEGER REFERENCES suggestions (id),
        departed TEXT NOT NULL,             -- in what it was not as suggested, in words; empty: as suggested
        import INTEGER REFERENCES imports (id),
        amount_micros INTEGER CHECK (typeof(amount_micros) IN ('integer', 'null'))
                                            -- what an imported trial cost then: evidence, never charged
    )""",
    """CREATE TABLE corrections (             -- nothing is erased: the last void or restore and the last value count
        id INTEGER PRIMARY KEY,
        trial INTEGER NOT NULL REFERENCES trials (trial),
        kind TEXT NOT NULL CHECK (kind IN ('void', 'restore', 'amend')),
        was TEXT NOT NULL,                  -- JSON: what is amended, as it was before
        becomes TEXT NOT NULL,              -- JSON: the same from now on
        who TEXT NOT NULL,
        why TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL
    )""",
    "CREATE INDEX corrections_trial ON corrections (trial)",
    # The last correction that the decision knew; 0: none.
    "ALTER TABLE trials ADD COLUMN corrections INTEGER NOT NULL DEFAULT 0",
    *(
        f"CREATE TRIGGER keep_{table}_{event} BEFORE {event} ON {table} BEGIN "
        f"SELECT RAISE(ABORT, '{table}: rows are kept as they were written'); END"
        for table in _KEPT_FOR_GOOD
        for event in ("update", "delete")
    ),
    *unsealing(_PEOPLES),
    "UPDATE seals SET digest = NULL",
)

_UPKEEPS_SINCE: Final = 6
_UPKEEPS: Final = ("upkeep", "calibrations")

_V6 = (
    """CREATE TABLE upkeep (                  -- what people have done to the instruments; audit: acts
        id INTEGER PRIMARY KEY,
        device TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('out', 'in', 'refilled', 'replaced', 'calibrated')),
        part TEXT NOT NULL,                 -- what was replaced, e.g. tubing
        volume_ml REAL,                     -- refilled: what is in the bottle now; NULL: as configured
        age_s REAL NOT NULL,                -- how long ago that was when it was said
        why TEXT NOT NULL,
        who TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        epoch TEXT NOT NULL                 -- as in starts
    )""",
    "CREATE INDEX upkeep_device ON upkeep (device, kind)",
    """CREATE TABLE calibrations (            -- what instruments say of their calibration, as read at starts and daily
        id INTEGER PRIMARY KEY,
        device TEXT NOT NULL,
        points INTEGER,                     -- of how many points it is; 0: none; NULL: it does not say
        slopes TEXT NOT NULL,               -- JSON: percent of an ideal probe's, as the instrument lists them
        detail TEXT NOT NULL,               -- its own words
        changed INTEGER NOT NULL,           -- 1: not as it was read the last time
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        epoch TEXT NOT NULL                 -- as in starts
    )""",
    # Control sets that the decision could not choose, and why.
    "ALTER TABLE trials ADD COLUMN unavailable TEXT NOT NULL DEFAULT '{}'",  # JSON
    "ALTER TABLE suggestions ADD COLUMN unavailable TEXT NOT NULL DEFAULT '{}'",  # JSON
    *(
        f"CREATE TRIGGER keep_{table}_{event} BEFORE {event} ON {table} BEGIN "
        f"SELECT RAISE(ABORT, '{table}: rows are kept as they were written'); END"
        for table in _UPKEEPS
        for event in ("update", "delete")
    ),
    *unsealing(_UPKEEPS),
    "UPDATE seals SET digest = NULL",
)

_LOOKS_SINCE: Final = 7
_LOOKS: Final = ("looks", "awaited")

_V7 = (
    """CREATE TABLE looks (                   -- what the variables read before the trial was decided
        trial INTEGER NOT NULL REFERENCES trials (trial),
        name TEXT NOT NULL,
        value REAL,
        spread REAL,
        count INTEGER NOT NULL,
        invalid INTEGER NOT NULL,
        severity INTEGER NOT NULL,
        detail TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        PRIMARY KEY (trial, name)
    ) WITHOUT ROWID""",
    """CREATE TABLE awaited (                 -- trials whose rig part is over, and whose outcome comes later
        trial INTEGER PRIMARY KEY REFERENCES trials (trial),
        how TEXT NOT NULL CHECK (how IN ('hand', 'sensor')),  -- a person says it, or it is read then
        due_s REAL NOT NULL,                -- when it is read, or given up
        due_utc TEXT NOT NULL,
        epoch TEXT NOT NULL                 -- as in starts
    )""",
    # A trial that looks is under way; one that only awaits its outcome is not.
    "DROP INDEX trials_open",
    """CREATE UNIQUE INDEX trials_open ON trials ((1))
        WHERE state IN ('LOOKING', 'PROPOSED', 'ARMED', 'RUNNING', 'MEASURED')""",
    # What a person read before asking for a suggestion.
    "ALTER TABLE suggestions ADD COLUMN looks TEXT NOT NULL DEFAULT '{}'",  # JSON: name -> engineering units
    *unsealing(_LOOKS),
    "UPDATE seals SET digest = NULL",
)

_V8 = (
    "ALTER TABLE alarms ADD COLUMN kind TEXT NOT NULL DEFAULT ''",  # with source: which alarm it is
    "ALTER TABLE alarms ADD COLUMN state TEXT NOT NULL DEFAULT 'once'",  # stands, over, or once
    "ALTER TABLE alarms ADD COLUMN action TEXT NOT NULL DEFAULT ''",  # what the watch did
    """UPDATE alarms SET kind = message, state = CASE
        WHEN message LIKE '%(over)' THEN 'over'
        WHEN substr(message, -6) IN ('(warn)', '(fail)', '(hold)', '(safe)', '(trip)') THEN 'stands'
        WHEN message LIKE '%(stands)' THEN 'stands' ELSE 'once' END""",
    "UPDATE seals SET digest = NULL",
)

MIGRATIONS: Final = (V1, V2, V3, V4, _V5, _V6, _V7, _V8)
VERSION: Final = len(MIGRATIONS)
"""The newest version this rigctl can read and write."""
SEALED_TABLES: Final = (*SEALED_SINCE_V3, *_PEOPLES, *_UPKEEPS, *_LOOKS)
"""All that hold something; their checksums are in `seals`."""


def sealed_tables(version: int) -> tuple[str, ...]:
    """Return those that a sealed file of this version has."""
    since = ((3, SEALED_SINCE_V3), (_PEOPLES_SINCE, _PEOPLES), (_UPKEEPS_SINCE, _UPKEEPS), (_LOOKS_SINCE, _LOOKS))
    return tuple(table for first, tables in since for table in tables if version >= first)


def lay_out(connection: sqlite3.Connection, version: int = VERSION, since: int = 0) -> None:
    """Make the tables of a journal of this version, in a file that is empty or of the version `since`."""
    for migration in MIGRATIONS[since:version]:
        for statement in migration:
            connection.execute(statement)


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether there is such a table; an older version's file lacks those that came later."""
    rows = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ? AND sql LIKE 'CREATE TABLE%'", (name,))
    return rows.fetchone() is not None
