"""Adds the tables by which all nodes know the same instances of services."""

from alembic import op

from scheduler_service.persistence.job_store.job_store_schema import (
    node_reports,
    service_notices,
    shared_instances,
)

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Makes them, empty."""
    for table in (shared_instances, service_notices, node_reports):
        table.create(op.get_bind())
