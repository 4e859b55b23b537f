"""Adds the state that lies in the row of a claim, and which nodes read it there.

Nodes of before may go on; none can be added. Programs of 0.1.0 are told so by the row `format` of `marks`.
"""

import sqlalchemy as sa
from alembic import op

from scheduler_service.persistence.sql.job_tables import IN_THE_ROW

revision = "0006"
down_revision = "0005"

MARK = "INSERT INTO marks (name, value, holder, until) VALUES ('format', 2, '', 0) \
ON CONFLICT (name) DO UPDATE SET value = 2"


def upgrade() -> None:
    """The rows that are there are of nodes that do not read it; no job has such a state yet."""
    op.add_column("jobs", sa.Column("turn_state", sa.LargeBinary))
    reads_claims = sa.Column("reads_claims", sa.SmallInteger, nullable=False, server_default="0")
    op.add_column("nodes", reads_claims)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(IN_THE_ROW)
        op.alter_column("nodes", "reads_claims", server_default=None)
    op.execute(MARK)
