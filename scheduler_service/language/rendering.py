"""Renders compiled templates: values are data, and nothing is evaluated twice (SPEC section 4)."""

import re
from collections.abc import Mapping
from typing import final
from urllib.parse import unquote

import msgspec

from scheduler_service.domain.texts import scrub
from scheduler_service.language.compiled import (
    UNREAD,
    ArrayNode,
    Interpolation,
    JsonTemplate,
    ObjectNode,
    Parts,
    Slot,
    Splice,
    TextTemplate,
    UrlTemplate,
)
from scheduler_service.language.expression import Environment, Expression, Name, Query, SecretName, Variable
from scheduler_service.language.json_values import (
    NOT_READ,
    NOT_TEXT,
    as_json,
    as_text,
    find_control,
    parse_json,
)
from scheduler_service.language.jsonpath import NODES_MAX, Missing, Path, Stopped, evaluate
from scheduler_service.language.jsonpath_filters import Budget
from scheduler_service.language.url_places import ValuePlace, encode_value, place_after

RAW = frozenset({ValuePlace.START, ValuePlace.AUTHORITY, ValuePlace.JOINT})
ENCODED = frozenset({ValuePlace.PATH, ValuePlace.QUERY, ValuePlace.FRAGMENT})

CHARACTERS_MAX = 16 << 20
"""How many characters a rendered text may have, or the texts of a body together."""

URL_CHARACTERS_MAX = 65_536
"""How many characters a url may have before its values are encoded: far more than any request may."""

FREE_SPLICES = 16
"""How many `|json` of a body are not measured: measuring a value means encoding it."""

_SEPARATOR = re.compile(r"[/?#]")


class Scope(msgspec.Struct, frozen=True):
    """The values of a template's names, in the order of lookup.

    `system`: the system variables that it names. `root`: the root of JSONPath. `environment`: the tenant's
    variables. `aliases`: `jobId` and `executeNumber`. `budget`: shared by all JSONPaths of the request.
    `has_bytes`: `NOT_TEXT` is among the root's values, or its `responses`; what finds it is Unrenderable.
    `may_be_large`: a body that is made of the values is to be encoded member by member. `secrets`: the places
    of secrets by name; a value never is in a scope.
    """

    system: Mapping[str, object]
    environment: Mapping[str, str]
    root: Mapping[str, object]
    aliases: Mapping[str, object]
    budget: Budget = msgspec.field(default_factory=lambda: Budget(NODES_MAX))
    has_bytes: bool = False
    may_be_large: bool = False
    secrets: Mapping[str, str] = {}


@final
class Unrenderable(msgspec.Struct, frozen=True):
    """A template that cannot be rendered: the expression (without braces) and the reason; never a value."""

    expression: str
    message: str


class Rendered(msgspec.Struct, frozen=True):
    """A rendered body; a `value` of None is JSON's null."""

    value: object


def render_text(template: TextTemplate, scope: Scope) -> str | Unrenderable:
    """A header's value. Unrenderable if an expression finds nothing or has a control character."""
    if template.is_constant:
        return template.text
    text = _interpolate(template.parts, scope, CHARACTERS_MAX)
    if isinstance(text, Unrenderable):
        return text
    return scrub(text) if find_control(text) is None else _uncontrolled(template.parts, scope)


def render_json(template: JsonTemplate, scope: Scope) -> Rendered | Unrenderable:
    """A body. It shares its constant parts with the template: do not change it."""
    if template.is_constant:
        return Rendered(parse_json(template.encoded) if template.node is UNREAD else template.node)
    try:
        return Rendered(_Builder(scope).build(template.node))
    except _Stopped as stopped:
        return stopped.cause


def render_url(template: UrlTemplate, scope: Scope) -> str | Unrenderable:
    """A URL; of a `whole` template the text in the response, which `urls.resolve_whole` checks.

    Unrenderable if an expression finds nothing, or if a value would change the scheme or the authority, or
    make its path segment `.` or `..`.
    """
    if template.is_constant:
        return template.text
    if template.whole:
        return _whole(template.parts[0], scope)
    pieces: list[str] = []
    room = URL_CHARACTERS_MAX
    for part in template.parts:
        piece = part if isinstance(part, str) else _placed(part, scope, pieces, room)
        if isinstance(piece, Unrenderable):
            return piece
        room -= len(piece)
        pieces.append(piece)
    return _changed_depth(template.parts, pieces) or "".join(pieces)


def holds_bytes(value: object, levels: int = 3) -> bool:
    """Whether `NOT_TEXT` is in a value of the root: as deep as a query's array of the root's `responses`."""
    if value is NOT_TEXT or levels == 0:
        return value is NOT_TEXT
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(holds_bytes(one, levels - 1) for one in below)


def _interpolate(parts: Parts, scope: Scope, room: int) -> str | Unrenderable:
    pieces: list[str] = []
    for part in parts:
        piece = part if isinstance(part, str) else _text_of(part, scope)
        if isinstance(piece, Unrenderable):
            return piece
        room -= len(piece)
        if room < 0:
            return _too_large(part)
        pieces.append(piece)
    return "".join(pieces)


def _too_large(part: str | Expression) -> Unrenderable:
    name = part if isinstance(part, str) else part.text
    return Unrenderable(name, f"makes the text longer than {CHARACTERS_MAX} characters")


def _text_of(expression: Expression, scope: Scope) -> str | Unrenderable:
    value = _value_of(expression, scope)
    return value if isinstance(value, Unrenderable) else as_text(value)


