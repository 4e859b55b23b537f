"""The records of an execution that no list searches, encoded as one value in MessagePack."""

from collections.abc import Sequence

import msgspec

from scheduler_service.domain.records import Detail

Entry = tuple[int, int, Detail]
"""The `sequence` of a record's turn, its `ordinal` in that turn, and the record."""

_ENCODER = msgspec.msgpack.Encoder()


def encode_entries(entries: Sequence[Entry]) -> bytearray:
    """`entries` as one value for the table."""
    value = bytearray()
    _ENCODER.encode_into(entries, value)
    return value
