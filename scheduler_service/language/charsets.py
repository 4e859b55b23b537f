"""The charset of a response: its bytes become UTF-8 once, before anything reads them (SPEC section 4.3)."""

import codecs
import re
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache

from scheduler_service.language.json_values import parse_json

UTF_8 = ""
_PARAMETER = re.compile(r';\s*([^\s;="]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)')
_NO_CHARSETS = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}
_NO_CHARSETS |= {"mbcs", "utf_7", "hz", "utf_8"}
_WITHOUT_ALIAS = {"cp1006", "cp720", "cp737", "cp856", "cp874", "cp875", "iso8859_1", "koi8_r", "koi8_t"}
_WITHOUT_ALIAS |= {"koi8_u", "mac_arabic", "mac_croatian", "mac_farsi", "mac_romanian", "ptcp154"}
_CHARSETS = frozenset(({*aliases.values()} | _WITHOUT_ALIAS) - _NO_CHARSETS)
"""Codecs that are charsets: a fixed list, for looking up a name that a target invents may import a module."""
_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "ascii": "utf_8",
}
"""What senders mean by a name: the larger charset is read where the named one cannot be."""
_WINDOWS = {"windows_874": "cp874", "windows_31j": "cp932", "windows_949": "cp949", "windows_936": "gbk"}
_MARKED = {
    "utf_32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),
    "utf_16": (b"\xff\xfe", b"\xfe\xff"),
    "utf_8": (b"\xef\xbb\xbf",),
}
"""The byte order marks of charsets, the longer ones first."""
MARKS = frozenset((b"\xff\xfe", b"\xfe\xff"))
"""With these two bytes a body may be text although its Content-Type names no charset."""
_BY_DEFAULT = frozenset(("latin_1", "iso8859_1", "iso8859_15", "cp1252"))
"""Charsets that servers name whatever they send. Their texts are hardly ever UTF-8 by chance."""
_QUOTED_PAIR = re.compile(r"\\(.)")


@lru_cache(maxsize=256)
def charset_of(content_type: str) -> str:
    """The codec of the charset that a `Content-Type` names; `UTF_8` (empty): it needs none.

    That holds for UTF-8, where none is named, and for names that are no charset, as `binary` or `rot13`.
    """
    for name, value in _PARAMETER.findall(content_type):
        if name.lower() == "charset":
            return _codec(_QUOTED_PAIR.sub(r"\1", value.strip().strip("\"'")).strip())
    return UTF_8


def as_utf8(body: bytes, charset: str, *, truncated: bool = False) -> bytes:
    """`body` in UTF-8; itself where it is no text in `charset`, or is JSON as it stands.

    `charset` is one of `charset_of`. A byte order mark says more than it, and what is UTF-8 is not read in a
    charset of Western Europe. Of a truncated body a character that was cut is left out.
    """
    marked = next((name for name, marks in _MARKED.items() if body.startswith(marks)), "")
    if not (charset or marked) or not body or _is_json(body):
        return body
    likely = "utf_8" if charset in _BY_DEFAULT else ""
    for name in (marked, likely, charset, _WIDER.get(charset, "")):
        text = _decode(body, name, truncated=truncated) if name else None
        if text is not None:
            return text.encode()
    return body


def _codec(name: str) -> str:
    if not name.isascii():
        return UTF_8
    norm = normalize_encoding(name.lower())
    codec = aliases.get(norm, norm)
    if codec.startswith("windows_"):
        codec = _WINDOWS.get(codec, codec)
    return codec if codec in _CHARSETS else UTF_8


def _is_json(body: bytes) -> bool:
    """Whether it is JSON in UTF-8: then it is read as that, whatever its Content-Type says."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return parse_json(body) != text  # what is no JSON is its text


def _decode(body: bytes, charset: str, *, truncated: bool) -> str | None:
    """The text without its byte order mark; None: it is no text in this charset."""
    marks = _MARKED.get(charset)
    if marks is not None and charset != "utf_8" and not body.startswith(marks):
        charset += "_be"  # RFC 2781, section 4.3
    try:
        text = codecs.getincrementaldecoder(charset)().decode(body, final=not truncated)
        text.encode()
    except UnicodeError:
        return None
    return text.removeprefix("\ufeff")
