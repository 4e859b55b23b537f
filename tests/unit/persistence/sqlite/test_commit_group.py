"""A group of writes comes to the same as its writes one after the other."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.persistence.sqlite.commit_group import (
    BatchKey,
    CommitGroup,
    ConfirmedBatches,
    Forget,
    Write,
)
from scheduler_service.persistence.sqlite.row_versions import RowVersions
from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.state import StateStore
from tests.unit.persistence.generated_writes import writes
from tests.unit.persistence.samples import commit

TABLES = ("jobs", "definitions", "deliveries", "unwritten", "remembered", "meta")


@contextmanager
def databases() -> Iterator[tuple["Database", "Database"]]:
    """Two empty databases in memory."""
    with closing(Database()) as one, closing(Database()) as other:
        yield one, other


class Database:
    """A state in memory with what its writer knows of it."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        upgrade(self._connection, place=":memory:")
        self._dialect = SqliteDialect.over(self._connection, subject="a test")
        self._statements = self._dialect.engine.connect()
        self._confirmed: set[BatchKey] = set()
        self._row_versions = RowVersions()

    def close(self) -> None:
        """Forgets all."""
        self._statements.close()
        self._connection.close()

    def put(self, group: Sequence[Write]) -> list[object]:
        """Writes one group; a refusal is returned by its type."""
        self._connection.execute("BEGIN")
        sums = CommitGroup(
            connection=self._connection,
            statements=self._statements,
            dialect=self._dialect,
            confirmed=self._confirmed,
            row_versions=self._row_versions,
            writes=group,
        )
        verdicts = [sums.take(write) for write in group]
        sums.flush()
        self._connection.execute("COMMIT")
        sums.settle()
        return [type(verdict) if isinstance(verdict, Exception) else verdict for verdict in verdicts]

    def read_all(self) -> dict[str, list[Any]]:
        """Every row of the tables, once the records that the history has are gone."""
        self.put([ConfirmedBatches((), at_once=True)])
        return {table: sorted(self._read(table), key=repr) for table in TABLES}

    def _read(self, table: str) -> Iterator[Any]:
        return self._connection.execute(f"SELECT * FROM {table}")


def compare(before: Sequence[Write], together: Sequence[Write]) -> None:
    """Writes `together` as one group and one by one, over the same start."""
    with databases() as (grouped, single):
        for database in (grouped, single):
            for write in before:
                database.put([write])
        answers = grouped.put(together)
        assert answers == [verdict for write in together for verdict in single.put([write])]
        assert grouped.read_all() == single.read_all()


befores, groups = st.lists(writes, max_size=6), st.lists(writes, max_size=12)


@settings(deadline=None, max_examples=100)
@given(before=befores, together=groups)
def test_a_group_is_its_writes_one_after_the_other(before: list[Write], together: list[Write]) -> None:
    """Grouping changes neither an answer nor what is kept."""
    compare(before, together)


@pytest.mark.long
@settings(deadline=None, max_examples=3_000)
@given(before=befores, together=groups)
def test_many_groups_are_their_writes_one_after_the_other(before: list[Write], together: list[Write]) -> None:
    """The same, over so many groups that rare meetings are among them."""
    compare(before, together)


def definer(job_id: str, **changes: Any) -> Write:
    return commit(job_id, uid="u", definition=b"{}", **changes)


LAST = {"uid": "u", "state": JobState.DESTROYED, "document": None}


@pytest.mark.parametrize(
    ("before", "together"),
    [
        ([definer("b")], [definer("a"), commit("a", expected=1, **LAST), Forget("a")]),
        (
            [definer("b"), definer("a")],
            [definer("b", expected=1), commit("b", expected=2, **LAST), Forget("b")],
        ),
    ],
)
def test_what_is_forgotten_has_replaced_what_stood_there(before: list[Write], together: list[Write]) -> None:
    """A definition of the group takes the place of one in the file, and is gone with its job.

    Found where two jobs share a uid, which hosts do not give: the sum is exact all the same.
    """
    compare(before, together)


def test_the_store_is_what_its_ports_say() -> None:
    """The types fit, so that any other implementation may replace it."""

    def stand_in(store: SqliteStateStore) -> tuple[StateStore, Catalogue]:
        return store, store.catalogue

    assert callable(stand_in)
