"""Compiled templates: frozen values that `rendering` renders."""

from typing import final

import msgspec

from scheduler_service.language.expression import Expression
from scheduler_service.language.jsonpath import Path
from scheduler_service.language.url_places import ValuePlace

Parts = tuple[str | Expression, ...]


class Slot(msgspec.Struct, frozen=True):
    """An expression in a URL, and its place."""

    expression: Expression
    place: ValuePlace


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """What all templates have in common.

    `variables`: the system variables that it uses. `members`: the first members of the root that it may
    read; `*`: any. `searches`: its paths that search. `secrets`: the names of its secrets. `is_constant`: it
    has no expression.
    """

    variables: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    searches: tuple[Path, ...] = ()
    secrets: frozenset[str] = frozenset()
    is_constant: bool = False


class TextTemplate(Template, frozen=True, kw_only=True):
    """A text; `text` is that of a constant one."""

    parts: Parts
    text: str = ""


class UrlTemplate(Template, frozen=True, kw_only=True):
    """A URL; `text` is that of a constant one.

    `whole`: it is one expression and takes a whole URL from the response `source` (a name, an index into
    `responses`, None for the latest, `trigger` for the parameters), which `urls.resolve_whole` checks.
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
    """An object that contains a template."""

    entries: tuple[tuple[str, object], ...]


@final
class ArrayNode(msgspec.Struct, frozen=True):
    """An array that contains a template."""

    items: tuple[object, ...]


UNREAD = msgspec.UNSET
"""The node of a large constant body: its value is in its JSON."""


class JsonTemplate(Template, frozen=True, kw_only=True, gc=False):
    """A JSON value, with nodes in place of templates; `encoded` is the JSON of a constant one.

    `size`: the bytes of the JSON of one that is not constant.
    """

    node: object
    encoded: bytes = b""
    size: int = 0
