"""The journal's tables, as numbered migrations: entry k takes a file from version k to k + 1.

A migration that has been released is never edited; a change is a new entry. Money is whole micro-units, floats are
SQLite's 8-byte reals (exact both ways), NaN is NULL, times are campaign seconds (rig time made continuous across boots,
see `Journal`) beside UTC for people.
"""

from __future__ import annotations

import sqlite3
from typing import Final

APPLICATION_ID: Final = 0x52494743
"""`RIGC`, in the file's header."""

_V1 = (
    """CREATE TABLE campaign (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        rig TEXT NOT NULL,
        policy TEXT NOT NULL,
        policy_options TEXT NOT NULL,       -- JSON
        seed INTEGER NOT NULL,
        currency TEXT NOT NULL,
        budget_micros INTEGER NOT NULL CHECK (typeof(budget_micros) = 'integer'),
        outcome TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        identity TEXT NOT NULL,             -- JSON: what must not change, dotted key -> JSON
        created_utc TEXT NOT NULL
    )""",
    """CREATE TABLE starts (                  -- one per process that opened the campaign to run it
        id INTEGER PRIMARY KEY,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        epoch TEXT NOT NULL,                -- boot and clock factor; the offset holds within one epoch
        offset_s REAL NOT NULL,             -- campaign seconds = rig seconds + offset
        pid INTEGER NOT NULL,
        version TEXT NOT NULL,
        config TEXT NOT NULL,
        budget_micros INTEGER NOT NULL,
        seen_utc TEXT NOT NULL,             -- heartbeat
        seen_s REAL NOT NULL,
        ended TEXT,                         -- why; NULL while it runs, or if it died
        safe INTEGER                        -- 1: it ended with everything safe and settled; NULL if it had no rig
    )""",
    """CREATE TABLE trials (
        trial INTEGER PRIMARY KEY CHECK (trial > 0),
        state TEXT NOT NULL,
        control_set TEXT NOT NULL,          -- JSON: names
        setpoints TEXT NOT NULL,            -- JSON: name -> engineering units
        origin TEXT NOT NULL CHECK (origin IN ('policy', 'rejected', 'timed-out', 'manual')),
        proposal TEXT,                      -- JSON; NULL when done by hand
        policy_state TEXT,                  -- JSON, after the decision; NULL when no policy took part
        seed INTEGER NOT NULL,
        history_length INTEGER NOT NULL,    -- charged trials the decision knew
        budget_micros INTEGER NOT NULL,     -- budget the decision knew
        note TEXT NOT NULL
    )""",
    # At most one trial is under way.
    """CREATE UNIQUE INDEX trials_open ON trials ((1)) WHERE state IN ('PROPOSED', 'ARMED', 'RUNNING', 'MEASURED')""",
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        trial INTEGER NOT NULL REFERENCES trials (trial),
        event TEXT NOT NULL,
        state TEXT NOT NULL,                -- after the event
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        detail TEXT NOT NULL,
        start INTEGER REFERENCES starts (id)  -- of the process that took the step
    )""",
    "CREATE INDEX events_trial ON events (trial)",
    """CREATE TABLE states (                  -- what the actuators said once the setpoints were imposed
        trial INTEGER NOT NULL REFERENCES trials (trial),
        variable TEXT NOT NULL,
        controlled INTEGER NOT NULL,
        setpoint REAL,
        PRIMARY KEY (trial, variable)
    ) WITHOUT ROWID""",
    """CREATE TABLE measurements (
        trial INTEGER NOT NULL REFERENCES trials (trial),
        name TEXT NOT NULL,
        outcome INTEGER NOT NULL,           -- 1: the outcome, 0: a variable
        value REAL,
        spread REAL,
        count INTEGER NOT NULL,
        invalid INTEGER NOT NULL,
        severity INTEGER NOT NULL,
        detail TEXT NOT NULL,
        PRIMARY KEY (trial, name)
    ) WITHOUT ROWID""",
    """CREATE TABLE meter_readings (
        trial INTEGER NOT NULL REFERENCES trials (trial),
        meter TEXT NOT NULL,
        phase TEXT NOT NULL CHECK (phase IN ('before', 'after')),
        value REAL,
        unit TEXT NOT NULL,
        at_s REAL NOT NULL,
        severity INTEGER NOT NULL,
        detail TEXT NOT NULL,
        PRIMARY KEY (trial, meter, phase)
    ) WITHOUT ROWID""",
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY,
        trial INTEGER NOT NULL REFERENCES trials (trial),
        meter TEXT NOT NULL,
        kind TEXT NOT NULL,
        quantity REAL,
        unit TEXT NOT NULL,
        amount_micros INTEGER NOT NULL CHECK (typeof(amount_micros) = 'integer' AND amount_micros >= 0),
        estimated INTEGER NOT NULL,
        note TEXT NOT NULL,
        UNIQUE (trial, meter)               -- nothing is charged twice
    )""",
    """CREATE TABLE doses (
        id INTEGER PRIMARY KEY,
        trial INTEGER REFERENCES trials (trial),
        actuator TEXT NOT NULL,
        volume_ml REAL NOT NULL,
        total_before_ml REAL NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('INTENT', 'SENT', 'DONE', 'UNKNOWN')),
        dispensed_ml REAL,                  -- NULL while open
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,                 -- of the intent
        settled_s REAL,
        note TEXT NOT NULL
    )""",
    "CREATE INDEX doses_actuator ON doses (actuator, at_s)",
    """CREATE TABLE alarms (
        id INTEGER PRIMARY KEY,
        trial INTEGER REFERENCES trials (trial),
        severity INTEGER NOT NULL,
        source TEXT NOT NULL,
        message TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL
    )""",
    """CREATE TABLE trips (
        id INTEGER PRIMARY KEY,
        reason TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        reset_utc TEXT                      -- by a person; NULL while it is latched
    )""",
    # At most one trip is latched.
    "CREATE UNIQUE INDEX trips_latched ON trips ((1)) WHERE reset_utc IS NULL",
)

