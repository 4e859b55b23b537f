"""Runs migrations on the connection that `sql.migrations` hands over."""

from alembic import context

_given = context.config.attributes
context.configure(
    connection=_given["connection"],
    target_metadata=list(_given["migrations"].metadata),
    version_table=_given["migrations"].version_table,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
