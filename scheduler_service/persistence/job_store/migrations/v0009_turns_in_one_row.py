"""Marks the jobs that had no turn since their creation; the claim of each turn has its state from now on.

Nodes of before go on beside it, and those that know of it wait until the last of them has left.
"""

import sqlalchemy as sa
from alembic.operations import Operations

IS_FIRST = sa.text("is_first = 1")


def upgrade(change: Operations) -> None:
    """What was created in arrays and had no turn since lies in its copy."""
    change.add_column("jobs", sa.Column("is_first", sa.SmallInteger, nullable=False, server_default="0"))
    change.create_index(
        "jobs_first", "jobs", ["due_wall", "job_id"], sqlite_where=IS_FIRST, postgresql_where=IS_FIRST
    )
    change.execute(
        "UPDATE jobs SET is_first = 1 WHERE execute_number = 0 AND revision = 1 AND EXISTS "
        "(SELECT 1 FROM copies WHERE copies.job_id = jobs.job_id AND copies.sequence = jobs.sequence)"
    )
