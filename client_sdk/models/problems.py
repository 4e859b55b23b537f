"""What is wrong with a value on the wire: one error, with everything that is wrong in it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MAY_BE_TEXT = ("timer", "checkUrl")
"""The members of a definition that are an object, or a text that stands for one."""


class Problem(NamedTuple):
    """One thing that is wrong: where (`pointer`, RFC 6901), what (`code`, stable), and in words."""

    pointer: str
    code: str
    message: str


class ModelError(ValueError):
    """A value that is not of the wire format; `problems` holds all that is wrong with it, never empty."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in self.problems)
        )


def write_pointer(path: Iterable[str | int]) -> str:
    """The JSON Pointer of `path`, as in `/request/0/headers/X~1Y` (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def point_to_posted(pointer: str, definition: Mapping[str, object]) -> str:
    """`pointer`, into a definition as it is read, as one into `definition` as it was posted (RFC 6901).

    What was given as a text has no members: all that is wrong in it is wrong with the text.
    """
    texts = [f"/{name}" for name in MAY_BE_TEXT if isinstance(definition.get(name), str)]
    return next((text for text in texts if pointer.startswith(f"{text}/")), pointer)
