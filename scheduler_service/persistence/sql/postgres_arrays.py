"""Columns of rows as arrays in PostgreSQL's binary form, which the driver passes on as they are.

The driver's own arrays look at each value for its type, 20 µs a column, and make an array of numbers the
narrowest that fits, so that the server plans one statement for each mixture of types.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.adapt import Dumper
from psycopg.pq import Format

# Oids of the server's catalogue, the same in each version: of the elements and of their array.
BIGINT, BIGINT_ARRAY = 20, 1016
TEXT, TEXT_ARRAY = 25, 1009
BYTEA, BYTEA_ARRAY = 17, 1001
_NULL = struct.pack("!i", -1)
_head = struct.Struct("!iiiii").pack
_length = struct.Struct("!i").pack
_number = struct.Struct("!iq").pack


class BigintArray(bytes):
    """A `bigint[]` as the server reads it."""


class TextArray(bytes):
    """A `text[]` as the server reads it."""


class ByteaArray(bytes):
    """A `bytea[]` as the server reads it."""


Array = BigintArray | TextArray | ByteaArray
ArrayOf = Callable[[Sequence[Any]], Array]


def numbers(values: Sequence[int | None]) -> BigintArray:
    """An array of whole numbers. Raises psycopg.DataError for what is no whole number of 64 bits."""
    try:
        elements = [_NULL if value is None else _number(8, value) for value in values]
    except struct.error as error:
        raise psycopg.DataError(f"a column of whole numbers of 64 bits has another value: {error}") from error
    return BigintArray(_array(BIGINT, elements))


def texts(values: Sequence[str | None]) -> TextArray:
    """An array of texts. The character NUL, which PostgreSQL cannot hold, becomes U+FFFD."""
    return TextArray(_array(TEXT, [_NULL if value is None else _sized(_encode(value)) for value in values]))


def byte_strings(values: Sequence[bytes | None]) -> ByteaArray:
    """An array of byte strings."""
    return ByteaArray(_array(BYTEA, [_NULL if value is None else _sized(value) for value in values]))


def array_of(kind: sa.types.TypeEngine[Any]) -> tuple[str, ArrayOf]:
    """The array of a column's type: its name in SQL, and what makes it of values."""
    if isinstance(kind, sa.Integer):
        return "bigint[]", numbers
    return ("bytea[]", byte_strings) if isinstance(kind, sa.LargeBinary) else ("text[]", texts)


def register(adapters: psycopg.adapt.AdaptersMap) -> None:
    """Lets a connection send these arrays."""
    for kind, dumper in _DUMPERS.items():
        adapters.register_dumper(kind, dumper)


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> bytes:
        return obj


_OIDS: dict[type[Array], int] = {BigintArray: BIGINT_ARRAY, TextArray: TEXT_ARRAY, ByteaArray: BYTEA_ARRAY}
_DUMPERS = {kind: type("ArrayDumper", (_ArrayDumper,), {"oid": oid}) for kind, oid in _OIDS.items()}


def _encode(value: str) -> bytes:
    encoded = value.encode()
    return encoded.replace(b"\0", b"\xef\xbf\xbd") if b"\0" in encoded else encoded


def _sized(value: bytes) -> bytes:
    return _length(len(value)) + value


def _array(element: int, elements: Sequence[bytes]) -> bytes:
    """One dimension that begins at 1. There are elements: a statement without rows is not sent."""
    return _head(1, int(_NULL in elements), element, len(elements), 1) + b"".join(elements)
