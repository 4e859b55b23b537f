"""A cursor belongs to one list, under the filters with which it was made."""

import pytest

from scheduler_service.persistence.common.pagination import (
    LABELS_BYTES,
    CursorError,
    cut_page,
    mark_list,
    read_cursor,
    write_cursor,
)
from scheduler_service.ports.catalogue import JobQuery
from tests.unit.persistence.samples import entry


def test_a_cursor_is_read_by_its_own_list_alone() -> None:
    """Neither by another list, nor by the same one of another owner; it is short."""
    mark = mark_list("held", "default", "work")
    cursor = write_cursor(mark, "part")
    assert read_cursor(mark, cursor, str) == "part"
    for other in (mark_list("queues", "default", "work"), mark_list("held", "default", "other")):
        with pytest.raises(CursorError, match="keep the filters"):
            read_cursor(other, cursor, str)
    assert len(cursor) <= len(write_cursor("held", "part")) + 8


def test_a_position_of_another_form_is_refused() -> None:
    """Also with the right mark, and what an earlier version wrote."""
    mark = mark_list("held", "default", "work")
    for cursor in (write_cursor(mark, 1), write_cursor(mark, ("a", 1)), "oXA", "AAAA", "x", "%"):
        with pytest.raises(CursorError, match="not a cursor of this list"):
            read_cursor(mark, cursor, str)


def test_a_page_that_ends_by_its_labels_goes_on() -> None:
    """The store counts the two bytes of no labels: what it read to its end is no end of the list."""
    labels = {"k": "x" * (LABELS_BYTES - len('{"k":""}') - 2)}
    entries = [entry("a", labels={}), entry("b", labels=labels)]
    assert cut_page(JobQuery(limit=9), entries).next_cursor is not None
    assert cut_page(JobQuery(limit=9), entries[:1]).next_cursor is None
