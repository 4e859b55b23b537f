"""What a database is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa


@contextmanager
def heard(engine: sa.Engine) -> Iterator[list[tuple[str, Any]]]:
    """Each statement of `engine` with its values, in their order, while this is open."""
    found: list[tuple[str, Any]] = []

    def hear(_: object, __: object, text: str, values: object, *rest: object) -> None:
        found.append((text, values))

    sa.event.listen(engine, "before_cursor_execute", hear)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", hear)
