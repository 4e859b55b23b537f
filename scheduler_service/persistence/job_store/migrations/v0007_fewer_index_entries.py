"""Drops an index of `jobs` that no statement uses, and leaves rows without a value out of three others.

Nodes of before go on beside it: their statements use the same indexes. Their claims wait while it reads the
rows.
"""

from alembic import op
from sqlalchemy import text

revision = "0007"
down_revision = "0006"

INDEXES = {
    "jobs_due_wall": ("due_wall",),
    "jobs_due_steady": ("due_steady",),
    "jobs_parent": ("parent_job", "parent_execution", "job_id"),
}
"""Each has the rows alone whose first column is set."""


def upgrade() -> None:
    """The rows stay as they are."""
    op.drop_index("jobs_holder", table_name="jobs")
    for name, columns in INDEXES.items():
        condition = text(f"{columns[0]} IS NOT NULL")
        op.drop_index(name, table_name="jobs")
        op.create_index(name, "jobs", list(columns), sqlite_where=condition, postgresql_where=condition)
