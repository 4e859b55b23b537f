"""Finds the `${…}` of a text and reads what stands inside (SPEC section 4, Templates)."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.jsonpath import Path, compile_path

NOTIFY_BODY = "schedulingNotifyBody"
FEEDBACK_URLS = frozenset(
    {"schedulingFeedbackUrl", "schedulingFeedbackUrlInternal", "schedulingFeedbackUrlExternal"}
)
SYSTEM_VARIABLES = FEEDBACK_URLS | {
    "schedulingJobId",
    "schedulingExecuteNumber",
    "schedulingRequestCounts",
    "schedulingFireTime",
    "schedulingShardIndex",
    "schedulingShardTotal",
}
"""The system variables of every place; notifications have `NOTIFY_BODY` as well."""

LONGEST = 1_000
"""How many characters an expression may have."""

MOST = 500
"""How many expressions a text may have, or the texts of a body together."""

MOST_IN_ALL = 1_000
CHARACTERS = 20_000
"""How many expressions, and characters in them, a definition may have: reading a JSONPath is slow."""

_OPENING = re.compile(r"\$?\$\{")
_STOP = re.compile(r"""['"}]""")
_NAME = re.compile(r"[A-Za-z_\u0080-\uD7FF\uE000-\U0010FFFF][A-Za-z0-9_\u0080-\uD7FF\uE000-\U0010FFFF]*")
_JSON = re.compile(r"\|json(?![A-Za-z0-9_])")
_PIPED = re.compile(r"\s*\|\s*json\s*$")
_RESERVED = "scheduling"


class Overspent(ExpressionError):
    """The texts of one definition have more expressions than are read; nothing more is compiled of it."""


class Allowance:
    """How many expressions, and characters in them, all texts of one definition may still have."""

    __slots__ = ("characters", "expressions")

    def __init__(self) -> None:
        self.expressions = MOST_IN_ALL
        self.characters = CHARACTERS

    def spend(self, characters: int, column: int) -> None:
        """Takes one expression away. Raises Overspent when there are no more."""
        self.expressions -= 1
        self.characters -= characters
        remedy = "splice larger values with |json, or make it several jobs"
        if self.expressions < 0:
            message = f"the definition has more than {MOST_IN_ALL} expressions; {remedy}"
            raise Overspent(message, code="too_many", column=column)
        if self.characters < 0:
            message = f"the definition has more than {CHARACTERS} characters in its expressions; {remedy}"
            raise Overspent(message, code="too_many", column=column)


class Names(msgspec.Struct, frozen=True):
    """What is known of names when a template is compiled.

    `system`: the system variables of this place. `environment`: the names of the tenant's environment.
    `resp_env_names`: the named responses. `allowance`: what the texts of a definition share, if anything.
    """

    system: frozenset[str] = SYSTEM_VARIABLES
    environment: frozenset[str] = frozenset()
    resp_env_names: tuple[str, ...] = ()
    allowance: Allowance | None = None


class Expression(msgspec.Struct, frozen=True):
    """What stands inside one `${…}`; `text` is as written, for messages."""

    text: str


class Variable(Expression, frozen=True):
    """A system variable; with a `path`, what that finds in its value (which is `$.NAME` for the path)."""

    name: str
    path: Path | None = None


class Name(Expression, frozen=True):
    """A plain name: a member of the root, else an environment variable, else an alias."""

    name: str


class Environment(Expression, frozen=True):
    """A name that is read from the environment alone: where a URL goes is no response's to say."""

    name: str


class Query(Expression, frozen=True):
    """A JSONPath on the root."""

    path: Path


class Found(msgspec.Struct, frozen=True):
    """One `${…}` of a text: where it begins, what it is, and whether `|json` follows."""

    column: int
    expression: Expression
    json: bool


def scan(text: str, *, names: Names) -> Iterator[str | Found]:
    """The pieces of a text in order: literal texts (with `$${` as `${`) and expressions.

    Raises ExpressionError with the column of what is wrong; Overspent when the allowance is used up.
    """
    literal = ""
    position = count = 0
    while opening := _OPENING.search(text, position):
        literal += text[position : opening.start()]
        position = opening.end()
        if opening.group() == "$${":
            literal += "${"
            continue
        if literal:
            yield literal
            literal = ""
        count += 1
        if count > MOST:
            raise ExpressionError(f"there are more than {MOST} expressions in it", column=opening.start())
        end = _closing(text, position)
        if names.allowance is not None:
            names.allowance.spend(end - position, opening.start())
        expression = _parse(text[position:end], position, names)
        marked = _JSON.match(text, end + 1)
        yield Found(opening.start(), expression, marked is not None)
        position = marked.end() if marked else end + 1
    if literal or position < len(text):
        yield literal + text[position:]


def _closing(text: str, start: int) -> int:
    """The brace that closes the expression; braces within quotes do not count."""
    position = start
    while stop := _STOP.search(text, position):
        if stop.group() == "}":
            return stop.start()
        position = _after_quote(text, stop.start())
    raise ExpressionError("${ without its }; write $${ for a literal ${", column=start - 2)


def _after_quote(text: str, opening: int) -> int:
    position = opening + 1
    while position < len(text) and text[position] != text[opening]:
        position += 2 if text[position] == "\\" else 1
    return position + 1


def _parse(text: str, column: int, names: Names) -> Expression:
    if not text.strip():
        raise ExpressionError("${} is empty; write a name or a JSONPath, $${ for a literal ${", column=column)
    if len(text) > LONGEST:
        message = f"the expression has {len(text)} characters, at most {LONGEST} are allowed"
        raise ExpressionError(message, column=column)
    if text.startswith("$"):
        return Query(text, _path(text, text, column))
    name = _NAME.match(text)
    if name is None:
        raise _unreadable(text, column)
    return _named(text, name.group(), column, names)


def _named(text: str, name: str, column: int, names: Names) -> Expression:
    if name in names.system:
        return Variable(text, name, None if name == text else _path("$." + text, text, column))
    if name.startswith(_RESERVED):
        raise _unknown(name, column, names)
    if name == text:
        return Name(text, name)
    if text[len(name)] not in ".[ \t\r\n":
        raise _unreadable(text, column)
    return Query(text, _path("$." + text, text, column))


def _path(path: str, text: str, column: int) -> Path:
    try:
        return compile_path(path)
    except ExpressionError as error:
        if _hint(text):
            raise _unreadable(text, column) from error
        place = column + max((error.column or 0) - (len(path) - len(text)), 0)
        raise ExpressionError(f"${{{text}}}: {error.message}", column=place) from error


def _unknown(name: str, column: int, names: Names) -> ExpressionError:
    if name in SYSTEM_VARIABLES or name == NOTIFY_BODY:
        return ExpressionError(f"the system variable {name} has no value in this place", column=column)
    folded = {known.removeprefix(_RESERVED).lower(): known for known in names.system}
    near = get_close_matches(name.removeprefix(_RESERVED).lower(), folded, n=1)
    known = f"did you mean {folded[near[0]]}?" if near else f"there are {', '.join(sorted(names.system))}"
    return ExpressionError(f"{name} is no system variable; {known}", column=column)


def _unreadable(text: str, column: int) -> ExpressionError:
    hint = _hint(text) or "is neither a name nor a JSONPath; write ${name} or ${$.member}"
    return ExpressionError(f"${{{text}}} {hint}", column=column)


def _hint(text: str) -> str:
    """What to write instead, where it can be guessed."""
    words = text.replace(",", " ").split()
    if "${" in text:
        return "holds an expression inside another one; write them one after the other"
    if _PIPED.search(text):
        return f"has |json inside; write ${{{_PIPED.sub('', text)}}}|json"
    if text != text.strip() and len(words) == 1:
        return f"has blanks beside it; write ${{{words[0]}}}"
    if len(words) > 1 and all(word[0] == "$" or _NAME.match(word) for word in words):
        return "holds more than one expression; write " + " ".join(f"${{{word}}}" for word in words)
    return ""