_V2 = (
    """CREATE TABLE phases (                  -- the campaign's own states
        id INTEGER PRIMARY KEY,
        phase TEXT NOT NULL CHECK (phase IN ('RUNNING', 'HOLDING', 'PAUSED', 'WAITING', 'ENDED')),
        why TEXT NOT NULL,
        until_s REAL,                       -- campaign seconds, where it is known how long
        utc TEXT NOT NULL,
        at_s REAL NOT NULL,
        start INTEGER REFERENCES starts (id)
    )""",
    """CREATE TABLE pins (                    -- which instrument stands where; the last row of a device counts
        id INTEGER PRIMARY KEY,
        device TEXT NOT NULL,
        model TEXT NOT NULL,
        serial TEXT NOT NULL,
        place TEXT NOT NULL,                -- stable name of the port, where the instrument has no number of its own
        utc TEXT NOT NULL,
        accepted INTEGER NOT NULL,          -- 1: by a person; 0: as first found
        who TEXT NOT NULL                   -- that person
    )""",
    """CREATE TABLE idle (                    -- what was used while no trial was under way
        id INTEGER PRIMARY KEY,
        meter TEXT NOT NULL,
        kind TEXT NOT NULL,
        quantity REAL,
        unit TEXT NOT NULL,
        amount_micros INTEGER NOT NULL CHECK (typeof(amount_micros) = 'integer' AND amount_micros >= 0),
        before_trial INTEGER NOT NULL,      -- the trial that came after it
        note TEXT NOT NULL,
        utc TEXT NOT NULL,
        at_s REAL NOT NULL
    )""",
    """CREATE TABLE answers (                 -- what a dose did to the reading that judges it
        dose INTEGER PRIMARY KEY REFERENCES doses (id),
        probe TEXT NOT NULL,
        moved REAL NOT NULL,                -- change of the reading, sensor's unit
        expected REAL NOT NULL,
        answered INTEGER NOT NULL,
        forgiven INTEGER NOT NULL DEFAULT 0 -- 1: a person has found the cause since
    )""",
    "ALTER TABLE alarms ADD COLUMN detail TEXT NOT NULL DEFAULT ''",  # a traceback
    "ALTER TABLE starts ADD COLUMN closed INTEGER NOT NULL DEFAULT 0",  # 1: the file was closed in good order
)

_SEALED_SINCE_V3: Final = (
    *("campaign", "starts", "trials", "events", "states", "measurements", "meter_readings", "ledger", "doses"),
    *("alarms", "trips", "phases", "pins", "idle", "answers"),
)


def _unsealing(tables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the triggers that void a table's seal when another program changes the table."""
    return tuple(
        f"CREATE TRIGGER unseal_{table}_{event} AFTER {event} ON {table} BEGIN "  # noqa: S608 - our own names
        f"UPDATE seals SET digest = NULL WHERE name = '{table}'; END"
        for table in tables
        for event in ("insert", "update", "delete")
    )


_V3 = (
    """CREATE TABLE seals (                   -- checksums, see seals.py
        name TEXT PRIMARY KEY,              -- of the table, or user_version
        digest INTEGER                      -- NULL: changed by another program since
    ) WITHOUT ROWID""",
    *_unsealing(_SEALED_SINCE_V3),
)

_V4 = (
    # What is JSON says its version from here on, see documents.py; `campaign.fingerprint` is of no use any more.
    "ALTER TABLE starts ADD COLUMN code TEXT",  # JSON: which code decides in this process
    "ALTER TABLE seals ADD COLUMN place INTEGER",  # the same sum, each row's share times its key
    "UPDATE seals SET digest = NULL",
)

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
    *_unsealing(_PEOPLES),
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
    *_unsealing(_UPKEEPS),
    "UPDATE seals SET digest = NULL",
)

MIGRATIONS: Final = (_V1, _V2, _V3, _V4, _V5, _V6)
VERSION: Final = len(MIGRATIONS)
"""The newest version this rigctl can read and write."""
SEALED_TABLES: Final = (*_SEALED_SINCE_V3, *_PEOPLES, *_UPKEEPS)
"""All that hold something; their checksums are in `seals`."""


def sealed_tables(version: int) -> tuple[str, ...]:
    """Return those that a sealed file of this version has."""
    since = ((3, _SEALED_SINCE_V3), (_PEOPLES_SINCE, _PEOPLES), (_UPKEEPS_SINCE, _UPKEEPS))
    return tuple(table for first, tables in since for table in tables if version >= first)


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether there is such a table; an older version's file lacks those that came later."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None
