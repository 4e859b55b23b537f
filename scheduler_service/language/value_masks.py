"""Hides the values of secrets in whatever comes back, is kept or shown (SPEC section 14).

A target may hand on what it was sent: in its answer, a report, the address of a redirect. A value is found as
it is, percent-encoded, escaped in JSON (also JSON in a JSON string) or HTML, read as Latin-1 as headers are,
in hexadecimal digits, and in base64, at each of the three places that it can have in one, also where that is
broken into lines (RFC 2045). Any of its characters may be escaped in a way of its own (`escaped_anyhow`).
Each long line of a value is found by itself.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Sequence
from html.entities import codepoint2name
from typing import Any, TypeVar
from unicodedata import normalize
from urllib.parse import quote, quote_plus

import msgspec
import re2

from scheduler_service.domain.records import Record
from scheduler_service.domain.secret_places import LEAST_CHARACTERS
from scheduler_service.domain.token_masks import MARK
from scheduler_service.domain.wire import Answer, Outcome
from scheduler_service.language.json_values import as_json, parse_json

LEAST_PREFIX = 4
"""So many characters of a value at the end of an answer that was cut are hidden as well."""
SAID = frozenset(
    {
        "url", "headers", "body", "message", "fault", "text", "params", "progress", "error", "event",
        "exchange", "tries", "request_headers", "request_body", "response_headers", "response_body",
        "content_type",
    }
)  # fmt: skip
"""The fields of outcomes and records that have something of a target, a caller or a template."""
_FOR_HTML = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})
_BY_DOTNET = str.maketrans({character: f"\\u{ord(character):04x}" for character in "&'+<>`"})
_BY_TEMPLATES = tuple(
    str.maketrans(table)
    for table in (
        {"+": "&#43;"},
        {"`": "&#x60;", "=": "&#x3D;"},
        {"`": "&#x60;", "=": "&#x3D;", "/": "&#x2F;"},
    )
)
"""What Go, Handlebars and Mustache escape besides."""
_HOST = re.compile(r"(?=.*[0-9])[0-9A-Za-z](?:[0-9A-Za-z.-]{,251}[0-9A-Za-z])?")
_AROUND = " \t\r\n\ufeff"
_BARE = re.compile(r"[-+.0-9Ee]+|true|false|null")
"""Values that may be a part of a number, or a word, in JSON."""
_ESCAPE = re.compile(r"(?<=\\u)[0-9a-f]{4}")
_UNENCODED = ("", "/", "!'()*", "$&+:=@", "!#$&'()*+,/:;=?@")
"""What programs leave as it is: `quote`; encodeURIComponent; a segment in Go; encodeURI."""
_LINE_END = re2.compile(rb"\r?\n|(?:\\r)?\\n")
_LINES = re2.compile(rb"(?:[0-9A-Za-z+/]{16,}(?:\r?\n|(?:\\r)?\\n))+[0-9A-Za-z+/]+")
"""Base64 in lines, and such a text in a JSON string."""
_LAST_LINES = re2.compile(rb"(?:[0-9A-Za-z+/]{16,}(?:\r?\n|(?:\\r)?\\n))+[0-9A-Za-z+/]*\z")
_ESCAPES = re2.compile(rb"[\\&%]|=[0-9A-Fa-f]{2}")
LONGEST_ESCAPED, MOST_ESCAPED = 512, 2_048
"""Values with so many characters, so many together, are found with each character escaped as it may be."""
MOST_CUT = 1_024
"""So many together are found so where a text was cut: of more, RE2 has no room for what it has learnt."""
LONGEST_WRITTEN = 12 * LONGEST_ESCAPED
"""So many bytes before and behind a cut are searched for them."""
_MARK = MARK.encode()
LEAST_LINE = 16
"""So many characters has a line of a value that is hidden by itself."""
FEW_FORMS = 32
"""So many are looked for one by one; of more, RE2 finds the begins of all in one pass."""
BEGIN_BYTES = 8
MOST_HITS = 100
"""Behind so many begins of forms in one text all forms are looked for."""
RE2_BYTES = 64 << 20
_ENCODER = msgspec.msgpack.Encoder()
Kept = TypeVar("Kept")


class SecretMask:
    """Hides some values; what has none of them is returned itself, not a copy.

    `like`: one whose forms of the same values are taken over.
    """

    def __init__(self, values: Iterable[str], like: "SecretMask | None" = None) -> None:
        known: dict[str, set[bytes]] = {} if like is None else like._by_value
        self._by_value: dict[str, set[bytes]] = {
            value: known.get(value) or forms_of(value) for value in values
        }
        forms: set[bytes] = set().union(*self._by_value.values())
        self._forms = _sorted(forms)
        self._begins = _Begins(self._forms) if len(forms) > FEW_FORMS else None
        self._escaped: Any = None  # made when a text has escapes, as the next
        self._cut: Any = None
        self._is_of_json = any(_BARE.fullmatch(value.strip(_AROUND)) for value in self._by_value)

    def finds(self, text: bytes) -> bool:
        """Whether one of the values is in it."""
        return self._is_in(text) or self._is_wrapped_in(text)

    def _is_in(self, text: bytes) -> bool:
        for form in self._likely(text):
            if text.find(form) >= 0:
                return True
        return self._is_broken_in(text) or self._is_escaped_in(text)

    def body(self, body: bytes) -> bytes:
        """A body without the values. One that is JSON stays JSON: a number with a value becomes a text."""
        hidden = self._replace(body)
        if hidden is body or not self._is_of_json or type(parse_json(hidden)) in (dict, list):
            return hidden
        value = parse_json(body)
        return as_json(self._hide_in_json(value)) if type(value) in (dict, list) else hidden

    def text(self, text: str) -> str:
        """A text without the values."""
        encoded = text.encode("utf-8", "surrogatepass")
        return self._replace(encoded).decode("utf-8", "surrogatepass") if self.finds(encoded) else text

    def _is_wrapped_in(self, text: bytes) -> bool:
        joined = _without_soft_breaks(text)
        return joined != text and self._is_in(joined)

    def _is_broken_in(self, text: bytes) -> bool:
        has_lines = b"\n" in text or b"\\n" in text
        if not (self._forms and has_lines) or _LINES.search(text) is None:
            return False
        return any(self._spans_lines(one[0]) for one in _LINES.finditer(text))

    def _spans_lines(self, block: bytes) -> bool:
        """Whether a value goes on over the end of a line: one within a line is hidden by itself."""
        joined = _LINE_END.sub(b"", block)
        return any(form in joined and form not in block for form in self._likely(joined))

    def _is_escaped_in(self, text: bytes) -> bool:
        if not self._forms or _ESCAPES.search(text) is None:
            return False
        if self._escaped is None:
            self._escaped = escaped_anyhow(tuple(self._by_value))
        return self._escaped.search(text) is not None

    def _replace(self, body: bytes) -> bytes:
        if self._is_wrapped_in(body):
            body = _without_soft_breaks(body)  # which is the same text
        if self._is_escaped_in(body):
            body = self._escaped.sub(_MARK, body)
        if self._is_broken_in(body):
            body = _LINES.sub(lambda one: _MARK if self._spans_lines(one[0]) else one[0], body)
        for form in self._likely(body):
            if body.find(form) >= 0:
                body = body.replace(form, _MARK)
        return body

    def value(self, value: Kept) -> Kept:
        """A JSON value without the values, in its names as well; a number that has one becomes `***`."""
        return self._hide_in_json(value) if self._forms and self.finds(as_json(value)) else value

    def outcome(self, outcome: Outcome) -> Outcome:
        """What came of a request, without the values: in its address, headers, body and message."""
        if isinstance(outcome, Answer) and outcome.truncated:
            outcome = msgspec.structs.replace(outcome, body=self._tail(outcome.body))
        return self._whole(outcome)

    def record(self, record: Record) -> Record:
        """A record without the values."""
        return self._whole(record)

    def before_cut(self, record: Record, most: int) -> Record:
        """A record without the values, but for bodies of more than `most` bytes, which `hide_at` is for."""
        encoded = _ENCODER.encode(record)
        if len(encoded) <= most and not self.finds(encoded):
            return record
        hidden: Record = self._hide(record, most)
        return hidden

    def hide_at(self, body: bytes, limit: int) -> bytes:
        """A body in which no value goes on behind `limit`, where it is about to be cut.

        Only whole values are hidden there: whoever saw that the begin of one is, by a body of his own that is
        cut behind it, could guess a value character by character.
        """
        if len(body) <= limit:
            return body
        longest = len(self._forms[0]) if self._forms else 0
        for form in self._likely(body[max(0, limit - longest + 1) : limit + longest - 1]):
            size = len(form)
            at = body.find(form, max(0, limit - size + 1), limit + size - 1)
            if at >= 0:
                body = body[:at] + b"*" * size + body[at + size :]
        begin = max(0, limit - LONGEST_WRITTEN)
        if self._is_escaped_in(near := body[begin : limit + LONGEST_WRITTEN]):
            for hit in self._escaped.finditer(near):
                at, end = begin + hit.start(), begin + hit.end()
                if at < limit < end:
                    body = body[:at] + b"*" * (end - at) + body[end:]
        return body

    def _likely(self, text: bytes) -> Sequence[bytes]:
        """Those forms that may be in it, the longest first."""
        return self._forms if self._begins is None else self._begins.find(text)

    def _whole(self, value: Kept) -> Kept:
        return self._hide(value) if self.finds(_ENCODER.encode(value)) else value

    def _hide(self, value: Any, most: int | None = None) -> Any:
        match value:
            case bytes():
                return value if most is not None and len(value) > most else self.body(value)
            case tuple():
                return tuple([self._hide(one, most) for one in value])
            case msgspec.Struct():
                said = [name for name in value.__struct_fields__ if name in SAID]
                return msgspec.structs.replace(
                    value, **{name: self._hide(getattr(value, name), most) for name in said}
                )
            case _:
                return self.text(value) if type(value) is str else value

    def _hide_in_json(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(name): self._hide_in_json(one) for name, one in value.items()}
            case list():
                return [self._hide_in_json(one) for one in value]
            case None | bool():
                return value
            case _:
                return MARK if self.finds(str(value).encode()) else value

    def _tail(self, body: bytes) -> bytes:
        """A body that was cut, without the begin of a value at its end, whichever characters are escaped.

        A line that was cut within base64 goes as a whole, with those before it.
        """
        joined = _without_soft_breaks(body)
        hidden = self._tail_of_lines(joined)
        return hidden if joined == body or hidden != joined else self._tail_of_lines(body)

    def _tail_of_lines(self, body: bytes) -> bytes:
        begin = max(0, len(body) - LONGEST_WRITTEN)
        if self._forms and _ESCAPES.search(end := body[begin:]):
            if self._cut is None:
                self._cut = escaped_anyhow(tuple(self._by_value), is_cut=True)
            if hit := self._cut.search(end):
                return body[: begin + hit.start()] + _MARK
        lines = _LAST_LINES.search(body[begin:])
        if lines is not None and len(joined := _LINE_END.sub(b"", lines[0])) > len(self._cut_form(joined)):
            return body[: begin + lines.start()] + _MARK
        return self._cut_form(body)

    def _cut_form(self, body: bytes) -> bytes:
        for form in self._forms:
            begin = form[:LEAST_PREFIX]
            at = body.find(begin, max(0, len(body) - len(form) + 1))
            while at >= 0:
                if form.startswith(body[at:]):
                    return body[:at] + _MARK
                at = body.find(begin, at + 1)
        return body


class _Begins:
    """Finds which of many forms may be in a text, by their first bytes, in one pass."""

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._forms = forms
        self._by_begin: dict[bytes, list[bytes]] = {}
        for form in forms:
            self._by_begin.setdefault(form[:BEGIN_BYTES], []).append(form)
        self._lengths = sorted({len(begin) for begin in self._by_begin})
        self._pattern = _compile(b"|".join(map(re2.escape, self._by_begin)))

    def find(self, text: bytes) -> Sequence[bytes]:
        """The forms of which the begin is in it, the longest first."""
        hit = self._pattern.search(text)
        if hit is None:
            return ()
        found: set[bytes] = set()
        for _ in range(MOST_HITS):
            at = hit.start()
            found.update(*(self._by_begin.get(text[at : at + length], ()) for length in self._lengths))
            hit = self._pattern.search(text, at + 1)
            if hit is None:
                return _sorted(found)
        return self._forms


def _without_soft_breaks(text: bytes) -> bytes:
    """Quoted-printable (RFC 2045) with its lines joined, once: what is a soft break only then stays."""
    return text.replace(b"=\r\n", b"").replace(b"=\n", b"")


def _compile(pattern: bytes) -> Any:
    options = re2.Options()
    options.encoding, options.max_mem = re2.Options.Encoding.LATIN1, RE2_BYTES
    options.log_errors, options.never_capture = False, True
    compiled = re2.compile(pattern, options)
    re2.purge()  # it would keep those of before
    return compiled


_NOTHING = rb"[^\x00-\xff]"
_BACKSLASHES = rb"\\+"
_AMPERSAND = rb"(?:&(?:amp;)*|\\+u0026(?:amp;)*|%(?:25)*26)"
_UNIT, _OF_BYTE = rb"(?:\\+|%(?:25)*)u", rb"(?:%(?:25)*|=|\\+x)"
_HASH, _SEMICOLON = b"(?:#|%(?:25)*23)", b"(?:;|%(?:25)*3[bB])"
_LETTERS = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}


_PART = (
    rb"(?:\\+(?:[uUx][{0-9a-fA-F]{0,7}|[0-7]{0,2})?|%(?:25)*(?:[0-9a-fA-F]?2?|u[0-9a-fA-F]{0,3})|=[0-9a-fA-F\r]?"
    rb"|(?:&|\\+u0026|%(?:25)*26)[#0-9A-Za-z&;%]{0,20}|[\\\"']{1,9})?\z"
)
"""Of an escape, or of a quote within quotes, that was cut."""


def escaped_anyhow(values: Sequence[str], *, is_cut: bool = False) -> Any:
    """Finds values any of whose characters are escaped as in JSON, HTML, XML, mail or a URL, also twice.

    As Gson, PHP, Handlebars and strict encoders write them, each of which escapes other characters. The last
    values, which are the valid ones, come before former ones where there is no room for all. `is_cut`: begins
    of them at the end of a text, of `LEAST_PREFIX` characters at least.
    """
    left, chosen = MOST_CUT if is_cut else MOST_ESCAPED, []
    for value in reversed(values):
        if len(value) <= min(LONGEST_ESCAPED, left):
            left -= len(value)
            chosen.append(value)
    longest_first = sorted(chosen, key=len, reverse=True)
    escaped = [[_quoted_anyhow(one) for one in value] for value in longest_first]
    if is_cut:
        return _compile(b"(?:%s)%s" % (b"|".join(map(_begins_of, escaped)), _PART) if escaped else _NOTHING)
    return _compile(b"|".join(map(b"".join, escaped)) or _NOTHING)


def _begins_of(escaped: Sequence[bytes]) -> bytes:
    """A pattern of all begins of a value of these characters, the longest first."""
    pattern = b""
    for one in reversed(escaped[LEAST_PREFIX:]):
        pattern = b"(?:" + one + pattern + b")?"
    return b"".join(escaped[:LEAST_PREFIX]) + pattern


def _quoted_anyhow(character: str) -> bytes:
    """A character in any escape; a quote also as CSV and SQL, which double it, and shells write it."""
    escaped = b"(?:" + b"|".join(_escapes(character)) + b")"
    if character == "'":
        return escaped + rb"""(?:(?:\\+%s|\\*"%s\\*")?%s)??""" % (escaped, escaped, escaped)
    return escaped + b"{1,2}?" if character == '"' else escaped


def _escapes(character: str) -> Iterable[bytes]:
    number, encoded = ord(character), character.encode("utf-8", "surrogatepass")
    yield re2.escape(encoded)
    units = character.encode("utf-16-be", "surrogatepass").hex()
    yield b"".join(_UNIT + b"(?i:%s)" % units[at : at + 4].encode() for at in range(0, len(units), 4))
    yield b"".join(_OF_BYTE + b"(?i:%02x)" % byte for byte in encoded)
    yield b"".join(_BACKSLASHES + b"%03o" % byte for byte in encoded)
    yield _BACKSLASHES + rb"(?:u\{0*(?i:%x)\}|U(?i:%08x))" % (number, number)
    yield _AMPERSAND + _HASH + b"(?:0*%d|[xX]0*(?i:%x))" % (number, number) + _SEMICOLON
    if name := _ENTITIES.get(number):
        yield _AMPERSAND + name.encode() + _SEMICOLON
    if character in "\"'/\\":
        yield _BACKSLASHES + re2.escape(encoded)
    if letter := _LETTERS.get(character):
        yield _BACKSLASHES + letter
    if character == " ":
        yield rb"\+"


_ENTITIES = {**codepoint2name, ord("'"): "apos"}


def _sorted(forms: Iterable[bytes]) -> Sequence[bytes]:
    return sorted(forms, key=lambda form: (-len(form), form))


NO_MASK = SecretMask(())
"""Hides nothing."""


def forms_of(value: str) -> set[bytes]:
    """The forms in which a value may come back; a name of a host is written in small letters.

    A word without a digit is not looked for in those: it may stand anywhere. A header loses the white space
    around its value, a text its byte order mark.
    """
    further = {value.replace("\n", "\r\n")}
    if len(stripped := value.strip(_AROUND)) >= LEAST_CHARACTERS:
        further.add(stripped)
    if not value.isascii():
        further |= {normalize("NFC", value), normalize("NFD", value)}
    further.update(_lines_of(value))
    forms = _forms_of(value).union(*map(_forms_of, further - {value}))
    forms |= {value.replace("'", quote).encode() for quote in ("''", "'\\''", "'\"'\"'")}  # of SQL, shells
    forms.add(value.replace('"', '""').encode())  # of CSV
    return forms | {value.lower().encode()} if _HOST.fullmatch(value) else forms


def _lines_of(value: str) -> Iterable[str]:
    """Those that are hidden by themselves, as tools print one, indent them all, or make newlines blanks.

    `-----BEGIN …-----` is no secret.
    """
    lines = value.strip().split("\n") if "\n" in value else ()
    return (one for line in lines if len(one := line.strip()) >= LEAST_LINE and not one.startswith("-----"))


def _forms_of(value: str) -> set[bytes]:
    escaped, as_latin = _escaped(value), value.encode().decode("latin-1")
    texts = {value} | escaped | {further for one in escaped for further in _escaped(one)}
    texts |= {as_latin} | _escaped(as_latin) | {_escaped_by_dotnet(value)} | _escaped_for_html(value)
    encoded = {quote(one, safe="") for one in escaped} | {quote(value, safe=safe) for safe in _UNENCODED}
    encoded |= {quote_plus(value), quote_plus(value, safe="*").replace("~", "%7E")}
    encoded |= {quote(one, safe="") for one in tuple(encoded)} | {_lower_escapes(one) for one in encoded}
    plain = {text.encode() for text in texts | encoded}
    dumps = {value.encode().hex(*between) for between in ((), (":",), (" ",), ("-",))}
    plain |= {digits.encode() for one in dumps for digits in (one, one.upper())}
    if not value.isascii() and (in_latin := value.encode("latin-1", "ignore")).decode("latin-1") == value:
        plain |= {in_latin, quote(in_latin, safe="").encode(), quote_plus(in_latin).encode()}
    return plain | {form for text in {value, *escaped} for form in _base64_forms(text.encode())}


def _escaped(text: str) -> set[str]:
    """The content of a JSON string, as different programs write it."""
    written = {json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    written |= {one.replace("/", "\\/") for one in written}
    written |= {_ESCAPE.sub(lambda found: found[0].upper(), one) for one in written}
    return written | {one.translate(_FOR_HTML) for one in written}


def _escaped_by_dotnet(text: str) -> str:
    """The same as System.Text.Json writes it."""
    written = json.dumps(text)[1:-1].replace('\\"', "\\u0022").translate(_BY_DOTNET)
    return _ESCAPE.sub(lambda found: found[0].upper(), written)


def _escaped_for_html(text: str) -> set[str]:
    """A text in a page, as one that tells of an error, with and without escapes of quotes."""
    written, quoted = html.escape(text, quote=False), html.escape(text)
    by_number = quoted.replace("&#x27;", "&#39;")
    numbered = by_number.replace("&quot;", "&#34;")
    by_template = {one.translate(table) for table in _BY_TEMPLATES for one in (by_number, numbered)}
    in_ascii = {one.encode("ascii", "xmlcharrefreplace").decode() for one in (written, quoted)}
    return {written, quoted, by_number, numbered, *by_template, *in_ascii}


def _lower_escapes(text: str) -> str:
    first, *rest = text.split("%")
    return "%".join([first, *(piece[:2].lower() + piece[2:] for piece in rest)])


def _base64_forms(data: bytes) -> Iterable[bytes]:
    """What of its base64 is the same whatever stands before and behind it."""
    for before, begin in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(bytes(before) + data)
        inner = whole[begin : (before + len(data)) * 8 // 6]
        if len(inner) >= LEAST_CHARACTERS:
            yield inner
            if b"+" in inner or b"/" in inner:
                text, encoded = inner.decode(), quote(inner, safe="")
                yield inner.replace(b"+", b"-").replace(b"/", b"_")
                written = encoded, _lower_escapes(encoded), text.replace("/", "\\/"), _escaped_by_dotnet(text)
                yield from (one.encode() for one in (*written, *_escaped_for_html(text)))