def _value_of(expression: Expression, scope: Scope) -> object | Unrenderable:
    if scope.has_bytes:
        value = _value_of(expression, msgspec.structs.replace(scope, has_bytes=False))
        return Unrenderable(expression.text, NOT_READ) if holds_bytes(value) else value
    if isinstance(expression, Query):
        return _found(expression.path, scope.root, expression, scope.budget)
    if isinstance(expression, Name):
        return _looked_up(expression, (scope.root, scope.environment, scope.aliases))
    if isinstance(expression, Environment):
        return _looked_up(expression, (scope.environment,))
    if isinstance(expression, SecretName):
        return _looked_up(expression, (scope.secrets,))
    assert isinstance(expression, Variable)
    value = _looked_up(expression, (scope.system,))
    if expression.path is None or isinstance(value, Unrenderable):
        return value
    return _found(expression.path, {expression.name: value}, expression, scope.budget)


def _looked_up(
    expression: Name | Environment | SecretName | Variable, places: tuple[Mapping[str, object], ...]
) -> object | Unrenderable:
    for place in places:
        if expression.name in place:
            return place[expression.name]
    return Unrenderable(expression.text, "finds nothing of that name")


def _found(
    path: Path, root: Mapping[str, object], expression: Expression, budget: Budget
) -> object | Unrenderable:
    value = evaluate(path, root, budget)
    if type(value) is Missing:
        return Unrenderable(expression.text, "finds nothing")
    return Unrenderable(expression.text, value.message) if type(value) is Stopped else value


def _uncontrolled(parts: Parts, scope: Scope) -> Unrenderable:
    """The error for the expression with a control character; the literal parts have none."""
    expressions = [part for part in parts if not isinstance(part, str)]
    texts = [(one.text, _text_of(one, scope)) for one in expressions]
    name = next(name for name, text in texts if isinstance(text, str) and find_control(text) is not None)
    return Unrenderable(name, "has a control character, which a header may not contain")


class _Stopped(Exception):
    """Ends the rendering of a body with `cause`."""

    def __init__(self, cause: Unrenderable) -> None:
        super().__init__(cause.message)
        self.cause = cause


class _Builder:
    """Builds one body within a size limit, since a template can name one large value many times."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._room = CHARACTERS_MAX
        self._splices = 0

    def build(self, node: object) -> object:
        # By `type`: for another class `isinstance` calls the metaclass of structs, 0.1 µs each.
        if type(node) is Splice:
            return self._spliced(node)
        if type(node) is Interpolation:
            return self._interpolated(node)
        if type(node) is ObjectNode:
            return {key: self.build(item) for key, item in node.entries}
        return [self.build(item) for item in node.items] if type(node) is ArrayNode else node

    def _spliced(self, node: Splice) -> object:
        value = _value_of(node.expression, self._scope)
        if type(value) is Unrenderable:
            raise _Stopped(value)
        self._splices += 1
        if self._splices > FREE_SPLICES:
            self._take(len(as_json(value)), node.expression)
        return value

    def _interpolated(self, node: Interpolation) -> str:
        text = _interpolate(node.parts, self._scope, self._room)
        if isinstance(text, Unrenderable):
            raise _Stopped(text)
        self._room -= len(text)
        return text

    def _take(self, size: int, expression: Expression) -> None:
        self._room -= size
        if self._room < 0:
            raise _Stopped(_too_large(expression))


def _whole(part: str | Slot, scope: Scope) -> str | Unrenderable:
    assert isinstance(part, Slot)
    value = _value_of(part.expression, scope)
    if isinstance(value, (str, Unrenderable)):
        return value
    return Unrenderable(part.expression.text, "is not a text, so it is not a url")


def _placed(slot: Slot, scope: Scope, pieces: list[str], room: int) -> str | Unrenderable:
    """A value as it is written into the url after `pieces`, in which there is room for so many characters."""
    text = _text_of(slot.expression, scope)
    if isinstance(text, Unrenderable):
        return text
    if len(text) > room:
        return Unrenderable(
            slot.expression.text, f"makes the url longer than {URL_CHARACTERS_MAX} characters"
        )
    if slot.place in RAW:
        return text
    place = place_after("".join(pieces), opened=False) if slot.place is ValuePlace.LATER else slot.place
    if place not in ENCODED:
        return Unrenderable(slot.expression.text, "would be in the scheme or the host of the url")
    if isinstance(slot.expression, SecretName) and ValuePlace.QUERY is not place is not slot.place:
        return Unrenderable(slot.expression.text, "would not be in the query of the url")
    return encode_value(text)


def _changed_depth(parts: tuple[str | Slot, ...], pieces: list[str]) -> Unrenderable | None:
    """The error for a value that makes its path segment a dot segment, or by being empty an authority."""
    for index, (part, piece) in enumerate(zip(parts, pieces, strict=True)):
        if isinstance(part, Slot) and part.place not in RAW and piece in ("", ".", ".."):
            before = "".join(pieces[:index])
            if _turns(before, piece + "".join(pieces[index + 1 :])):
                return Unrenderable(
                    part.expression.text, "would change the path of the url: '.', '..' or empty"
                )
    return None


def _turns(before: str, after: str) -> bool:
    if "?" in before or "#" in before:
        return False
    segment = before.rpartition("/")[2] + _SEPARATOR.split(after, maxsplit=1)[0]
    return unquote(segment) in (".", "..") or (segment == "" and before.endswith(":/"))
