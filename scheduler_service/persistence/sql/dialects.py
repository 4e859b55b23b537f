"""Which SQL databases there are, by the scheme of their address.

A further one is a file beside `sqlite`, `postgres` and `mysql` with a `Dialect` and its way of writing what
`expressions` names, and a line here.
"""

from collections.abc import Callable

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

        return SqliteDialect.open(url=url, subject=subject, durability=durability)
    if scheme in ("postgresql", "mysql", "mariadb"):
        try:
            return _server(scheme)(url=url, subject=subject)
        except ModuleNotFoundError as error:
            extra = "postgres" if scheme == "postgresql" else "mysql"
            raise StoreUnavailable(
                f"{subject} in {scheme}:// needs the package {error.name}; {how_to_install('service', extra)}"
            ) from error
    raise StoreUnavailable(
        f"{subject} cannot be kept in {scheme!r}; use sqlite:///PATH, postgresql://USER@HOST/NAME or "
        "mysql://USER@HOST/NAME"
    )


def _server(scheme: str) -> Callable[..., Dialect]:
    if scheme == "postgresql":
        from scheduler_service.persistence.sql.postgres import PostgresDialect

        return PostgresDialect
    from scheduler_service.persistence.sql.mysql import MysqlDialect

    return MysqlDialect
