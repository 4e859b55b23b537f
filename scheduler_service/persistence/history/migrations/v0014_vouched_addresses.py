"""Adds who vouches for the address of a service, and the sessions of a key that were signed out: none are."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.key_secret_calendar_tables import access_keys
from scheduler_service.persistence.tables.service_table import services

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Makes the columns."""
    add_missing(op.get_bind(), services.c.vouched, access_keys.c.ended)
