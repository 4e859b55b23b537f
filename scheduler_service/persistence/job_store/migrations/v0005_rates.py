"""Adds the table by which all nodes hold one rate limit."""

from alembic import op

from scheduler_service.persistence.job_store.job_store_schema import shared_rates

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Makes it, empty."""
    shared_rates.create(op.get_bind())
