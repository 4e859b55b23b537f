"""Reads targets' answers and reports, and takes reports as verdicts (SPEC sections 5 and 5.1)."""

import hashlib
import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from html import unescape

import msgspec

from scheduler_service.domain.document import Open, Report
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import SECOND, as_moment
from scheduler_service.domain.texts import cut_error, cut_message, cut_progress, cut_status
from scheduler_service.domain.token_masks import MARK
from scheduler_service.domain.wire import Answer, Headers
from scheduler_service.engine.answer_rules import UNJUDGED, text_in
from scheduler_service.engine.attempt import Broken, fail, keep_result, succeed
from scheduler_service.engine.program import AnswerRule
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.language.json_values import NOT_TEXT, as_json, as_text, parse_response, show_text

SUCCEED_WORDS = frozenset({"succeed", "success", "succeeded"})
FAILED_WORD = "failed"
TEXTS: dict[str, Callable[[str | None], str | None]] = {
    "error": cut_error,
    "message": cut_message,
    "progress": cut_progress,
}
"""The texts of a report, and how each is cut."""

DIGEST = 12
"""Bytes of a report's digest."""

WAIT_MAX_SECONDS = 30 * 24 * 3600

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


class UnreadableReport(msgspec.Struct, frozen=True):
    """A report that cannot be read: where it is wrong, and why."""

    pointer: str
    message: str


def read_report(value: object, token: str) -> Report | UnreadableReport:
    """A check's answer or a feedback; `status` becomes empty (running), `succeed` or `failed`.

    Its texts are cut, in `body` too: nothing else that an execution keeps of a report has a limit of its own.
    A target that repeats the `token` of its attempt, in whatever form, does not make it known to others.
    """
    if not isinstance(value, dict):
        return UnreadableReport("", "a report is a JSON object with a member status")
    status = _status(_hide(value.get("status"), token))
    if isinstance(status, UnreadableReport):
        return status
    said = {name: _text(value.get(name)) for name in TEXTS}
    kept = {name: cut(_text(_hide(said[name], token))) for name, cut in TEXTS.items()}
    shorter = {name: text for name, text in kept.items() if text != said[name]}
    body = as_json(value | shorter if shorter else value)
    return Report(status=status, body=body.replace(token.encode(), MARK.encode()), **kept)


def _hide(said: object, token: str) -> object:
    return said.replace(token, MARK) if isinstance(said, str) else said


def digest_of(report: Report) -> bytes:
    """The digest by which a repetition of the deciding feedback is recognised."""
    return hashlib.sha256(report.body).digest()[:DIGEST]


def has_decided(digest: bytes, report: Report, shard: int | None) -> bool:
    """Whether this report decided the attempt that ended with `digest`; of several parts, part `shard`."""
    place = 0
    if len(digest) > DIGEST:
        if shard is None or shard < 0:
            return False
        place = shard * DIGEST
    return digest[place : place + DIGEST] == digest_of(report)


def settle(turn: TurnState, run: Open, report: Report) -> None:
    """Ends the attempt by a report: it succeeded, or it failed with the report's code."""
    if report.status != FAILED_WORD:
        if turn.program_of(run).keeps_result:
            keep_result(turn, run, report.body)
        succeed(turn, run, digest_of(report))
        return
    code = report.error or FAILED_WORD
    message = report.message or f"the target reported {code}"
    last = len(turn.program_of(run).steps) - 1
    fail(turn, run, Broken(Failure(code, FailureType.BUSINESS), message, last), digest_of(report))


def find_header(headers: Headers, name: str) -> str | None:
    """The first value of header `name` (lower case), or None."""
    return next((value for key, value in headers if key.lower() == name), None)


def read_retry_after(answer: Answer, now: int) -> int | None:
    """`Retry-After` of an answer as ms from `now` (RFC 9110, 10.2.3); None: it is absent or unreadable.

    A date counts from the answer's own `Date`, so that it also works for a target whose clock is off.
    """
    text = find_header(answer.headers, "retry-after")
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return min(int(text.strip()[:12]), WAIT_MAX_SECONDS) * SECOND
    then, sent = _moment(text), _moment(find_header(answer.headers, "date") or "")
    if then is None:
        return None
    return min(max(then - (now if sent is None else sent), 0), WAIT_MAX_SECONDS * SECOND)


def message_of(rule: AnswerRule | None, answer: Answer, token: str, otherwise: str) -> str:
    """The message of an answer that fails: what `messageFrom` finds, its `own_message`, or `otherwise`.

    Why it could not be judged is said behind its own text.
    """
    own = _in_line(text_in(rule, answer), token) or own_message(answer, token)
    if own and otherwise in UNJUDGED:
        return cut_message(f"{own}; {otherwise}")
    return own or otherwise


def own_message(answer: Answer, token: str) -> str | None:
    """The message of an answer that fails: a member of its JSON, the title of its page, or its first line.

    None: it says nothing. It has no `token` of its attempt, and no control characters. Bytes that are no text
    are shown as `\\xNN`.
    """
    said = _said(_read(answer.body))
    if said.lstrip().startswith("<"):
        said = _said_in_page(said[:MARKUP_CHARACTERS])
    return _in_line(said.strip().partition("\n")[0], token) or None


def _in_line(said: str, token: str) -> str:
    shown = said.replace(token, MARK) if token else said
    return cut_message(_CONTROL.sub(" ", shown).strip())


def _status(value: object) -> str | UnreadableReport:
    if value is None or value == "":
        return ""
    if isinstance(value, str) and value in SUCCEED_WORDS:
        return "succeed"
    if value == FAILED_WORD:
        return FAILED_WORD
    words = "succeed, failed, or nothing while it runs"
    return UnreadableReport("/status", f"status is {cut_status(as_text(value))!r}; expected {words}")


def _text(value: object) -> str | None:
    return None if value is None or value == "" else as_text(value)


def _moment(text: str) -> int | None:
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return None if parsed.tzinfo is None else as_moment(parsed)


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
