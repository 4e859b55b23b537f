"""Compiles templates, and checks all that can be known of a text, a URL or a body before it is rendered."""

from collections.abc import Iterable, Sequence
from typing import Any

from client_sdk.models.parse import write_pointer
from scheduler_service.domain.errors import DefinitionError, ExpressionError, Problem
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
from scheduler_service.language.expression import (
    EXPRESSIONS_MAX,
    FEEDBACK_URLS,
    NOT_HERE,
    Environment,
    Expression,
    Found,
    Name,
    Names,
    Overspent,
    Query,
    SecretName,
    Variable,
    scan,
)
from scheduler_service.language.json_values import DEPTH_MAX, LARGE_BYTES, as_json, find_control, is_shallow
from scheduler_service.language.url_places import (
    ValuePlace,
    check_start,
    close_escape,
    encode_literal,
    place_after,
)

PROBLEMS_MAX = 100
OPENING = b"${"


def compile_text(text: str, *, names: Names) -> TextTemplate:
    """A header's value or a `serviceName`.

    Raises ExpressionError: bad syntax, unknown system variable, `|json`, a control character.
    """
    _check_control(text, "a header")
    parts = _plain(_pieces(text, "a header", names))
    used = _expressions(parts)
    return TextTemplate(
        parts=parts,
        text=_constant(parts),
        **_reads(used),
        is_constant=not used,
    )


def compile_json(value: object, *, names: Names) -> JsonTemplate:
    """A body: templates in strings at any depth, keys excluded.

    Raises DefinitionError with a problem for each wrong string, at most 100, with pointers relative to the
    value; Overspent when the allowance is used up.
    """
    encoded = as_json(value)
    if OPENING not in encoded and is_shallow(value, encoded.count(b"[") + encoded.count(b"{")):
        return _constant_json(value, encoded)
    body = _BodyCompiler(names)
    node = body.node(value, (), 0)
    if body.problems:
        raise DefinitionError(body.problems)
    used = body.used
    if not used:
        return constant_json(node)
    return JsonTemplate(
        node=node,
        **_reads(used),
        size=len(encoded),
    )


def constant_json(value: object) -> JsonTemplate:
    """A body in which no string contains a template, as the caller has checked."""
    return _constant_json(value, as_json(value))


def _constant_json(value: object, encoded: bytes) -> JsonTemplate:
    """A large value is kept as text alone, which takes a tenth of the memory of a million small values."""
    node = value if len(encoded) <= LARGE_BYTES else UNREAD
    return JsonTemplate(node=node, encoded=encoded, is_constant=True)


def compile_url(text: str, *, names: Names) -> UrlTemplate:
    """A `url` or `checkUrl`.

    Raises ExpressionError: bad syntax, `|json`, an unknown scheme (SPEC section 9), or a value in a place
    where it could change the scheme or the host.
    """
    _check_control(text, "a url")
    pieces = _pieces(text, "a url", names)
    if _is_whole(pieces, names):
        return _whole(pieces[0], names)
    parts = _placed_parts(pieces, names)
    used = [part.expression for part in parts if isinstance(part, Slot)]
    return UrlTemplate(
        parts=parts,
        text=_constant(parts),
        **_reads(used),
        is_constant=not used,
    )


def _check_control(text: str, place: str) -> None:
    column = find_control(text)
    if column is not None:
        raise ExpressionError(f"{place} cannot contain a control character", column=column)


def _pieces(text: str, place: str, names: Names) -> list[str | Found]:
    pieces = list(scan(text, names=names))
    for piece in pieces:
        if isinstance(piece, Found) and piece.json:
            message = f"|json makes JSON, which {place} cannot contain; write ${{{piece.expression.text}}}"
            raise ExpressionError(message, column=piece.column)
    return pieces


def _plain(pieces: list[str | Found]) -> Parts:
    return tuple(piece if isinstance(piece, str) else piece.expression for piece in pieces)


