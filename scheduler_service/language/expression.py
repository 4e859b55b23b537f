"""Finds and parses the `${…}` expressions of a text (SPEC section 4, Templates)."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.secret_places import SECRET_NAME
from scheduler_service.language.jsonpath import Path, compile_path
from scheduler_service.language.url_places import OFFERED

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
"""The system variables of all templates (SPEC section 4); notifications have `NOTIFY_BODY` as well."""

CHARACTERS_MAX = 1_000
"""How many characters an expression may have."""

EXPRESSIONS_MAX = 500
"""How many expressions a text may have, or the texts of a body together."""

DEFINITION_EXPRESSIONS_MAX = 1_000
DEFINITION_CHARACTERS_MAX = 20_000
"""How many expressions, and characters in them, a definition may have: parsing a JSONPath is slow."""

NOT_HERE = "a secret can be in a header, in a body and in the query of a url"

_OPENING = re.compile(r"\$?\$\{")
_STOP = re.compile(r"""['"}]""")
_NAME = re.compile(r"[A-Za-z_\u0080-\uD7FF\uE000-\U0010FFFF][A-Za-z0-9_\u0080-\uD7FF\uE000-\U0010FFFF]*")
_JSON = re.compile(r"\|json(?![A-Za-z0-9_])")
_PIPED = re.compile(r"\s*\|\s*json\s*$")
_RESERVED = "scheduling"
SECRETS = "secrets"
_SECRET = re.compile(rf"{SECRETS}\.({SECRET_NAME.pattern})")


class Overspent(ExpressionError):
    """A definition has too many expressions; the rest of it is not compiled."""


class Allowance:
    """The expressions, and characters in them, that the texts of one definition may still have."""

    __slots__ = ("characters", "expressions")

    def __init__(self) -> None:
        self.expressions = DEFINITION_EXPRESSIONS_MAX
        self.characters = DEFINITION_CHARACTERS_MAX

    def spend(self, characters: int, column: int) -> None:
        """Uses up one expression. Raises Overspent when none are left."""
        self.expressions -= 1
        self.characters -= characters
        remedy = "splice larger values with |json, or make it several jobs"
        if self.expressions < 0:
            message = f"the definition has more than {DEFINITION_EXPRESSIONS_MAX} expressions; {remedy}"
            raise Overspent(message, code="too_many", column=column)
        if self.characters < 0:
            most = DEFINITION_CHARACTERS_MAX
            message = f"the definition has more than {most} characters in its expressions; {remedy}"
            raise Overspent(message, code="too_many", column=column)


class Names(msgspec.Struct, frozen=True):
    """The names known when a template is compiled.

    `system`: the system variables. `environment`: the names of the tenant's environment. `resp_env_names`:
    the named responses. `allowance`: the limit that the texts of a definition share, if any. `schemes`: those
    of a url that messages offer. `secrets`: they may be named. `secret_paths`: in the path of a url as well.
    """

    system: frozenset[str] = SYSTEM_VARIABLES
    environment: frozenset[str] = frozenset()
    resp_env_names: tuple[str, ...] = ()
    allowance: Allowance | None = None
    schemes: tuple[str, ...] = OFFERED
    secrets: bool = True
    secret_paths: bool = False


class Expression(msgspec.Struct, frozen=True):
    """The content of one `${…}`; `text` is as written, for messages."""

    text: str


class Variable(Expression, frozen=True):
    """A system variable, or what `path` finds in it (for the path its value is `$.NAME`)."""

    name: str
    path: Path | None = None


class Name(Expression, frozen=True):
    """A plain name: a member of the root, else an environment variable, else an alias."""

    name: str


class Environment(Expression, frozen=True):
    """A name read only from the environment: no response may decide where a URL goes."""

    name: str


class SecretName(Expression, frozen=True):
    """`secrets.NAME`: rendered as a place, whose value is known when the request is sent."""

    name: str


class Query(Expression, frozen=True):
    """A JSONPath on the root."""

    path: Path


class Found(msgspec.Struct, frozen=True):
    """One `${…}` of a text: its column, its expression, and whether `|json` follows."""

    column: int
    expression: Expression
    json: bool


def scan(text: str, *, names: Names) -> Iterator[str | Found]:
    """The literal texts (with `$${` as `${`) and expressions of a text, in order.

    Raises ExpressionError with the column of the error; Overspent when the allowance is used up.
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
        if count > EXPRESSIONS_MAX:
            raise ExpressionError(f"it has more than {EXPRESSIONS_MAX} expressions", column=opening.start())
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
    """The position of the closing brace; braces within quotes do not count."""
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
    if len(text) > CHARACTERS_MAX:
        message = f"the expression has {len(text)} characters, at most {CHARACTERS_MAX} are allowed"
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
    if name == SECRETS:
        return _secret(text, column, names)
    if name.startswith(_RESERVED):
        raise _unknown(name, column, names)
    if name == text:
        return Name(text, name)
    if text[len(name)] not in ".[ \t\r\n":
        raise _unreadable(text, column)
    return Query(text, _path("$." + text, text, column))


def _secret(text: str, column: int, names: Names) -> SecretName:
    secret = _SECRET.fullmatch(text)
    if secret is None:
        message = (
            f"${{{text}}} names no secret; write ${{secrets.NAME}}, or ${{$.{text}}} for a response's member"
        )
        raise ExpressionError(message, column=column)
    if not names.secrets:
        raise ExpressionError(f"${{{text}}}: {NOT_HERE}", column=column)
    return SecretName(text, secret[1])


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
        return ExpressionError(f"the system variable {name} has no value here", column=column)
    folded = {known.removeprefix(_RESERVED).lower(): known for known in names.system}
    near = get_close_matches(name.removeprefix(_RESERVED).lower(), folded, n=1)
    known = f"did you mean {folded[near[0]]}?" if near else f"there are {', '.join(sorted(names.system))}"
    return ExpressionError(f"{name} is not a system variable; {known}", column=column)


def _unreadable(text: str, column: int) -> ExpressionError:
    hint = _hint(text) or "is neither a name nor a JSONPath; write ${name} or ${$.member}"
    return ExpressionError(f"${{{text}}} {hint}", column=column)


def _hint(text: str) -> str:
    """A suggestion what to write instead, or an empty text."""
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
