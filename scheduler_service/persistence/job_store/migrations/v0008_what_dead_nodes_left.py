"""Adds an index by which jobs of dead nodes are found; that of deliveries has those alone that are not done.

Nodes of before go on beside it: none of their statements needs either. Their claims wait while it reads the
rows.
"""

from alembic import op
from sqlalchemy import text

revision = "0008"
down_revision = "0007"
NOT_DONE = text("done_at IS NULL")


def upgrade() -> None:
    """The rows stay as they are."""
    op.create_index("jobs_held", "jobs", ["node", "boot", "live", "claimed_at"])
    op.drop_index("outbox_holder", table_name="outbox")
    columns = ["node", "boot"]
    op.create_index("outbox_holder", "outbox", columns, sqlite_where=NOT_DONE, postgresql_where=NOT_DONE)
