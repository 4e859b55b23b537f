"""Masks tokens of feedback URLs, and keys of callers, in texts: nothing that is kept or shown can be used.

A URL may stand in a path, a query or a fragment of another one, percent-encoded as often as it was put into
one more, in JSON or in HTML: the token is found in all of these. Of a key its id stays.
"""

import re

MARK = "***"
# Percent-encoding of percent signs: `%3D`, `%253D`, `%25253D`, …
_DEEPER = "(?:25){0,8}"
_BEFORE = rf"[?&;]|%{_DEEPER}(?:3F|26|3B)|u00(?:3f|26|3b)"
_EQUALS = rf"=|%{_DEEPER}3D|\\{{1,8}}u003d|&\#(?:61|x3d);"
# A token of ours (an HMAC in hex) ends where it ends, any other value where the parameter does.
_VALUE = r"(?:[0-9a-f]{64}(?![0-9a-z])|[^&\"'\s<>#%\\]+)"
_PATTERN = f"(?i)((?:{_BEFORE})token(?:{_EQUALS})){_VALUE}"
_TEXT = re.compile(_PATTERN)
_BYTES = re.compile(_PATTERN.encode())
_KEY = r"(pk_[0-9a-f]{16}_)[A-Za-z0-9_-]{43}"
_KEY_TEXT = re.compile(_KEY)
_KEY_BYTES = re.compile(_KEY.encode())
_OWN = re.compile(rb"(?i)token(?:" + _EQUALS.encode() + rb")([0-9a-f]{64})(?![0-9a-z])")


def may_have_token(text: str) -> bool:
    """Whether there may be a token or a key; a quick test without false negatives."""
    return "pk_" in text or "token" in text.lower()


def mask_tokens(text: str) -> str:
    """The text with `***` for each token and each key's secret; itself where there is none."""
    if not may_have_token(text):
        return text
    masked = _KEY_TEXT.sub(rf"\1{MARK}", _TEXT.sub(rf"\1{MARK}", text))
    return text if masked == text else masked


def tokens_in(*bodies: bytes) -> set[bytes]:
    """The tokens of ours in these bodies; a quick test where there are none."""
    return {token for body in bodies if body.lower().find(b"token") >= 0 for token in _OWN.findall(body)}


def mask_tokens_in(body: bytes) -> bytes:
    """The same for a body."""
    # Not `in`: for bytes it first tries its operand as a number, which takes longer than the search.
    masked = body if body.lower().find(b"token") < 0 else _BYTES.sub(rb"\1***", body)
    if body.find(b"pk_") >= 0:
        masked = _KEY_BYTES.sub(rb"\1***", masked)
    return body if masked == body else masked
