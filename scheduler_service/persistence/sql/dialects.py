"""Which SQL databases there are, by the scheme of their address.

A further one is a file beside `sqlite` and `postgres` with a `Dialect` and its way of writing what
`expressions` names, and a line here. It needs ON CONFLICT, RETURNING and comparisons of rows.
"""

from scheduler_service import how_to_install
from scheduler_service.persistence.sql.dialect import Dialect, Durability
from scheduler_service.ports.errors import StoreUnavailable


def open_dialect(url: str, *, subject: str, durability: Durability = "full") -> Dialect:
    """The dialect of `url`; `subject` names what is kept there in messages. Raises StoreUnavailable.

    In a file a commit with `full` outlives a power loss, with `process` a killed process; a server has
    settings of its own.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from scheduler_service.persistence.sql.sqlite import SqliteDialect

        return SqliteDialect(url=url, subject=subject, durability=durability)
    if scheme == "postgresql":
        try:
            from scheduler_service.persistence.sql.postgres import PostgresDialect
        except ModuleNotFoundError as error:
            raise StoreUnavailable(
                f"{subject} in PostgreSQL needs the package {error.name}; "
                f"{how_to_install('service', 'postgres')}"
            ) from error
        return PostgresDialect(url=url, subject=subject)
    raise StoreUnavailable(
        f"{subject} cannot be kept in {scheme!r}; use sqlite:///PATH or postgresql://USER@HOST/NAME"
    )
