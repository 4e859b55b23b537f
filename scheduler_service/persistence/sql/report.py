"""What a database says of itself: its version, its clock, and what it keeps through a crash."""

import time

import msgspec

from scheduler_service.persistence.sql.database import translated
from scheduler_service.persistence.sql.dialects import open_dialect


class ServerReport(msgspec.Struct, frozen=True):
    """`milliseconds` is the server's wall clock, read `between` two moments (s) of this machine's.

    `syncs`: a commit is on the server's disk before it is answered.
    `synced_by` are the settings of the server that see to that.
    """

    product: str
    version: str
    milliseconds: int
    between: tuple[float, float]
    syncs: bool
    synced_by: str
    is_replica: bool


def read_report(*, url: str, subject: str) -> ServerReport:
    """The report of a database server; changes nothing. Raises StoreUnavailable."""
    dialect = open_dialect(url, subject=subject)
    try:
        with translated(dialect), dialect.engine.connect() as connection:
            began = time.time()
            milliseconds = dialect.milliseconds(connection)
            between = began, time.time()
            return ServerReport(
                product=dialect.product,
                version=".".join(map(str, dialect.engine.dialect.server_version_info or ())),
                milliseconds=milliseconds,
                between=between,
                syncs=dialect.syncs(connection),
                synced_by=dialect.synced_by,
                is_replica=dialect.is_replica(connection),
            )
    finally:
        dialect.engine.dispose()
