"""The journal's first tables: migrations to versions 1 to 4, as released; see `schema`."""

from __future__ import annotations

from typing import Final

V1: Final = (
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

V2: Final = (
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

SEALED_SINCE_V3: Final = (
    *("campaign", "starts", "trials", "events", "states", "measurements", "meter_readings", "ledger", "doses"),
    *("alarms", "trips", "phases", "pins", "idle", "answers"),
)


def unsealing(tables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the triggers that void a table's seal when another program changes the table."""
    return tuple(
        f"CREATE TRIGGER unseal_{table}_{event} AFTER {event} ON {table} BEGIN "  # noqa: S608 - our own names
        f"UPDATE seals SET digest = NULL WHERE name = '{table}'; END"
        for table in tables
        for event in ("insert", "update", "delete")
    )


V3: Final = (
    """CREATE TABLE seals (                   -- checksums, see seals.py
        name TEXT PRIMARY KEY,              -- of the table, or user_version
        digest INTEGER                      -- NULL: changed by another program since
    ) WITHOUT ROWID""",
    *unsealing(SEALED_SINCE_V3),
)

V4: Final = (
    # What is JSON says its version from here on, see documents.py; `campaign.fingerprint` is of no use any more.
    "ALTER TABLE starts ADD COLUMN code TEXT",  # JSON: which code decides in this process
    "ALTER TABLE seals ADD COLUMN place INTEGER",  # the same sum, each row's share times its key
    "UPDATE seals SET digest = NULL",
)
