"""How much one answer shows of executions: so many records, and so many bytes of bodies."""

from typing import TypeVar

from msgspec.structs import replace

from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    Detail,
    Exchange,
    FeedbackSeen,
    Noted,
    StepEnded,
)
from scheduler_service.domain.texts import cut
from scheduler_service.domain.wire import Headers
from scheduler_service.persistence.history.row_merging import DeliveryDetail

MOST_RECORDS = 5_000
MOST_NOTIFICATIONS = 1_000
BODIES_BYTES = 4 << 20
TEXT_CHARACTERS = 200
"""So much of each text, as of a URL, a record shows that comes after the bodies have used up their bytes."""

T = TypeVar("T")
# A control character is six characters in JSON, a quotation mark is two.
_CONTROLS = bytes(range(32))
_CONTROL_BYTES = 5
_QUOTED = b'"\\'
# What each value in a report, and each header, takes as an object beside its text, roughly.
_STRUCTURE = (b",", b":", b"[", b"{")
_VALUE_BYTES = 40


class AnswerBudget:
    """What may still be shown in one answer. It is to be filled with the newest first.

    The first record whose bodies, headers and long texts do not fit, and all after it, are shown without
    them and marked as truncated.
    """

    def __init__(
        self,
        *,
        records: int = MOST_RECORDS,
        notifications: int = MOST_NOTIFICATIONS,
        bodies_bytes: int = BODIES_BYTES,
    ) -> None:
        self._is_whole = True
        self._is_begun = False
        self._records = records
        self._notifications = notifications
        self._bytes = bodies_bytes

    @property
    def notifications(self) -> int:
        """How many notifications may still be shown."""
        return self._notifications

    def begin_execution(self) -> bool:
        """Begins one more execution; whether it is the first of the answer."""
        is_first, self._is_begun = not self._is_begun, True
        return is_first

    def take_record(self) -> bool:
        """Whether one more record may be shown; it is then counted."""
        if self._records == 0:
            return False
        self._records -= 1
        return True

    def has_left_out(self) -> bool:
        """Whether something is not shown."""
        return not self._is_whole

    def leave_out(self) -> None:
        """Notes that something is not shown."""
        self._is_whole = False

    def fit_record(self, record: Detail) -> Detail:
        """The record as it is shown."""
        return self._fit(record, _weigh_record(record), _shorten_record(record))

    def fit_notification(self, url: str, detail: DeliveryDetail) -> tuple[str, DeliveryDetail]:
        """The URL and the detail of one more notification as they are shown."""
        self._notifications -= 1
        weight = len(url) + sum(len(one.fault or "") for one in detail.tries)
        weight += 0 if detail.exchange is None else _weigh_exchange(detail.exchange)
        return self._fit((url, detail), weight, (cut(url, TEXT_CHARACTERS), _shorten_delivery(detail)))

    def fit_params(self, params: bytes | None) -> bytes | None:
        """The trigger parameters as they are shown; None where there is no room for them."""
        return None if params is None else self._fit(params, _weigh_report(params), None)

    def _fit(self, whole: T, weight: int, short: T) -> T:
        if weight <= self._bytes:
            self._bytes -= weight
            return whole
        if short == whole:
            return whole
        self._bytes = 0
        self._is_whole = False
        return short


def _weigh_record(record: Detail) -> int:
    """The bytes that its bodies, headers and texts take in an answer, roughly."""
    match record:
        case StepEnded() | CheckEnded():
            return _weigh_exchange(record.exchange)
        case FeedbackSeen():
            return _weigh_body(record.body) if record.truncated else _weigh_report(record.body)
        case AttemptEnded():
            return len(record.message or "")
        case Noted():
            return len(record.text)
        case _:
            return 0


def _weigh_exchange(exchange: Exchange) -> int:
    headers = (*exchange.request_headers, *exchange.response_headers)
    texts = len(exchange.url) + len(exchange.fault or "")
    texts += sum(_VALUE_BYTES + len(name) + len(value) for name, value in headers)
    return texts + _weigh_body(exchange.request_body) + _weigh_body(exchange.response_body)


def _weigh_body(body: bytes | None) -> int:
    if not body:
        return 0
    return len(body) + _CONTROL_BYTES * _count(body, _CONTROLS) + _count(body, _QUOTED)


def _count(body: bytes, these: bytes) -> int:
    return len(body) - len(body.translate(None, these))


def _weigh_report(body: bytes) -> int:
    """A body that is decoded for an answer: many small values take more than their text."""
    return _weigh_body(body) + _VALUE_BYTES * sum(map(body.count, _STRUCTURE))


def _shorten_record(record: Detail) -> Detail:
    match record:
        case StepEnded() | CheckEnded():
            return replace(record, exchange=_shorten_exchange(record.exchange))
        case FeedbackSeen():
            return replace(record, body=b"", truncated=True) if record.body else record
        case AttemptEnded():
            return replace(record, message=cut(record.message, TEXT_CHARACTERS))
        case Noted():
            return replace(record, text=cut(record.text, TEXT_CHARACTERS))
        case _:
            return record


def _shorten_delivery(detail: DeliveryDetail) -> DeliveryDetail:
    exchange = None if detail.exchange is None else _shorten_exchange(detail.exchange)
    tries = tuple(replace(one, fault=cut(one.fault, TEXT_CHARACTERS)) for one in detail.tries)
    return replace(detail, exchange=exchange, tries=tries)


def _shorten_exchange(exchange: Exchange) -> Exchange:
    return replace(
        exchange,
        url=cut(exchange.url, TEXT_CHARACTERS),
        fault=cut(exchange.fault, TEXT_CHARACTERS),
        request_headers=(),
        request_body=None,
        request_truncated=_is_truncated(
            exchange.request_headers, exchange.request_body, before=exchange.request_truncated
        ),
        response_headers=(),
        response_body=None,
        response_truncated=_is_truncated(
            exchange.response_headers, exchange.response_body, before=exchange.response_truncated
        ),
    )


def _is_truncated(headers: Headers, body: bytes | None, *, before: bool) -> bool:
    return before or bool(headers) or body is not None
