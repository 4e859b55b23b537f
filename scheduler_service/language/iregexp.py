"""I-Regexp (RFC 9485) on RE2, whose time is linear, for JSONPath's `match` and `search`."""

import re
from typing import Any

import msgspec
import re2

from scheduler_service.domain.texts import scrub

CHARACTERS_MAX = 1_000
"""How many characters a pattern may have; a longer one matches nothing."""

_NESTED = 100
_MEMORY_MAX = 1 << 20

_ESCAPE = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_MEMBER = rf"(?:(?:[^\-\[\]\\]|{_ESCAPE})(?:-(?:[^\-\[\]\\]|{_ESCAPE}))?|{_CATEGORY})"
_TOKEN = re.compile(
    rf"(?P<atom>{_ESCAPE}|{_CATEGORY}|\[\^?(?:-|{_MEMBER}){_MEMBER}*-?\]|[^()*+.?\[\\\]{{|}}])"
    r"|(?P<dot>\.)|(?P<open>\()|(?P<close>\))|(?P<bar>\|)|(?P<times>[*+?]|\{[0-9]+(?:,[0-9]*)?\})",
    re.DOTALL,
)


class CompiledRegexp(msgspec.Struct, frozen=True):
    """A compiled pattern; None matches nothing. Its work is at most `size` times the length of the text."""

    compiled: Any = None
    whole: bool = False
    size: int = 0

    def matches(self, text: str) -> bool:
        """Whether the text matches, as a whole or somewhere."""
        if self.compiled is None:
            return False
        find = self.compiled.fullmatch if self.whole else self.compiled.search
        return find(scrub(text)) is not None


def compile_pattern(pattern: str, *, whole: bool) -> CompiledRegexp:
    """The compiled pattern, which a text matches as a whole (`whole`) or somewhere.

    A text that is not an I-Regexp, or is too large for RE2, matches nothing (RFC 9535 section 2.4.6).
    """
    translated = translate(pattern)
    if translated is None:
        return CompiledRegexp()
    compiled = compile_re2(scrub(translated), max_mem=_MEMORY_MAX)
    return CompiledRegexp() if compiled is None else CompiledRegexp(compiled, whole, compiled.programsize)


def is_pattern(pattern: str) -> bool:
    """Whether a text can match it at all."""
    return compile_pattern(pattern, whole=False).compiled is not None


def compile_re2(pattern: str, *, max_mem: int | None = None) -> Any:
    """The pattern compiled by RE2 with at most `max_mem` bytes; None: RE2 cannot run it."""
    options = re2.Options()
    options.log_errors = False
    if max_mem is not None:
        options.max_mem = max_mem
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
    finally:
        re2.purge()  # of itself the library keeps the last 128 patterns, of up to 8 MiB each


def translate(pattern: str) -> str | None:
    """The pattern in the syntax of RE2; None: it is not an I-Regexp (RFC 9485 section 5.4)."""
    if len(pattern) > CHARACTERS_MAX:
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
