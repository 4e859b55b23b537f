"""The tables of `state.db` and the steps that lead to them; `PRAGMA user_version` counts the steps done."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex

from scheduler_service.persistence.queues.queue_tables import queue_parts
from scheduler_service.ports.errors import StoreDamaged, StoreTooNew

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


APPLICATION_ID = 0x50554E43  # "PUNC": marks the files of this product
Migration = tuple[str, ...]

JOBS_AS_IN_CLUSTERS = (
    "ALTER TABLE jobs RENAME COLUMN document TO turn_state",
    "ALTER TABLE jobs RENAME COLUMN face TO claimed_at",  # both are numbers that no query of a file reads
    "ALTER TABLE jobs ADD COLUMN node TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN boot TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN is_first INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE deliveries RENAME TO outbox",
    "ALTER TABLE outbox ADD COLUMN done_at INTEGER",
    "ALTER TABLE outbox ADD COLUMN node TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE outbox ADD COLUMN boot TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE untold (uid TEXT NOT NULL, sequence INTEGER NOT NULL, content BLOB NOT NULL, "
    "node TEXT NOT NULL, boot TEXT NOT NULL, PRIMARY KEY (uid, sequence))",
    "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL, holder TEXT NOT NULL, "
    "until INTEGER NOT NULL)",
    "INSERT INTO marks VALUES ('placement', 0, 'alone', 0)",
    "INSERT INTO marks SELECT 'epoch', value, '', 0 FROM meta WHERE key = 'boot'",
    "INSERT INTO marks SELECT 'node_id', 0, value, 0 FROM meta WHERE key = 'node_id'",
    "INSERT INTO marks SELECT 'clock_skew', value, '', 0 FROM meta WHERE key = 'clock_skew'",
    "DELETE FROM meta WHERE key <> 'shares'",
)
"""The tables of a cluster, without the indexes by which it finds what a dead node left. The rows of
`unwritten` follow at the opening (`files`); `meta` says whether the jobs were divided.
"""

# A step that was released is never edited: the next change is a further step.
MIGRATIONS: tuple[Migration, ...] = (
    (
        """
        CREATE TABLE jobs (
            job_id TEXT PRIMARY KEY,
            uid TEXT NOT NULL,
            tenant TEXT NOT NULL,
            job_name TEXT NOT NULL,
            object_id TEXT,
            creator TEXT NOT NULL,
            kind TEXT NOT NULL,
            state TEXT NOT NULL,
            revision INTEGER NOT NULL,
            labels TEXT NOT NULL,
            parent_job TEXT,
            parent_execution INTEGER,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            system INTEGER NOT NULL,
            face INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            due_wall INTEGER,
            due_steady INTEGER,
            next_fire INTEGER,
            execute_number INTEGER NOT NULL,
            request_counts INTEGER NOT NULL,
            missed INTEGER NOT NULL,
            live INTEGER NOT NULL,
            waiting INTEGER NOT NULL,
            latest BLOB NOT NULL,
            document BLOB
        )
        """,
        "CREATE INDEX jobs_due_wall ON jobs (due_wall, job_id) WHERE due_wall IS NOT NULL",
        "CREATE INDEX jobs_due_steady ON jobs (due_steady, job_id) WHERE due_steady IS NOT NULL",
        "CREATE INDEX jobs_next_fire ON jobs (next_fire, job_id) WHERE next_fire IS NOT NULL",
        "CREATE INDEX jobs_live ON jobs (job_id, live) WHERE live > 0",
        "CREATE INDEX jobs_waiting ON jobs (job_id, waiting) WHERE waiting > 0",
        "CREATE INDEX jobs_uid ON jobs (uid)",
        "CREATE INDEX jobs_state ON jobs (tenant, state, job_id)",
        "CREATE INDEX jobs_name ON jobs (job_name, job_id)",
        "CREATE INDEX jobs_created ON jobs (created_at, job_id)",
        "CREATE INDEX jobs_updated ON jobs (updated_at, job_id)",
        "CREATE INDEX jobs_parent ON jobs (parent_job, parent_execution, job_id) "
        "WHERE parent_job IS NOT NULL",
        """
        CREATE TABLE definitions (
            uid TEXT NOT NULL,
            revision INTEGER NOT NULL,
            job_id TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            text BLOB NOT NULL,
            PRIMARY KEY (uid, revision)
        )
        """,
        "CREATE INDEX definitions_job ON definitions (job_id)",
        """
        CREATE TABLE remembered (
            scope TEXT NOT NULL,
            key TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            digest BLOB NOT NULL,
            answer BLOB NOT NULL,
            job_id TEXT NOT NULL,
            PRIMARY KEY (scope, key)
        )
        """,
        "CREATE INDEX remembered_created ON remembered (created_at)",
        "CREATE INDEX remembered_job ON remembered (job_id)",
        "CREATE TABLE deliveries (delivery_id TEXT PRIMARY KEY, content BLOB NOT NULL)",
        """
        CREATE TABLE unwritten (
            uid TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            job_id TEXT NOT NULL,
            tenant TEXT NOT NULL,
            at INTEGER NOT NULL,
            records BLOB NOT NULL,
            PRIMARY KEY (uid, sequence)
        )
        """,
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL)",
    ),
    PARTS,
    ("CREATE TABLE journal (page INTEGER PRIMARY KEY, content BLOB NOT NULL)",),
    COMPLETIONS,
    LEASED_INDEX,
    # The tables stay. An older program would take `state.db` of a divided folder for the whole of it, without
    # the jobs of the other shards: it has to refuse.
    (),
    LEASE_CHANGES,
    FIRST_CLAIM,
    # Several processes write one file: an older program would begin to divide it.
    (),
    AS_IN_CLUSTERS,
    JOBS_AS_IN_CLUSTERS,
)


def upgrade(
    connection: sqlite3.Connection, *, place: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Brings the file at `place` to the newest step, each step in its own transaction; a new file in one.

    Raises StoreTooNew when a newer program wrote it, StoreDamaged when it is another program's database.
    """
    version = read_version(connection, place=place, newest=len(migrations))
    if not version and migrations is MIGRATIONS:
        with closing(sqlite3.connect(":memory:")) as made:
            made.deserialize(_newest())
            made.backup(connection)
        return
    for step in range(version, len(migrations)):
        _take_step(connection, step=step, migration=migrations[step])


