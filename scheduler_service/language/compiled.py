"""What templates are compiled to: frozen values that `rendering` puts together."""

from typing import final

import msgspec

from scheduler_service.language.expression import Expression
from scheduler_service.language.places import Place

Parts = tuple[str | Expression, ...]


class Slot(msgspec.Struct, frozen=True):
    """An expression in a URL and where it stands."""

    expression: Expression
    place: Place


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """What all templates tell about themselves.

    `variables`: the system variables that it uses. `members`: the first members of the root that it may
    read, `*` among them where that may be any. `is_constant`: there is no expression in it.
    """

    variables: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    is_constant: bool = False


class TextTemplate(Template, frozen=True, kw_only=True):
    """A text; `text` is the whole of a constant one."""

    parts: Parts
    text: str = ""


class UrlTemplate(Template, frozen=True, kw_only=True):
    """A URL; `text` is the whole of a constant one.

    `whole`: it is one expression and takes a whole URL from the response `source` (a name, an index into
    `responses`, None for the latest, `trigger` for the parameters), to be judged by `urls.resolve_whole`.
    """

    parts: tuple[str | Slot, ...]
    text: str = ""
    whole: bool = False
    source: str | int | None = None


@final
class Splice(msgspec.Struct, frozen=True):
    """`"${…}|json"`: the value itself."""

    expression: Expression


@final
class Interpolation(msgspec.Struct, frozen=True):
    """A string with expressions in it."""

    parts: Parts


@final
class ObjectNode(msgspec.Struct, frozen=True):
    """An object with a template somewhere below it."""

    entries: tuple[tuple[str, object], ...]


@final
class ArrayNode(msgspec.Struct, frozen=True):
    """An array with a template somewhere below it."""

    items: tuple[object, ...]


class JsonTemplate(Template, frozen=True, kw_only=True, gc=False):
    """A JSON value, with nodes where there are templates; `encoded` is the JSON of a constant one."""

    node: object
    encoded: bytes = b""
