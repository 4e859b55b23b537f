"""What a database says of itself: its version, its clock, and what it keeps through a crash."""

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.sql.database import translated
from scheduler_service.persistence.sql.dialects import open_dialect

OF_POSTGRES = "SELECT current_setting('server_version'), pg_is_in_recovery()"


class ServerReport(msgspec.Struct, frozen=True):
    """`milliseconds` is the server's wall clock; `syncs`: a commit is on its disk before it is answered."""

    version: str
    milliseconds: int
    syncs: bool
    is_replica: bool


def read_report(*, url: str, subject: str) -> ServerReport:
    """The report of a PostgreSQL server; changes nothing. Raises StoreUnavailable."""
    dialect = open_dialect(url, subject=subject)
    try:
        with translated(dialect), dialect.engine.connect() as connection:
            version, is_replica = connection.execute(sa.text(OF_POSTGRES)).one()
            milliseconds, syncs = dialect.milliseconds(connection), dialect.syncs(connection)
    finally:
        dialect.engine.dispose()
    return ServerReport(str(version), milliseconds, syncs, bool(is_replica))
