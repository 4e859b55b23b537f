"""Adds keys, audit, stored secrets and calendars, all empty; signing, options and addresses of services."""

from alembic.operations import Operations

from scheduler_service.persistence.sql.migrations import add_missing
from scheduler_service.persistence.tables.audit_lines import audit
from scheduler_service.persistence.tables.key_secret_calendar_tables import (
    access_keys,
    calendars,
    stored_secrets,
)
from scheduler_service.persistence.tables.service_table import services


def upgrade(change: Operations) -> None:
    """Makes the tables and the columns."""
    columns = (services.c.signing, services.c.options, services.c.vouched)
    add_missing(change.get_bind(), access_keys, audit, stored_secrets, calendars, *columns)
