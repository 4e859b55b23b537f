"""JSONPath (RFC 9535): parsed by a library, evaluated here within limits, so that no input can hang."""

import re
from collections.abc import Sequence
from itertools import accumulate
from re import Pattern
from typing import final

import msgspec
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathQuery, JSONPathSyntaxError
from jsonpath_rfc9535.lex import RE_PROPERTY, Lexer
from jsonpath_rfc9535.selectors import IndexSelector, NameSelector
from jsonpath_rfc9535.tokens import Token, TokenStream, TokenType

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.json_values import NOT_READ, NOT_TEXT, Unreadable, as_json
from scheduler_service.language.jsonpath_filters import DEPTH_MAX, Budget, Exhausted
from scheduler_service.language.jsonpath_selection import Selection, plan

CHARACTERS_MAX = 1_100
"""How many characters a path may have."""

OPERATORS_MAX = 100
"""How many `&&` and `||` a path may have."""

NODES_MAX = 250_000
"""How many nodes one evaluation may visit, or all evaluations of one request together."""

RESULT_BYTES_MAX = 16 << 20
"""How large the JSON of a result may be; a path can select one large value many times."""

_BYTES_A_VISIT = 256  # writing so much JSON costs as much as a visit
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PART, _WIDE = re.compile(r"[.\[&|<>=(]"), re.compile(r"\.\.|\*|\?|:|\b(?:match|search)\(")
_NESTING = {"(": 1, "[": 1, ")": -1, "]": -1}
_FIRST = r"A-Za-z_\u0080-\uD7FF\uE000-\U0010FFFF"
MEMBER_NAME = re.compile(rf"[{_FIRST}][{_FIRST}0-9]*")
"""A name in its short form, as in `$.name` (RFC 9535 section 2.5.1.1)."""


class Path(msgspec.Struct, frozen=True, eq=False):
    """A compiled JSONPath; equal to every other one of the same text.

    `singular`: it has one value or none, found along `steps`. `members`: the first members of the root that
    it may read; `*`: any. Another one searches: it has `parts`, `wide` of which find many values or look at
    each of them.
    """

    text: str
    singular: bool
    members: frozenset[str]
    steps: tuple[str | int, ...] = ()
    selection: Selection | None = None
    parts: int = 0
    wide: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@final
class Missing(msgspec.Struct, frozen=True):
    """A singular path that finds nothing."""


@final
class Stopped(msgspec.Struct, frozen=True):
    """The evaluation was stopped: `message` names the limit, or says that a response cannot be read."""

    message: str


def compile_path(text: str) -> Path:
    """Parses a JSONPath. Raises ExpressionError with the column of the error."""
    bare = measure(text)
    query = read_query(text)
    if query.singular_query():
        steps = steps_of(query)
        members = frozenset({steps[0] if steps and isinstance(steps[0], str) else "*"})
        return Path(text, singular=True, members=members, steps=steps)
    roots: set[str] = set()
    selection = plan(query, roots)
    parts, wide = count_parts(bare)
    members = frozenset(roots)
    return Path(text, singular=False, members=members, selection=selection, parts=parts, wide=max(wide, 1))


def measure(text: str) -> str:
    """The JSONPath without its quoted texts.

    Raises ExpressionError where it is too long, or nests too deep: the library's parser recurses, and the
    result must not depend on the stack.
    """
    if len(text) > CHARACTERS_MAX:
        raise ExpressionError(f"the JSONPath has {len(text)} characters, of at most {CHARACTERS_MAX}")
    bare = _QUOTED.sub("", text)
    nested = max(accumulate(_NESTING.get(character, 0) for character in bare), default=0)
    if nested > DEPTH_MAX:
        raise ExpressionError(f"the JSONPath nests {nested} brackets, at most {DEPTH_MAX} are allowed")
    operators = bare.count("&&") + bare.count("||")
    if operators > OPERATORS_MAX:
        raise ExpressionError(f"the JSONPath has {operators} && and ||, at most {OPERATORS_MAX} are allowed")
    return bare


def count_parts(bare: str) -> tuple[int, int]:
    """The parts of a path without its quoted texts, and how many find many values or look at each of them."""
    return len(_PART.findall(bare)), len(_WIDE.findall(bare))


def read_query(text: str) -> JSONPathQuery:
    """The parsed JSONPath. Raises ExpressionError with the column of the error."""
    try:
        return NameEnvironment().compile(text)
    except JSONPathError as error:
        column = None if error.token is None else error.token.index
        raise ExpressionError(f"not a JSONPath: {_explain(error.args[0])}", column=column) from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise ExpressionError("not a JSONPath: a number is out of range or it nests too deep") from error


