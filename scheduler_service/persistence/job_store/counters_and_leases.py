"""Counters and leases by name: the statements for the table `marks`.

Whoever has written a row keeps the others from it to the end of the transaction.
"""

import sqlalchemy as sa

from scheduler_service.persistence.job_store.job_store_schema import marks
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import GuardedUpsert, Upsert, overwrite
from scheduler_service.ports.errors import StoreLocked, StoreUnavailable

EPOCH, PLACEMENT, SERVICE = "epoch", "placement", "service"
ALONE, CLUSTER = "alone", "cluster"
_OTHERS = {
    ALONE: "the database has the jobs of a service that is alone (store.url): start that one, without "
    "--runtime dapr, or name another database",
    CLUSTER: "the database has the jobs of a cluster: start its nodes, with --runtime dapr, or name another "
    "database in store.url",
}
_COLUMNS, _KEY = ("name", "value", "holder", "until"), ("name",)
_ADD = Upsert(marks, _COLUMNS, _KEY)
_COUNT = Upsert(marks, _COLUMNS, _KEY, (("value", "marks.value + 1"),))
_SET = Upsert(marks, _COLUMNS, _KEY, overwrite("value"))
_SET_HOLDER = Upsert(marks, _COLUMNS, _KEY, overwrite("holder"))
_RENEW = Upsert(marks, _COLUMNS, _KEY, overwrite("until"))
_LEASE = GuardedUpsert(
    marks, _COLUMNS, ("now",), guard="marks.holder = given.holder OR marks.until < given.now"
)
_IS_IT = marks.c.name == sa.bindparam("mark")
_VALUE, _HOLDER = (sa.select(column).where(_IS_IT) for column in (marks.c.value, marks.c.holder))
_COUNT_WANTED = (
    sa.update(marks).where(_IS_IT, marks.c.until >= sa.bindparam("now")).values(value=marks.c.value + 1)
)


def count(connection: sa.Connection, dialect: Dialect, mark: str) -> int:
    """The next number of a counter, 1 at first."""
    dialect.insert_many(connection, _COUNT, [(mark, 1, "", 0)])
    return read_number(connection, mark)


def count_wanted(connection: sa.Connection, mark: str, now: int) -> int | None:
    """The next number of a counter; None where it is there for nobody at `now`."""
    is_wanted = connection.execute(_COUNT_WANTED, {"mark": mark, "now": now}).rowcount
    return read_number(connection, mark) if is_wanted else None


def read_number(connection: sa.Connection, mark: str) -> int:
    """The latest number of a counter, 0 where there is none."""
    return int(connection.execute(_VALUE, {"mark": mark}).scalar() or 0)


def renew(connection: sa.Connection, dialect: Dialect, mark: str, until: int, first: int = 0) -> None:
    """Sets until when a mark holds; one that is not there yet gets the number `first`."""
    dialect.insert_many(connection, _RENEW, [(mark, first, "", until)])


def set_number(connection: sa.Connection, dialect: Dialect, mark: str, value: int) -> None:
    """Sets a counter."""
    dialect.insert_many(connection, _SET, [(mark, value, "", 0)])


def set_holder(connection: sa.Connection, dialect: Dialect, mark: str, holder: str) -> None:
    """Sets the holder of a mark, whoever it was."""
    dialect.insert_many(connection, _SET_HOLDER, [(mark, 0, holder, 0)])


def keep_holder(connection: sa.Connection, dialect: Dialect, mark: str, holder: str) -> str:
    """The holder of a mark, which is the one that was named first."""
    dialect.insert_many(connection, _ADD, [(mark, 0, holder, 0)])
    return str(connection.execute(_HOLDER, {"mark": mark}).scalar_one())


def count_start(connection: sa.Connection, dialect: Dialect, placement: str) -> int:
    """The number of a start of a service that is ALONE or of a node of a CLUSTER: above all before.

    The first one says whose jobs are in the database. Raises StoreLocked where they are of the other kind.
    """
    check_placement(connection, placement)
    if (found := keep_holder(connection, dialect, PLACEMENT, placement)) != placement:
        raise StoreLocked(_OTHERS[found])
    return count(connection, dialect, EPOCH)


def check_placement(connection: sa.Connection, placement: str) -> None:
    """Raises StoreLocked where the database has jobs of the other kind."""
    found = connection.execute(_HOLDER, {"mark": PLACEMENT}).scalar()
    if found is None:
        found = CLUSTER if read_number(connection, EPOCH) else placement  # 0.1.0 had none but clusters
    if found != placement:
        raise StoreLocked(_OTHERS[found])


def check_service(connection: sa.Connection, service: int) -> None:
    """Raises StoreUnavailable where another service has had the database since this one."""
    if read_number(connection, SERVICE) != service:
        raise StoreUnavailable("another service has the jobs: this one does nothing more", is_public=True)


def lease(connection: sa.Connection, dialect: Dialect, mark: str, holder: str, now: int, until: int) -> bool:
    """Whether `holder` has the mark until then: it had it, or nobody has it at `now`."""
    return bool(dialect.write_guarded(connection, _LEASE, [(mark, 0, holder, until, now)]))
