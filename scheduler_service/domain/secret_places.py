"""The places of secrets in a rendered request: filled in when it is sent, hidden wherever it is shown.

A request is rendered, stored and sent again without a byte of a secret. Where a value is to go stands the
request's `mark` and the number of the secret's name. The mark is an HMAC with the job's own random key
(`engine.template_scope.secret_mark`), another one for each request, and leaves the scheduler in none: no
response, no parameter and no variable can contain it, so that data never names a secret.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import final
from urllib.parse import quote, quote_plus

import msgspec

from scheduler_service.domain.token_masks import MARK as SHOWN
from scheduler_service.domain.wire import OutboundRequest

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
LEAST_CHARACTERS = 4
"""Of a value: what is shorter stands in every text, and could not be masked."""
LEAST_OF_WORDS = 8
"""Of one that consists of words: a shorter one is written by chance."""
_WORDS = re.compile(r"[A-Za-z]{1,15}(?:[-_. ][A-Za-z]{1,15})*")
_DIGITS = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TELLING = (
    "key", "keys", "token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "pwd",
    "passphrase", "credential", "credentials",
)  # fmt: skip
_CLEAR = _TELLING[2:]
"""A key may be that of a cache, a table or a partition; not one of these."""
_CLEAR_KEY = re.compile(r"(?i)(?:api|access|private|secret|signing|auth)[-_. ]?keys?(?![a-z])")

IN_JSON, IN_TEXT, IN_FORM, IN_JSON_IN_FORM = "j", "t", "f", "g"
"""How a value is written into a body: as the content of a JSON string, as it is, or in a form."""

Find = Callable[[str], str | None]
"""The value of the secret of a name; None: there is none."""


class FilledText(str):
    """The value of a header with a secret: a credential, which follows no redirect to another origin.

    Secret is what is masked: `secrets`, and variables of the environment whose names say so.
    """

    __slots__ = ()


class FilledBody(bytes):
    """A body with a secret; it follows none either."""

    __slots__ = ()


def speaks_of_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a key, a token, a secret or a password."""
    return any(word.lower().endswith(_TELLING) for word in _WORD.findall(name))


def secret_values(variables: Mapping[str, str]) -> list[str]:
    """The values of the variables of an environment that are masked wherever they stand.

    Words are not (`CACHE_KEY=prod`): what people write stands in bodies by chance, and would take these for
    secret. Long ones are, but of a name that speaks of a key alone, and not of an API's, say.
    """
    return [value for name, value in variables.items() if speaks_of_secret(name) and _is_odd(name, value)]


def _is_odd(name: str, value: str) -> bool:
    if _WORDS.fullmatch(value) is None:
        return len(value) >= LEAST_CHARACTERS
    is_clear = any(one.lower().endswith(_CLEAR) for one in _WORD.findall(name)) or _CLEAR_KEY.search(name)
    return len(value) >= LEAST_OF_WORDS and bool(is_clear)


@final
class Unfilled(msgspec.Struct, frozen=True):
    """Why a request cannot be sent: names of fields and secrets, never a value."""

    message: str


def write_place(mark: str, number: int) -> str:
    """The place of the secret `number` of a request; letters and digits, which no encoding changes."""
    return f"{mark}{number:0{_DIGITS}d}{IN_JSON}"


def rewrite_places(text: str, mark: str, kind: str) -> str:
    """The text with places of another kind: a body turned out to be no JSON."""
    return re.sub(rf"({mark}\d{{{_DIGITS}}}){IN_JSON}", rf"\g<1>{kind}", text) if mark else text


def hide_places(request: OutboundRequest) -> OutboundRequest:
    """The request as it is shown and kept in the history: `***` for each secret."""
    if request.at_send is None or not request.at_send.mark:
        return request
    pattern = re.compile(rf"{request.at_send.mark}\d{{{_DIGITS}}}[a-z]")
    body = request.body
    return msgspec.structs.replace(
        request,
        url=pattern.sub(SHOWN, request.url),
        headers=tuple([(name, pattern.sub(SHOWN, value)) for name, value in request.headers]),
        body=None if body is None else re.sub(pattern.pattern.encode(), SHOWN.encode(), body),
    )


def fill_places(request: OutboundRequest, find: Find) -> OutboundRequest | Unfilled:
    """The request as it leaves; `Unfilled` where a secret is missing, or cannot stand where it is named."""
    if request.at_send is None or not request.at_send.mark:
        return request
    filler = _Filler(request.at_send.mark, request.at_send.names, find)
    try:
        path, mark, query = request.url.partition("?")
        url = filler.text(path, "url", _in_path) + mark + filler.text(query, "url", partial(quote, safe=""))
        headers = [(name, filler.header(name, value)) for name, value in request.headers]
        body = None if request.body is None else filler.body(request.body)
    except _Unfit as unfit:
        return Unfilled(str(unfit))
    return msgspec.structs.replace(request, url=url, headers=tuple(headers), body=body, at_send=None)


def mark_secrets(request: OutboundRequest, finds: Callable[[bytes], bool]) -> OutboundRequest:
    """The request whose header values and body count as filled where `finds` finds a masked value in them.

    So has a variable of the environment whose name speaks of a secret, which was rendered as any other.
    """
    body = request.body
    if body is not None and type(body) is not FilledBody and finds(body):
        body = FilledBody(body)
    headers = [
        (name, FilledText(value) if finds(value.encode("utf-8", "replace")) else value)
        for name, value in request.headers
    ]
    return msgspec.structs.replace(request, headers=tuple(headers), body=body)


class _Unfit(Exception):
    """A place cannot be filled; the message names it."""


class _Filler:
    def __init__(self, mark: str, names: tuple[str, ...], find: Find) -> None:
        self._mark, self._names, self._find = mark, names, find

    def text(self, text: str, field: str, write: Callable[[str], str]) -> str:
        first, *rest = text.split(self._mark)
        pieces = [first]
        for piece in rest:
            pieces += (self._value(piece[:_DIGITS], field, write), piece[_DIGITS + 1 :])
        return "".join(pieces)

    def header(self, name: str, value: str) -> str:
        found = self.text(value, f"header {name}", _in_header)
        return found if found == value else FilledText(found)

    def body(self, body: bytes) -> bytes:
        first, *rest = body.split(self._mark.encode())
        if not rest:
            return body
        pieces = [first]
        for piece in rest:
            kind = piece[_DIGITS : _DIGITS + 1].decode()
            value = self._value(piece[:_DIGITS].decode(), "body", _WRITERS[kind])
            pieces += (value.encode(), piece[_DIGITS + 1 :])
        return FilledBody(b"".join(pieces))

    def _value(self, number: str, field: str, write: Callable[[str], str]) -> str:
        name = self._names[int(number)]
        value = self._find(name)
        if value is None:
            raise _Unfit(f"{field}: ${{secrets.{name}}}: there is no secret of that name")
        try:
            return write(value)
        except ValueError as error:
            raise _Unfit(f"{field}: ${{secrets.{name}}}: {error}") from None


def _in_path(value: str) -> str:
    """The address of a chat robot is its secret: several segments may be one value."""
    if any(segment in ("", ".", "..") for segment in value.split("/")):
        raise ValueError("has an empty segment, '.' or '..', which would change the path")
    return quote(value, safe="/")


def _in_header(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("has a control character, which a header may not contain")
    return value


def _in_json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


_WRITERS: dict[str, Callable[[str], str]] = {
    IN_JSON: _in_json,
    IN_TEXT: str,
    IN_FORM: quote_plus,
    IN_JSON_IN_FORM: lambda value: quote_plus(_in_json(value)),
}