def steps_of(query: JSONPathQuery) -> tuple[str | int, ...]:
    """The names and indexes along which a singular query finds its value."""
    selectors = [segment.selectors[0] for segment in query.segments]
    names = [one.name if isinstance(one, NameSelector) else one for one in selectors]
    return tuple(one.index if isinstance(one, IndexSelector) else str(one) for one in names)


def searched_within(paths: Sequence[Path], visits: int) -> int:
    """How many bytes of JSON these paths, which all search, may be given so that they visit about `visits`.

    Each wide part may look at every value for each one that the parts before it have found, and a value has
    a byte at least.
    """
    return int((visits / sum(path.parts for path in paths)) ** (1 / max(path.wide for path in paths)))


def evaluate(path: Path, root: object, budget: Budget | None = None) -> object | Missing | Stopped:
    """The value of a singular path or Missing, the list of values of any other. Never raises.

    `budget` is shared by several evaluations; without one it is `NODES_MAX`.
    """
    if path.selection is None:
        return follow(path.steps, root)
    budget = budget or Budget(NODES_MAX)
    try:
        found = path.selection([root], root, budget)
        if _is_larger(found, RESULT_BYTES_MAX, budget):
            return Stopped(f"finds more than {RESULT_BYTES_MAX} bytes of JSON; write a narrower JSONPath")
    except Exhausted:
        return Stopped(f"visits more than {NODES_MAX} values; write a narrower JSONPath")
    except Unreadable:
        return Stopped(NOT_READ)
    return found


def follow(steps: tuple[str | int, ...], root: object) -> object:
    """The value to which `steps` lead from `root`, or Missing; Stopped: a response there cannot be read."""
    value = root
    for step in steps:
        if type(step) is str:
            if type(value) is not dict or step not in value:
                return Stopped(NOT_READ) if value is NOT_TEXT else Missing()
        elif type(value) is not list or not -len(value) <= step < len(value):  # type: ignore[operator]
            return Stopped(NOT_READ) if value is NOT_TEXT else Missing()
        value = value[step]  # type: ignore[index]
    return value


def _explain(message: str) -> str:
    """The library's message, with a remedy if it names its own tokens."""
    if message.startswith("expected 'COMMA'"):
        return "a comma is missing between two selectors"
    if message.endswith("selector token '='"):
        return "'=' compares nothing; write =="
    if message.startswith("expected '.', '..'"):
        return f"{message}; write other names in brackets, as in ['a-b']"
    return message


def _is_larger(found: list[object], limit: int, budget: Budget) -> bool:
    """Whether the JSON of the values found is larger than `limit`; each value is measured once."""
    sizes: dict[int, int] = {}
    for value in found:
        if type(value) in (dict, list, str):
            size = sizes.get(id(value))
            if size is None:
                size = sizes[id(value)] = len(value) if type(value) is str else len(as_json(value))
                budget.spend(size // _BYTES_A_VISIT)
            limit -= size
        if limit < 0:
            return True
    return False


class _NameLexer(Lexer):
    __slots__ = ()

    def accept_match(self, pattern: Pattern[str]) -> bool:
        return super().accept_match(MEMBER_NAME if pattern is RE_PROPERTY else pattern)


class NameEnvironment(JSONPathEnvironment):
    """The library's environment, which reads names of every character that RFC 9535 allows.

    The library's token for a name reads a character beyond U+10FF only in front, and refuses `$.作业`. That
    token alone is replaced here; all else is read as the library reads it.
    """

    def compile(self, query: str) -> JSONPathQuery:
        """The parsed query. Raises JSONPathError."""
        stream = TokenStream(_tokenize(query))
        return JSONPathQuery(env=self, segments=tuple(self.parser.parse(stream)))


def _tokenize(query: str) -> list[Token]:
    lexer = _NameLexer(query)
    lexer.run()
    if lexer.tokens and lexer.tokens[-1].type_ == TokenType.ERROR:
        raise JSONPathSyntaxError(lexer.tokens[-1].message, token=lexer.tokens[-1])
    if lexer.bracket_stack:
        bracket, index = lexer.bracket_stack[-1]
        message = f"unbalanced {'brackets' if bracket == '[' else 'parentheses'}"
        raise JSONPathSyntaxError(message, token=Token(TokenType.ERROR, bracket, index, query, message))
    return lexer.tokens
