"""The errors of a value on the wire, all reported at once."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MAY_BE_TEXT = ("timer", "checkUrl")
"""The members of a definition that are an object or a string that holds one."""


class Problem(NamedTuple):
    """One error: its place (RFC 6901), its stable code, and a message."""

    pointer: str
    code: str
    message: str


class ModelError(ValueError):
    """A value that does not have the wire format; `problems` holds each error once, never empty."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(
            "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in self.problems)
        )


def write_pointer(path: Iterable[str | int]) -> str:
    """The JSON Pointer of `path`, as in `/request/0/headers/X~1Y` (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def point_to_posted(pointer: str, definition: Mapping[str, object]) -> str:
    """`pointer`, into a definition as it is read, as one into `definition` as it was posted (RFC 6901).

    A string has no members: an error inside it is located at the string.
    """
    texts = [f"/{name}" for name in MAY_BE_TEXT if isinstance(definition.get(name), str)]
    return next((text for text in texts if pointer.startswith(f"{text}/")), pointer)
