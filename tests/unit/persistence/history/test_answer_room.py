"""How much one answer shows: the newest with their bodies, the rest without them."""

from typing import Any

import pytest

from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    DeliveryTry,
    FeedbackSeen,
    Noted,
    StepEnded,
)
from scheduler_service.persistence.history.answer_room import TEXT_CHARACTERS, AnswerBudget
from scheduler_service.persistence.history.coalesce import DeliveryDetail
from tests.unit.persistence.history.samples import START, exchange

LONG = "x" * 1_000
SHORT = "x" * (TEXT_CHARACTERS - 1) + "…"


@pytest.mark.parametrize("kind", [StepEnded, CheckEnded])
def test_an_exchange_beyond_the_room_keeps_its_line(kind: Any) -> None:
    """Its times and its status; neither headers nor bodies, and marked so; its URL is cut."""
    room = AnswerBudget(bodies_bytes=10)
    given = exchange(url=f"http://{LONG}", response_body=b"", fault=LONG)
    shown = room.fit_record(kind(1, 1, 0, START, given)).exchange  # type: ignore[union-attr]
    assert (shown.request_headers, shown.request_body, shown.response_headers) == ((), None, ())
    assert (shown.response_body, shown.request_truncated, shown.response_truncated) == (None, True, True)
    assert (len(shown.url), shown.fault, shown.status) == (TEXT_CHARACTERS, SHORT, 200)
    assert (shown.sent_at, shown.duration) == (START + 20, 7)
    assert room.has_left_out()


def test_a_message_that_had_nothing_is_not_marked() -> None:
    """Only what is left out is."""
    room = AnswerBudget(bodies_bytes=10)
    given = exchange(request_headers=(), request_body=None)
    shown: Any = room.fit_record(StepEnded(1, 1, 0, START, given))
    assert (shown.exchange.request_truncated, shown.exchange.response_truncated) == (False, True)


def test_other_records_beyond_the_room() -> None:
    """A feedback loses its report, long texts their end; a record without either is as it was."""
    room = AnswerBudget(bodies_bytes=10)
    started = AttemptStarted(1, 1, START, reason="retry")
    assert room.fit_record(started) == started
    assert not room.has_left_out()
    feedback = FeedbackSeen(1, 1, START, LONG.encode(), stale=True)
    assert room.fit_record(feedback) == FeedbackSeen(1, 1, START, b"", stale=True, truncated=True)
    ended: Any = room.fit_record(AttemptEnded(1, 1, START, error="500", message=LONG))
    noted: Any = room.fit_record(Noted(1, START, "note", LONG))
    assert (ended.message, ended.error, noted.text) == (SHORT, "500", SHORT)


def test_nothing_older_is_shown_whole_after_the_first_that_did_not_fit() -> None:
    """So no body has a gap of others before it."""
    room = AnswerBudget(bodies_bytes=1_500)
    room.fit_record(FeedbackSeen(1, 1, START, b"x" * 2_000))
    small = FeedbackSeen(1, 1, START, b"{}")
    assert room.fit_record(small) == FeedbackSeen(1, 1, START, b"", truncated=True)


def test_headers_count_as_what_they_take_in_the_answer() -> None:
    """Many small ones take more than their text."""
    headers = tuple((str(number), "") for number in range(1_000))
    step = StepEnded(1, 1, 0, START, exchange(request_headers=headers))
    assert AnswerBudget(bodies_bytes=20_000).fit_record(step) != step


def test_quotation_marks_count_twice() -> None:
    """As in JSON, whatever body they are in."""
    step = StepEnded(1, 1, 0, START, exchange(response_body=b'"' * 2_000))
    assert AnswerBudget(bodies_bytes=3_900).fit_record(step) != step
    assert AnswerBudget(bodies_bytes=4_400).fit_record(step) == step


@pytest.mark.parametrize(
    "body", [b'{"a":[' + b",".join([b"[]"] * 1_000) + b"]}", b'"' + b"\x01" * 4_000 + b'"']
)
def test_a_body_counts_as_what_it_takes_in_the_answer(body: bytes) -> None:
    """Many small values take more than their text, control characters six times it in JSON."""
    room = AnswerBudget(bodies_bytes=4 * len(body))
    feedback = FeedbackSeen(1, 1, START, body)
    assert room.fit_record(feedback) != feedback


def test_a_report_that_was_cut_counts_as_the_text_that_it_is() -> None:
    """It is not decoded."""
    body = b'{"a":[' + b",".join([b"[]"] * 1_000)
    feedback = FeedbackSeen(1, 1, START, body, truncated=True)
    assert AnswerBudget(bodies_bytes=len(body) + 2).fit_record(feedback) == feedback


def test_notifications_share_the_room() -> None:
    """What attempts left of it; they are counted."""
    room = AnswerBudget(bodies_bytes=2_500, notifications=5)
    detail = DeliveryDetail((DeliveryTry(START, fault=LONG),), exchange(response_body=LONG.encode()), START)
    assert room.fit_notification("http://n", detail) == ("http://n", detail)
    url, shown = room.fit_notification(f"http://{LONG}", detail)
    assert len(url) == TEXT_CHARACTERS
    assert (shown.tries, shown.next_try_at) == ((DeliveryTry(START, fault=SHORT),), START)
    assert shown.exchange is not None
    assert (shown.exchange.response_body, shown.exchange.response_truncated) == (None, True)
    assert room.notifications == 3


def test_parameters_need_room_too() -> None:
    """Those of a child may be large."""
    room = AnswerBudget(bodies_bytes=200)
    assert (room.fit_params(None), room.fit_params(b"{}")) == (None, b"{}")
    assert not room.has_left_out()
    assert room.fit_params(b"x" * 200) is None
    assert room.has_left_out()
