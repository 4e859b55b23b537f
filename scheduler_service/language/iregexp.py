"""I-Regexp (RFC 9485) on an engine whose time is linear, for JSONPath's `match` and `search`."""

import re
from typing import Any

import msgspec
import re2

from scheduler_service.language.values import scrub

LONGEST = 1_000
"""How many characters a pattern may have; a longer one matches nothing."""

_NESTED = 100
_MEMORY = 1 << 20

_ESCAPE = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_MEMBER = rf"(?:(?:[^\-\[\]\\]|{_ESCAPE})(?:-(?:[^\-\[\]\\]|{_ESCAPE}))?|{_CATEGORY})"
_TOKEN = re.compile(
    rf"(?P<atom>{_ESCAPE}|{_CATEGORY}|\[\^?(?:-|{_MEMBER}){_MEMBER}*-?\]|[^()*+.?\[\\\]{{|}}])"
    r"|(?P<dot>\.)|(?P<open>\()|(?P<close>\))|(?P<bar>\|)|(?P<times>[*+?]|\{[0-9]+(?:,[0-9]*)?\})",
    re.DOTALL,
)


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern, None where it matches nothing; at worst its work is `size` times the text."""

    compiled: Any = None
    whole: bool = False
    size: int = 0

    def matches(self, text: str) -> bool:
        """Whether the text matches, all through or somewhere."""
        if self.compiled is None:
            return False
        find = self.compiled.fullmatch if self.whole else self.compiled.search
        return find(scrub(text)) is not None


def compile_pattern(pattern: str, *, whole: bool) -> Pattern:
    """The pattern as one that a text matches all through (`whole`) or somewhere.

    What is no I-Regexp, or more than the engine takes, matches nothing (RFC 9535 section 2.4.6).
    """
    translated = translate(pattern)
    if translated is None:
        return Pattern()
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled = re2.compile(scrub(translated), options)
    except re2.error:
        return Pattern()
    return Pattern(compiled, whole, compiled.programsize)


def translate(pattern: str) -> str | None:
    """The pattern in the engine's spelling, or None where it is no I-Regexp (RFC 9485 section 5.4)."""
    if len(pattern) > LONGEST:
        return None
    pieces = []
    position, depth, repeatable = 0, 0, False
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or (token.lastgroup == "times" and not repeatable):
            return None
        depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
        if not 0 <= depth <= _NESTED:
            return None
        repeatable = token.lastgroup in ("atom", "dot", "close")
        pieces.append({"dot": r"[^\n\r]", "open": "(?:"}.get(token.lastgroup or "", token.group()))
        position = token.end()
    return "".join(pieces) if depth == 0 else None
