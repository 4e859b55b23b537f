"""How secrets in URLs, texts, bodies and the differences of the audit are masked (SPEC section 14)."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from urllib.parse import quote_plus, unquote_plus

import msgspec
import re2

from client_sdk.models import write_pointer
from scheduler_service.domain.json_differences import find_differences
from scheduler_service.domain.token_masks import MARK, mask_tokens, mask_tokens_in
from scheduler_service.language.value_masks import SecretMask

# The parameter of a feedback URL that authenticates the report (SPEC section 5).
TOKEN = "token"  # noqa: S105
USUAL = frozenset(
    {
        "access_key", "access_token", "api-key", "api_key", "apikey", "auth_token", "client_secret", "passwd",
        "password", "secret", "sig", "x-amz-signature", "x-goog-signature",
    }
)  # fmt: skip
"""Further parameters of URLs that are masked."""
_USER = re.compile(r"(//)[^/?#\s\"'<>]*@")
_PART = re.compile(r"[^&#]+")
_NAME = re.compile(r"(?:^|[?;])([^=?;]*)=")
_PARAMETERS = re.compile(r"[?#;]")
_OF_CHATS = r"//(?:hooks\.slack\.com|hooks\.zapier\.com|[^/?#\s\"'<>]{1,255}\.webhook\.office\.com)/"
_HOOK = re.compile(
    rf"(?i)(?:(?P<chat>{_OF_CHATS})|/[\w.-]{{0,64}}hook[\w.:-]{{0,64}}/|/bot(?=\d+:))(?P<rest>[^\s\"'<>]+)"
)
"""Where an address of a hook has its credential: behind a part that speaks of it, for Telegram `bot`."""
_RUNS = re.compile(r"[A-Za-z\d]{16,}"), re.compile(r"[\w-]{40,}"), re.compile(r"(?i)[\da-f]{8}-[\da-f]{4}-")
"""In a path, with a digit: something that nobody has chosen as a name."""
_DIGIT = re.compile(r"\d")

_MEMBER = re.compile(r'"([^"\\]{1,128})"(\s*:\s*)("(?:[^"\\]|\\.)*"?|[-+.0-9eE]+)')
"""A member of JSON whose value is a text or a number, which may be cut."""
_WORD = re.compile(r"\S+")
_QUERY = re.compile(r"\?.*", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+|/+")

# JSON inside a JSON string is masked too, down to this many levels.
_MAX_NESTING = 4


class Concealment:
    """Masks the values of secret names; a value without secrets is returned itself, not a copy.

    `needle` finds something in each body that has the name of a secret member; None: there are no such names.
    """

    def __init__(self, *, headers: Iterable[str], members: Iterable[str]) -> None:
        self._members = frozenset(name.lower() for name in members)
        self._parameters = self._members | {TOKEN, *(name.lower() for name in headers)} | USUAL
        self.needle = _compile_needle(self._members)

    def url(self, url: str) -> str:
        """A URL without user information and without the values of secret parameters."""
        if "@" not in url and "?" not in url and "#" not in url and ";" not in url:
            lower = url.lower()
            if "token" not in lower and "hook" not in lower and "/bot" not in lower:
                return url
        found = hide_hook(mask_tokens(self._mask_user(url)))
        first = _PARAMETERS.search(found)
        if first is None:
            return found
        masked = found[: first.start()] + hide_values(found[first.start() :], self._mask_parameter)
        return found if masked == found else masked

    def text(self, text: str) -> str:
        """A text with the tokens and user information of URLs in it masked."""
        return mask_tokens(self._mask_user(text))

    def body(self, body: bytes) -> bytes:
        """A body without secret members and tokens; parsed only if it contains the name of such a member.

        A body with such a name that is neither JSON nor a form is replaced as a whole.
        """
        body = self.tokens(body)
        return self._mask_body(body) if self.may_have_member(body) else body

    def is_secret_member(self, name: str) -> bool:
        """Whether values of this name are masked in bodies."""
        return name.lower() in self._members

    def tokens(self, body: bytes) -> bytes:
        """A body, or the begin of one, without tokens."""
        return mask_tokens_in(body)

    def may_have_member(self, body: bytes) -> bool:
        """Whether there is the name of a secret member in a body."""
        return self.needle is not None and self.needle.search(body) is not None

    def _mask_user(self, text: str) -> str:
        if "@" not in text:
            return text
        masked = _USER.sub(rf"\1{MARK}@", text)
        return text if masked == text else masked

    def _mask_parameter(self, name: str, _: str) -> str:
        return MARK if name.lower() in self._parameters else ""

    def _mask_body(self, body: bytes) -> bytes:
        try:
            masked = self._mask_json(body, _MAX_NESTING)
        except RecursionError:
            return MARK.encode()
        except ValueError:
            return self._mask_form(body)
        return body if masked is None else masked.encode("utf-8", "replace")

    def _mask_json(self, text: str | bytes, nesting: int) -> str | None:
        """The masked text, or None where nothing is secret. Raises ValueError: it is not valid JSON."""
        found = False

        def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
            # Checked here, not in the value: there the last of several members of one name hides the others.
            nonlocal found
            found = found or any(name.lower() in self._members for name, _ in pairs)
            return dict(pairs)

        value = json.loads(text, object_pairs_hook=build)
        masked = self._mask_value(value, nesting)
        if not found and masked == value:
            return None
        return json.dumps(masked, ensure_ascii=False, separators=(",", ":"))

    def _mask_value(self, value: object, nesting: int) -> object:
        match value:
            case dict():
                return {
                    name: MARK if name.lower() in self._members else self._mask_value(member, nesting)
                    for name, member in value.items()
                }
            case list():
                return [self._mask_value(member, nesting) for member in value]
            case str() if nesting and value.lstrip()[:1] in ("{", "["):
                return self._mask_nested(value, nesting)
            case _:
                return value

    def _mask_nested(self, text: str, nesting: int) -> str:
        try:
            masked = self._mask_json(text, nesting - 1)
        except ValueError:
            return text
        return text if masked is None else masked

    def _mask_form(self, body: bytes) -> bytes:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return MARK.encode()
        if "=" not in text or any(character in text for character in "{}[]<>\n "):
            return MARK.encode()
        return "&".join(map(self.text, hide_values(text, self._mask_parameter).split("&"))).encode()


def hide_values(text: str, hide: Callable[[str, str], str]) -> str:
    """A query, a form or parameters of a path with what `hide` gives for a name and its value.

    Empty: the value stays. Parameters are apart by `&` and `#`, for some peers by `;`, which a value that is
    hidden may have itself.
    """
    return _PART.sub(partial(_hide_value, hide), text)


def _hide_value(hide: Callable[[str, str], str], match: re.Match[str]) -> str:
    part = match[0]
    for found in _NAME.finditer(part):
        if hidden := hide(unquote_plus(found[1]), part[found.end() :]):
            return part[: found.end()] + hidden
    return part


def hide_hook(url: str, hide: Callable[[str], str] = lambda _: MARK) -> str:
    """An address without the credential in its path, by which a hook knows its caller, as those of chats.

    `hide` gives what stands for it; empty: as it is. Itself where there is none, or the name of a secret.
    """
    found = _HOOK.search(url)
    if found is None or "${" in found["rest"]:
        return url
    rest = found["rest"]
    if not (found["chat"] or rest == MARK or _is_random(rest)):
        return url
    return url[: found.start("rest")] + (hide(rest) or rest)


def _is_random(path: str) -> bool:
    # The digit is looked for in each run afterwards: a look ahead from each character takes seconds.
    return any(_DIGIT.search(run) is not None for runs in _RUNS for run in runs.findall(path))


def hide_query(url: str) -> str:
    """The address without its query, of which only the mark is left, and what `hide_hook` hides."""
    return _QUERY.sub(f"?{MARK}", hide_hook(url))


def hide_login(url: str) -> str:
    """An address, right or wrong, without user, password, parameters, fragment, and as `hide_hook` has it."""
    url = hide_hook(url)
    scheme = _SCHEME.match(url)
    start = scheme.end() if scheme is not None else 0
    end = min((place for sign in "?#;" if (place := url.find(sign, start)) >= 0), default=len(url))
    if "@" in url[end:]:  # a password with such a sign, or a query with this one
        return f"{url[:start]}{MARK}"
    _, at, rest = url[start:end].rpartition("@")
    return url[:start] + (f"{MARK}@" if at else "") + rest + (url[end] + MARK if url[end:] else "")


def _compile_needle(members: frozenset[str]) -> re.Pattern[bytes] | None:
    """Matches a body with any of the names, or with escapes, in which a name could be hidden."""
    if not members:
        return None
    if not all(name.isascii() for name in members):
        return re.compile(b"")  # matches every body: other letters have too many spellings
    spellings = {spelling for name in members for spelling in (name, quote_plus(name))}
    names = b"|".join(re.escape(spelling.encode()) for spelling in sorted(spellings))
    return re.compile(rb"(?i)" + names + rb"|\\u00[2-7]")


_ENDS = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey",
    "credential", "credentials",
)  # fmt: skip
_WHOLE = frozenset(
    (
        "authorization", "proxyauthorization", "cookie", "setcookie", "pwd", "sig", "xamzsignature",
        "xgoogsignature",
    )
)  # fmt: skip
LONGEST_TELLING = 128
_SEPARATORS = str.maketrans("", "", "-_. ")
_HINT = re2.compile(
    rb"(?i)pass[-_. ]?(?:w|phrase)|pwd|[^{]secret|token|(?:api|access|private)[-_. ]?key|credential"
    rb"|authorization|cookie|signature|sig\b|hook|/bot\d|\\u00"
)
"""In each definition with a name that `tells_secret`; not in `${secrets.NAME}`."""


def tells_secret(name: str) -> bool:
    """Whether the name of a header, a member or a parameter says that its value is a credential."""
    return len(name) <= LONGEST_TELLING and _tells(name)


@lru_cache(4_096)
def _tells(name: str) -> bool:
    folded = name.lower().translate(_SEPARATORS)
    return folded.endswith(_ENDS) or folded in _WHOLE


_VALUES = frozenset(("default", "const", "enum", "examples"))
"""Members of a schema that have a value."""
MOST_CHANGES = 50
VALUE_BYTES = 512
"""A longer value is shown by its first letters."""
HEADERS = "headers"
Path = tuple[str | int, ...]
_encode_change = msgspec.json.Encoder().encode


class DefinitionMasking:
    """What of definitions is shown in the audit, and to callers who may not edit them.

    A value is plain where its name says that it is a credential (`tells_secret`, and the members that
    `history.mask` names) and it has no `${`: in headers, bodies, also JSON and forms in a text, and queries.
    """

    def __init__(self, *, conceal: Concealment) -> None:
        self._conceal = conceal

    def may_have_plain(self, text: bytes) -> bool:
        """Whether a definition in JSON, or several, may have a plain credential; False: it has none."""
        return _HINT.search(text) is not None or self._conceal.may_have_member(text)

    def hide(self, value: object, name: str = "") -> object:
        """The value, as a definition or some of one, decoded, with `***` for plain credentials.

        `name`: of the member that has it.
        """
        return self._hide(value, name, (), [])

    def hide_in(self, text: bytes) -> bytes:
        """As `hide`, for JSON; of an array each item by itself, which takes less memory."""
        if not self.may_have_plain(text):
            return text
        if text.lstrip()[:1] == b"[":
            items = msgspec.json.decode(text, type=list[msgspec.Raw])
            return b"[" + b",".join(self.hide_in(bytes(one)) for one in items) + b"]"
        return _encode_change(self.hide(msgspec.json.decode(text)))

    def hide_in_line(self, line: str) -> str:
        """A sentence of the log without plain credentials in its addresses."""
        return _WORD.sub(self._hide_word, line) if "//" in line else line

    def _hide_word(self, match: re.Match[str]) -> str:
        word = match[0]
        return str(self.hide(word, "url")) if "//" in word else word

    def find_plain(self, text: bytes) -> list[tuple[str, str]]:
        """(pointer, value) of each plain credential of a definition in JSON."""
        found: list[tuple[str, str]] = []
        if self.may_have_plain(text):
            self._hide(msgspec.json.decode(text), "", (), found)
        return found

    def _hide(self, value: object, name: str, path: Path, found: list[tuple[str, str]]) -> object:
        kind = type(value)
        if kind is str or kind is int or kind is float:
            if self._tells(name):
                return self._hide_plain(str(value), path, found) or value
            return self._hide_in_text(value, name, path, found) if isinstance(value, str) else value
        if isinstance(value, dict):
            kept = name if self._tells(name) else ""  # all below such a member is secret
            is_schema = path[:1] == ("paramsSchema",)  # but for what a schema says of a value
            names = {one: one if is_schema and one not in _VALUES else kept or one for one in value}
            return {one: self._hide(value[one], own, (*path, one), found) for one, own in names.items()}
        if isinstance(value, list):
            return [self._hide(one, name, (*path, index), found) for index, one in enumerate(value)]
        return value

    def _hide_plain(self, value: str, path: Path, found: list[tuple[str, str]]) -> str:
        """`***`; empty: it is no plain one."""
        if not value or "${" in value:
            return ""
        found.append((write_pointer(path), value))
        return MARK

    def _hide_in_text(self, text: str, name: str, path: Path, found: list[tuple[str, str]]) -> str:
        inner: list[tuple[str, str]] = []
        hidden = text
        if text.lstrip()[:1] in ("{", "["):
            try:
                shown = json.dumps(self._hide(json.loads(text), name, (), inner), ensure_ascii=False)
                hidden = shown.encode("utf-8", "replace").decode()  # half a surrogate pair may be in it
            except (ValueError, RecursionError):  # the begin of one, which was cut
                hidden = _MEMBER.sub(partial(self._hide_member, inner), text)
        elif name.lower().endswith("url"):
            shown = hide_hook(text, lambda rest: self._hide_plain(rest, (), inner))
            hidden = hide_values(shown, partial(self._hide_parameter, inner))
        elif name == "body" and "=" in text:
            hidden = hide_values(text, partial(self._hide_parameter, inner))
        if inner:
            found.extend((write_pointer(path), value) for _, value in inner)
        return hidden if inner else text

    def _hide_parameter(self, found: list[tuple[str, str]], name: str, value: str) -> str:
        return self._hide_plain(value, (), found) if self._tells(name) else ""

    def _hide_member(self, found: list[tuple[str, str]], match: re.Match[str]) -> str:
        name, between, value = match.groups()
        hidden = self._hide_plain(value, (), found) if self._tells(name) else ""
        return f'"{name}"{between}"{hidden}"' if hidden else match[0]

    def _tells(self, name: str) -> bool:
        return tells_secret(name) or self._conceal.is_secret_member(name)

    def changes(self, before: object, after: object, mask: SecretMask) -> dict[str, object]:
        """Where two definitions differ, for the audit: `difference`, a list of `{pointer, before, after}`.

        `truncated` where there is more. Every value of a header is `***`, whatever its name: that it changed
        is what counts. So is what `hide` hides, with or without `${`, and what addresses have of secrets.
        `mask` hides values of secrets before a part of one is hidden, or a long text is cut, as the rest
        would stay; whoever writes the line hides all others.
        """
        found = list(islice(self._changes(before, after, mask), MOST_CHANGES + 1))
        shown: dict[str, object] = {"difference": found[:MOST_CHANGES]}
        if len(found) > MOST_CHANGES:
            shown["truncated"] = True
        return shown

    def _changes(self, before: object, after: object, mask: SecretMask) -> Iterator[dict[str, object]]:
        for one in find_differences(before, after):
            names = one.pointer.split("/")[1:]
            yield {
                "pointer": one.pointer,
                "before": self._show(names, one.declared, mask),
                "after": self._show(names, one.stored, mask),
            }

    def _show(self, names: list[str], value: object, mask: SecretMask) -> object:
        masked = self._mask(names, value, mask)
        text = _encode_change(masked)
        if len(text) <= VALUE_BYTES:
            return masked
        return mask.hide_at(text, VALUE_BYTES)[:VALUE_BYTES].decode(errors="ignore") + "…"

    def _mask(self, names: list[str], value: object, mask: SecretMask) -> object:
        if value is None:
            return None
        # What a header is worth stands below `headers`, also where the whole of it is new or gone.
        if HEADERS in names[:-1] or any(map(self._tells, names)):
            return MARK
        match value:
            case dict():
                return {
                    str(name): self._mask([*names, str(name)], member, mask) for name, member in value.items()
                }
            case list():
                return [self._mask([*names, str(index)], member, mask) for index, member in enumerate(value)]
            case str():
                return self._mask_text(names, mask.text(value))
        return value

    def _mask_text(self, names: list[str], value: str) -> str:
        value = self._hide_in_text(value, names[-1] if names else "", (), [])
        if names and names[-1].lower().endswith("url"):
            return self._conceal.url(value)
        if value.lstrip()[:1] in ("{", "["):  # JSON in a text
            return self._conceal.body(value.encode()).decode()
        return self._conceal.text(value)
