"""Where two JSON values differ, member by member."""

from collections.abc import Iterator

import msgspec

from client_sdk.models import write_pointer

Path = tuple[str | int, ...]


class Difference(msgspec.Struct, frozen=True):
    """One place (RFC 6901) at which `declared` and `stored` differ; `None` is null or an absent member."""

    pointer: str
    declared: object
    stored: object


def find_differences(declared: object, stored: object, path: Path = ()) -> Iterator[Difference]:
    """The innermost differences, in the order of the declared members."""
    if isinstance(declared, dict) and isinstance(stored, dict):
        for name in [*declared, *(name for name in stored if name not in declared)]:
            yield from _find_member(declared, stored, name, (*path, str(name)))
    elif isinstance(declared, list) and isinstance(stored, list) and len(declared) == len(stored):
        for index, (mine, theirs) in enumerate(zip(declared, stored, strict=True)):
            yield from find_differences(mine, theirs, (*path, index))
    elif not _is_same(declared, stored):
        yield Difference(write_pointer(path), declared, stored)


def _find_member(
    declared: dict[object, object], stored: dict[object, object], name: object, path: Path
) -> Iterator[Difference]:
    if name in declared and name in stored:
        yield from find_differences(declared[name], stored[name], path)
    else:
        yield Difference(write_pointer(path), declared.get(name), stored.get(name))


def _is_same(mine: object, theirs: object) -> bool:
    """Equality of JSON values: 1 equals 1.0, true does not."""
    return mine == theirs and isinstance(mine, bool) == isinstance(theirs, bool)
