"""Connections to PostgreSQL: what each is told, which may be used again, and single statements on them."""

import contextlib
import select
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from psycopg.types.string import StrBinaryDumper, StrDumperUnknown

from scheduler_service.persistence.sql import postgres_arrays
from scheduler_service.persistence.sql.dialect import ANSWER_SECONDS
from scheduler_service.ports.errors import StoreError

LOST = (psycopg.OperationalError, psycopg.InterfaceError)
ROLLED_BACK = ("40001", "40P01")
"""By these errors the server says that it has taken a transaction back; 40003 says that it may not have."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed where the server says nothing for `answer_seconds` (None: for ever).

    The kernel, which answers for a server that stands still, notices nothing, and the driver would wait.
    """

    answer_seconds: float | None = ANSWER_SECONDS

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Waits for an answer. Raises OperationalError."""
        if self.answer_seconds is not None:
            gen = _within(self.answer_seconds, gen)
        try:
            return super().wait(gen, *arguments, **options)
        except _Silence:
            self.close()
            raise


class _Silence(psycopg.OperationalError):
    pass


def _within(seconds: float, answer: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The same steps of an answer; the driver sends what is ready, several times a second also nothing."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(answer)
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() > deadline:
                raise _Silence(f"no answer within {seconds:g} s")
            wanted = answer.send(ready)
    except StopIteration as end:
        return end.value


def connect(_: object, __: object, ___: object, given: dict[str, Any]) -> BoundedConnection:
    """A connection by what `given` says (the event `do_connect` of an engine)."""
    return BoundedConnection.connect(**given)


def driver_of(connection: sa.Connection) -> psycopg.Connection[Any]:
    """The driver's own connection."""
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def prepare(raw: Any, _record: object) -> None:
    """What a new connection is told (the event `connect` of a pool)."""
    # Where the driver has a choice, it takes what was registered last.
    raw.adapters.register_dumper(str, _Text)
    raw.adapters.register_dumper(str, _UnknownText)
    postgres_arrays.register(raw.adapters)


def replace_ended(raw: psycopg.Connection[Any], _record: object, _borrowed: object) -> None:
    """Replaces a connection that the server has ended, before it is used (the event `checkout` of a pool).

    A server that ends one says so, or closes it: then there is something to read. What is silent is used
    without asking the server, which would cost as much as a statement.
    """
    if is_silent(raw):
        return
    try:
        raw.execute("")
        raw.rollback()
    except psycopg.Error as error:
        # All older ones are taken for ended, too: most likely the server was restarted.
        raise sa.exc.InvalidatePoolError from error


def is_silent(raw: psycopg.Connection[Any]) -> bool:
    """Whether the server has neither ended the connection nor said anything since it was used."""
    return not raw.closed and not _has_input(raw.fileno())


def roll_back(connection: sa.Connection) -> None:
    """Takes the open transaction back; a broken connection does not return to the pool."""
    if connection.invalidated:  # SQLAlchemy has seen that it is broken
        return
    try:
        driver_of(connection).rollback()
    except psycopg.Error:
        connection.invalidate()


@contextlib.contextmanager
def single_statement(
    connection: sa.Connection, unconfirmed: Callable[[Exception], StoreError]
) -> Iterator[None]:
    """The server opens and commits with the statement: one way to it and back, where there were three.

    Raises `unconfirmed` where the connection was lost before the server said anything.
    """
    raw = driver_of(connection)
    raw.autocommit = True
    try:
        yield
    except LOST as error:
        if error.sqlstate in ROLLED_BACK:
            raise
        raise unconfirmed(error) from error
    finally:
        if raw.closed:
            connection.invalidate()
        else:
            raw.autocommit = False


def _has_input(number: int) -> bool:
    """Whether the file of this number has something to read, its end included."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


class _Text(StrBinaryDumper):
    """A text as PostgreSQL can hold it: the character NUL becomes U+FFFD."""

    def dump(self, obj: str) -> Any:
        return super().dump(_without_nul(obj))


class _UnknownText(StrDumperUnknown):
    """The same for a text whose type the server infers."""

    def dump(self, obj: str) -> Any:
        return super().dump(_without_nul(obj))


def _without_nul(text: str) -> str:
    return text.replace("\0", "\ufffd") if "\0" in text else text
