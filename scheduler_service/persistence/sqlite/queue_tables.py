"""The steps by which `state.db` came to the tables of the queues that all stores have."""

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex

from scheduler_service.persistence.queues.tables import queue_parts

PARTS = (
    """
    CREATE TABLE parts (
        part_id TEXT PRIMARY KEY,
        uid TEXT NOT NULL,
        execute_number INTEGER NOT NULL,
        request_counts INTEGER NOT NULL,
        step INTEGER NOT NULL,
        total INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        named INTEGER NOT NULL,
        specific TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        state INTEGER NOT NULL,
        free_at INTEGER NOT NULL,
        instance TEXT,
        lease TEXT,
        until INTEGER,
        retries INTEGER NOT NULL,
        options BLOB NOT NULL,
        content BLOB NOT NULL,
        ended BLOB
    )
    """,
    "CREATE INDEX parts_free ON parts (tenant, queue, priority DESC, named DESC, created_at, part_id) "
    "WHERE state = 0",
    "CREATE INDEX parts_delayed ON parts (free_at) WHERE state = 0",
    "CREATE UNIQUE INDEX parts_lease ON parts (lease) WHERE lease IS NOT NULL",
    "CREATE INDEX parts_until ON parts (until) WHERE until IS NOT NULL",
    "CREATE INDEX parts_step ON parts (uid, execute_number, request_counts, step)",
    "CREATE INDEX parts_ended ON parts (part_id) WHERE state = 2",
)

LEASED_INDEX = ("CREATE INDEX parts_held ON parts (tenant, queue, instance, until) WHERE state = 1",)

LEASE_CHANGES = (
    "ALTER TABLE parts ADD COLUMN published INTEGER",
    "ALTER TABLE parts ADD COLUMN expires INTEGER",
    "ALTER TABLE parts ADD COLUMN serial INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE parts ADD COLUMN changes TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX parts_expires ON parts (expires) WHERE expires IS NOT NULL",
    "CREATE INDEX parts_changed ON parts (part_id) WHERE changes <> '' AND state <> 2",
)
"""`expires`: the end of the queue timeout of a part that nobody has claimed yet. `changes`: those of its
leases that its job has not accepted (`common.packing`), `serial` the number of all.
"""

FIRST_CLAIM = ("ALTER TABLE parts ADD COLUMN claimed_at INTEGER",)

COMPLETIONS = (
    "CREATE TABLE completions "
    "(place INTEGER PRIMARY KEY, lease TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at INTEGER NOT NULL)",
)

_NAMES = ("free", "delayed", "lease", "until", "step", "ended", "held", "expires", "changed")
AS_IN_CLUSTERS = (
    *(f"DROP INDEX parts_{name}" for name in _NAMES),
    "ALTER TABLE parts RENAME TO queue_parts",
    "ALTER TABLE queue_parts ADD COLUMN noted_at INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE completions RENAME TO queue_completions",
    *(
        str(CreateIndex(one).compile(dialect=sqlite.dialect()))
        for one in sorted(queue_parts.indexes, key=str)
    ),
)
