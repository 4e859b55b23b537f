"""Runs migrations on the connection that `versions.upgrade` hands over."""

from alembic import context

from scheduler_service.persistence.history.schema import metadata
from scheduler_service.persistence.history.versions import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
