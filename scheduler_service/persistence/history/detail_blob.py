"""The records of an execution that no list searches, encoded as one value in MessagePack."""

from collections.abc import Iterable, Sequence

import msgspec

from scheduler_service.domain.records import Detail


class DetailBlob(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record with its place: the turn's `sequence`, and its `ordinal` in that turn."""

    sequence: int
    ordinal: int
    record: Detail


Entry = tuple[int, int, Detail]
"""The values of a `DetailBlob`, encoded alike; one is made for each record, in a third of the time."""

_DECODER = msgspec.msgpack.Decoder(list[DetailBlob])
_ENCODER = msgspec.msgpack.Encoder()


def encode_entries(entries: Sequence[Entry]) -> bytearray:
    """`entries` as one value for the table."""
    value = bytearray()
    _ENCODER.encode_into(entries, value)
    return value


def decode_entries(payloads: Iterable[bytes]) -> list[Detail]:
    """The records of one execution in the order of its turns, each once however often it was written."""
    found: dict[tuple[int, int], Detail] = {}
    for payload in payloads:
        for entry in _DECODER.decode(payload):
            found.setdefault((entry.sequence, entry.ordinal), entry.record)
    return [found[place] for place in sorted(found)]
