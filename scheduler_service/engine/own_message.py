"""What a target says of its failure, in one line for people (SPEC section 5.1)."""

import re
from html import unescape

from scheduler_service.domain.feedback_tokens import MARK
from scheduler_service.domain.saying import cut_message
from scheduler_service.domain.wire import Answer
from scheduler_service.language.values import NOT_TEXT, parse_response, show_text

FIRST = ("detail", "message", "error", "msg")
FURTHER = ("title", "errorMessage", "error_description", "errmsg")
"""Members of a JSON object that say it: one of these after `error.message`, and before what lies deeper."""

MARKUP_CHARACTERS = 16_384
"""So much of a page is looked through."""
LARGEST_ODD_SHARE = 4
"""A body of which one character in so many is no text, or more, says nothing."""

_ODD = re.compile("[\udc80-\udcff]")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\S ]|[\x00-\x1f\x7f-\x9f]")
_TAG = re.compile(r"<([^<>]*)>")
_SILENT = ("script", "style", "head")


def own_message(answer: Answer, token: str) -> str | None:
    """The message of an answer that fails: a member of its JSON, the title of its page, or its first line.

    None: it says nothing. It has no `token` of its attempt, and no control characters. Bytes that are no text
    are shown as `\\xNN`.
    """
    said = _said(_read(answer.body))
    if said.lstrip().startswith("<"):
        said = _said_in_page(said[:MARKUP_CHARACTERS])
    line = _CONTROL.sub(" ", said.strip().partition("\n")[0]).strip()
    return cut_message(line.replace(token, MARK)) or None


def _read(body: bytes) -> object:
    value = parse_response(body)
    if value is not NOT_TEXT:
        return value
    text = body.decode("utf-8-sig", "surrogateescape")
    if len(_ODD.findall(text)) * LARGEST_ODD_SHARE >= len(text):
        return None
    # In JSON a backslash is written twice.
    spelt = _ODD.sub(lambda odd: f"\\\\x{ord(odd[0]) - 0xDC00:02x}", text)
    value = parse_response(spelt.encode())
    return show_text(body) if value == spelt else value


def _said(value: object) -> str:
    """The first text that says something; of an array its first item's."""
    match value:
        case str():
            return value
        case [first, *_]:
            return _said(first)
        case dict():
            error = value.get("error")
            inner = error.get("message") if isinstance(error, dict) else None
            texts = [*map(value.get, FIRST), inner, *map(value.get, FURTHER)]
            found = next((one for one in texts if isinstance(one, str) and one.strip()), "")
            deeper = (error, value.get("errors"), value.get("detail"))
            return found or next((text for one in deeper if (text := _said(one)).strip()), "")
    return ""


def _said_in_page(page: str) -> str:
    """The title of a page of HTML or XML, else its first text."""
    parts = _TAG.split(page)
    first = silent = ""
    for tag, text in zip(["", *parts[1::2]], parts[::2], strict=True):
        name, said = tag.partition(" ")[0].lower(), " ".join(unescape(text).split())
        if name == "title" and said:
            return said
        if name in _SILENT:
            silent = name
        elif name == f"/{silent}":
            silent = ""
        if not silent:
            first = first or said
    return first
