"""Texts one after the other, each behind its length: so the scripts give and take lists."""

from collections.abc import Iterable

_LENGTH = 4  # bytes


def frame(texts: Iterable[bytes]) -> bytes:
    """`texts` as one."""
    return b"".join([part for text in texts for part in (len(text).to_bytes(_LENGTH, "big"), text)])


def unframe(data: bytes) -> list[bytes]:
    """The texts again."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        begin = at + _LENGTH
        at = begin + int.from_bytes(data[at:begin], "big")
        found.append(data[begin:at])
    return found
