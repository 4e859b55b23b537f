"""Adds keys, audit, stored secrets and calendars, all empty; signing, options and addresses of services."""

from alembic import op

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.audit_lines import audit
from scheduler_service.persistence.tables.key_secret_calendar_tables import (
    access_keys,
    calendars,
    stored_secrets,
)
from scheduler_service.persistence.tables.service_table import services

revision = "0013"
down_revision = "0006"


def upgrade() -> None:
    """Makes the tables and the columns."""
    columns = (services.c.signing, services.c.options, services.c.vouched)
    add_missing(op.get_bind(), access_keys, audit, stored_secrets, calendars, *columns)