def _constant(parts: Iterable[object]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def _expressions(parts: Parts) -> list[Expression]:
    return [part for part in parts if not isinstance(part, str)]


def _reads(expressions: Sequence[Expression]) -> dict[str, Any]:
    """What a template with these expressions reads."""
    paths = [one.path for one in expressions if isinstance(one, Query | Variable)]
    names = frozenset(one.name for one in expressions if isinstance(one, Name))
    return {
        "variables": frozenset(one.name for one in expressions if isinstance(one, Variable)),
        "members": names.union(*(one.path.members for one in expressions if isinstance(one, Query))),
        "searches": tuple(path for path in paths if path is not None and not path.singular),
        "secrets": frozenset(one.name for one in expressions if isinstance(one, SecretName)),
    }


Path = tuple[Any, ...]
"""The path of the container, and the key in it; empty: the body itself."""
NODES = frozenset((Splice, Interpolation, ObjectNode, ArrayNode))


class _BodyCompiler:
    """Compiles a body; `problems` and `used`, the expressions, are those found so far."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.problems: list[Problem] = []
        self.used: list[Expression] = []

    def node(self, value: object, path: Path, depth: int) -> object:
        """The value itself if it is constant, else a node."""
        if not isinstance(value, (str, dict, list)):
            return value
        if isinstance(value, str):
            return self._text(value, path) if "${" in value else value
        if depth >= DEPTH_MAX:
            pointer = _pointer(path)
            self.problems.append(Problem(pointer, "too_deep", f"the body nests deeper than {DEPTH_MAX}"))
            return None
        if isinstance(value, dict):
            return self._object(value, path, depth + 1)
        return self._array(value, path, depth + 1)

    def _object(self, value: dict[str, object], path: Path, depth: int) -> object:
        nodes = {key: self.node(item, (path, key), depth) for key, item in value.items()}
        return ObjectNode(tuple(nodes.items())) if _has_nodes(nodes.values()) else nodes

    def _array(self, value: list[object], path: Path, depth: int) -> object:
        items = [self.node(item, (path, index), depth) for index, item in enumerate(value)]
        return ArrayNode(tuple(items)) if _has_nodes(items) else items

    def _text(self, text: str, path: Path) -> object:
        if len(self.used) > EXPRESSIONS_MAX or len(self.problems) >= PROBLEMS_MAX:
            return text
        pointer = _pointer(path)
        try:
            pieces = list(scan(text, names=self.names))
            _check_json(pieces)
        except Overspent:
            raise
        except ExpressionError as error:
            self.problems.append(error.as_problem(pointer))
            return None
        parts = _plain(pieces)
        used = _expressions(parts)
        self.used.extend(used)
        if len(self.used) > EXPRESSIONS_MAX:
            message = f"the body has more than {EXPRESSIONS_MAX} expressions; splice larger values with |json"
            self.problems.append(Problem(pointer, "too_many", message))
        if not used:
            return _constant(parts)
        return Splice(used[0]) if _is_json(pieces[0]) else Interpolation(parts)


def _check_json(pieces: list[str | Found]) -> None:
    marked = [piece for piece in pieces if isinstance(piece, Found) and piece.json]
    if len(marked) > 1:
        message = "a value can have one |json; make each one a member of its own"
        raise ExpressionError(message, column=marked[1].column)
    if marked and isinstance(marked[0].expression, SecretName):
        message = f"a secret is a text; write ${{{marked[0].expression.text}}} without |json"
        raise ExpressionError(message, column=marked[0].column)
    if marked and len(pieces) > 1:
        message = f"${{{marked[0].expression.text}}}|json must be alone; remove |json or the rest"
        raise ExpressionError(message, column=marked[0].column)


def _is_json(piece: str | Found) -> bool:
    return isinstance(piece, Found) and piece.json


def _has_nodes(values: Iterable[object]) -> bool:
    return not NODES.isdisjoint(map(type, values))


def _pointer(path: Path) -> str:
    """Made only where there is something to say: a body may have half a million values."""
    keys: list[str | int] = []
    while path:
        path, key = path
        keys.append(key)
    return write_pointer(reversed(keys))


def _is_whole(pieces: list[str | Found], names: Names) -> bool:
    if len(pieces) != 1 or not isinstance(pieces[0], Found):
        return False
    expression = pieces[0].expression
    if isinstance(expression, Name):
        return expression.name not in names.environment
    return isinstance(expression, Query)


def _whole(piece: str | Found, names: Names) -> UrlTemplate:
    assert isinstance(piece, Found)
    expression = piece.expression
    if isinstance(expression, Query) and not expression.path.singular:
        message = f"${{{expression.text}}} finds a list, and a url is one text; write a path to one value"
        raise ExpressionError(message, column=piece.column)
    return UrlTemplate(
        parts=(Slot(expression, ValuePlace.START),),
        members=_reads([expression])["members"],
        whole=True,
        source=_source(expression, names),
    )


def _source(expression: Expression, names: Names) -> str | int | None:
    steps = expression.path.steps if isinstance(expression, Query) else (getattr(expression, "name", None),)
    first = steps[0] if steps else None
    if first == "responses":
        index = steps[1] if len(steps) > 1 else None
        return index if isinstance(index, int) and index != -1 else None
    return first if isinstance(first, str) and first in (*names.resp_env_names, "trigger") else None


def _placed_parts(pieces: list[str | Found], names: Names) -> tuple[str | Slot, ...]:
    parts: list[str | Slot] = []
    prefix = ""
    opened = bool(pieces) and isinstance(pieces[0], Found)
    for index, piece in enumerate(pieces):
        if isinstance(piece, str):
            literal = encode_literal(piece, prefix, opened=opened)
            is_last = index == len(pieces) - 1
            parts.append(literal if is_last else close_escape(literal))
            prefix += piece
        else:
            parts.append(_slot(piece, place_after(prefix, opened=opened), "?" in prefix, names))
            prefix += "x"
    if not opened:
        check_start(prefix, offered=names.schemes)
    return tuple(parts)


def _slot(piece: Found, place: ValuePlace, is_behind_mark: bool, names: Names) -> Slot:
    """`is_behind_mark`: a `?` stands before the expression."""
    expression = piece.expression
    if isinstance(expression, SecretName):
        is_in_query = place is ValuePlace.QUERY or (place is ValuePlace.LATER and is_behind_mark)
        if is_in_query or (place is ValuePlace.PATH and names.secret_paths):
            return Slot(expression, place)
        raise ExpressionError(f"${{{expression.text}}}: {NOT_HERE}", column=piece.column)
    if place in (ValuePlace.PATH, ValuePlace.QUERY, ValuePlace.FRAGMENT, ValuePlace.LATER):
        return Slot(expression, place)
    if isinstance(expression, Name) and expression.name in names.environment:
        return Slot(Environment(expression.text, expression.name), place)
    if place is ValuePlace.JOINT:
        return Slot(expression, ValuePlace.LATER)
    if (
        place is not ValuePlace.SCHEME
        and isinstance(expression, Variable)
        and expression.text in FEEDBACK_URLS
    ):
        return Slot(expression, place)
    message = f"${{{expression.text}}} cannot be in the {place} of a url"
    if isinstance(expression, Name):
        message += f": the environment has no variable {expression.name}"
    message += (
        "; only a variable of the environment and schedulingFeedbackUrl can, so that no response decides"
        " where a request goes"
    )
    raise ExpressionError(message, column=piece.column)
