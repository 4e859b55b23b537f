"""How secrets in URLs, texts, bodies and the differences of the audit are masked (SPEC section 14)."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import quote_plus, unquote_plus

import msgspec

from scheduler_service.domain.feedback_tokens import MARK, mask_tokens, mask_tokens_in
from scheduler_service.domain.json_differences import find_differences
from scheduler_service.security.secret_masks import SecretMask

# The parameter of a feedback URL that authenticates the report (SPEC section 5).
TOKEN = "token"  # noqa: S105
_USER = re.compile(r"(//)[^/?#\s\"'<>]*@")
_PARAMETER = re.compile(r"([?&#;]|^)([^=&#?;]*)=([^&#]*)")

_QUERY = re.compile(r"\?.*", re.DOTALL)

# JSON inside a JSON string is masked too, down to this many levels.
_MAX_NESTING = 4


class Concealment:
    """Masks the values of secret names; a value without secrets is returned itself, not a copy.

    `needle` finds something in each body that has the name of a secret member; None: there are no such names.
    """

    def __init__(self, *, headers: Iterable[str], members: Iterable[str]) -> None:
        self._members = frozenset(name.lower() for name in members)
        self._parameters = self._members | {TOKEN, *(name.lower() for name in headers)}
        self.needle = _compile_needle(self._members)

    def url(self, url: str) -> str:
        """A URL without user information and without the values of secret parameters."""
        if "@" not in url and "?" not in url and "#" not in url and "token" not in url.lower():
            return url
        found = mask_tokens(self._mask_user(url))
        if "?" not in found and "#" not in found:
            return found
        place = min(place for place in (found.find("?"), found.find("#")) if place >= 0)
        masked = found[:place] + _PARAMETER.sub(self._mask_parameter, found[place:])
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

    def _mask_parameter(self, match: re.Match[str]) -> str:
        before, name, value = match.groups()
        if unquote_plus(name).lower() in self._parameters:
            return f"{before}{name}={MARK}"
        return f"{before}{name}={self.text(value)}"

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
        return _PARAMETER.sub(self._mask_parameter, text).encode()


def hide_query(url: str) -> str:
    """The address without its query, of which only the mark is left."""
    return _QUERY.sub(f"?{MARK}", url)


def _compile_needle(members: frozenset[str]) -> re.Pattern[bytes] | None:
    """Matches a body with any of the names, or with escapes, in which a name could be hidden."""
    if not members:
        return None
    if not all(name.isascii() for name in members):
        return re.compile(b"")  # matches every body: other letters have too many spellings
    spellings = {spelling for name in members for spelling in (name, quote_plus(name))}
    names = b"|".join(re.escape(spelling.encode()) for spelling in sorted(spellings))
    return re.compile(rb"(?i)" + names + rb"|\\u00[2-7]")


MOST_CHANGES = 50
VALUE_BYTES = 512
"""A longer value is shown by its first letters."""
HEADERS = "headers"
_encode_change = msgspec.json.Encoder().encode


class MaskedChanges:
    """The places where two definitions differ, as the audit shows them.

    Every value of a header is `***`, whatever its name: that it changed is what counts. Members that
    `history.mask` names are, too, and what addresses have of secrets. `mask` hides values of secrets before a
    part of one is hidden, or a long text is cut, as the rest would stay; whoever writes the line hides all
    others.
    """

    def __init__(self, *, conceal: Concealment) -> None:
        self._conceal = conceal

    def __call__(self, before: object, after: object, mask: SecretMask) -> dict[str, object]:
        """`difference`, a list of `{pointer, before, after}`; `truncated` where there is more."""
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
        if HEADERS in names[:-1] or any(self._is_secret(name) for name in names):
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
        if names and names[-1].lower().endswith("url"):
            return self._conceal.url(value)
        if value.lstrip()[:1] in ("{", "["):  # JSON in a text
            return self._conceal.body(value.encode()).decode()
        return self._conceal.text(value)

    def _is_secret(self, name: str) -> bool:
        return self._conceal.is_secret_member(name)
