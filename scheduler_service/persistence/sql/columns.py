"""Types of columns that compare and sort alike in every database."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def text(length: int) -> sa.types.TypeEngine[str]:
    """A text in the order of its bytes and of any length, as SQLite has it, whatever the server's locale."""
    return sa.String(length).with_variant(postgresql.VARCHAR(collation="C"), "postgresql")


def bounded_text(length: int) -> sa.types.TypeEngine[str]:
    """The same, of at most `length` characters where the database checks that."""
    return sa.String(length).with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")
