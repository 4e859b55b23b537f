"""The position in a list where a page ended, as an opaque text that is safe in a URL."""

import base64
from typing import Annotated, TypeVar

import msgspec

from scheduler_service.domain.errors import PunctualError

# Databases take 64 bits; no list has a larger number.
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Kind = TypeVar("Kind")


class CursorError(PunctualError):
    """A cursor that this list has not returned."""


def write_cursor(position: object) -> str:
    """`position` (a struct or tuple of texts and numbers) as a cursor."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(position)).decode("ascii").rstrip("=")


def read_cursor(cursor: str, kind: type[Kind]) -> Kind:
    """The position that `cursor` names, of the type that the list writes. Raises CursorError."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(text, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CursorError(
            f"{cursor[:80]!r} is not a cursor of this list; begin again without a cursor"
        ) from error
