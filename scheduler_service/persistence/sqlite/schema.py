"""The tables of `state.db` and the steps that lead to them; `PRAGMA user_version` counts the steps done."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from scheduler_service.persistence.sqlite.queue_tables import (
    AS_IN_CLUSTERS,
    COMPLETIONS,
    FIRST_CLAIM,
    LEASE_CHANGES,
    LEASED_INDEX,
    PARTS,
)
from scheduler_service.ports.errors import StoreDamaged, StoreTooNew

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
`unwritten` follow at the opening (`journal`); `meta` says whether the jobs were divided.
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
    """Brings the file at `place` to the newest step, each step in its own transaction.

    Raises StoreTooNew when a newer program wrote it, StoreDamaged when it is another program's database.
    """
    version = read_version(connection, place=place, newest=len(migrations))
    for step in range(version, len(migrations)):
        _take_step(connection, step=step, migration=migrations[step])


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