@cache
def _newest() -> bytes:
    """A database of the newest step without rows: to copy it takes a tenth of the steps."""
    with closing(sqlite3.connect(":memory:")) as made:
        for step, migration in enumerate(MIGRATIONS):
            _take_step(made, step=step, migration=migration)
        return made.serialize()


def read_version(connection: sqlite3.Connection, *, place: str, newest: int = len(MIGRATIONS)) -> int:
    """How many steps were taken in the file at `place`; changes nothing. Raises as `upgrade` does."""
    version: int = connection.execute("PRAGMA user_version").fetchall()[0][0]
    _check_owner(connection, place=place, version=version)
    if version > newest:
        raise StoreTooNew(
            f"The file {place} has format {version}, this program knows formats up to {newest}. "
            "Start the newer program again, or give this one another data folder."
        )
    return version


def _check_owner(connection: sqlite3.Connection, *, place: str, version: int) -> None:
    owner: int = connection.execute("PRAGMA application_id").fetchall()[0][0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]
    if owner == APPLICATION_ID or (owner == version == tables == 0):
        return
    raise StoreDamaged(
        f"The file {place} is the database of another program (application id {owner}). "
        "Move it away, or name another data folder."
    )


def _take_step(connection: sqlite3.Connection, *, step: int, migration: Migration) -> None:
    with transaction(connection):
        for statement in migration:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {step + 1}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; durable when it ends."""
    with connection:  # commits, or rolls back an error
        connection.execute("BEGIN IMMEDIATE")
        yield
