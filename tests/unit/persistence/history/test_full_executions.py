"""One execution in full, as far as an answer goes; the newest of several jobs (SPEC section 10)."""

from collections.abc import Iterable
from typing import Any

import pytest

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import (
    REPLAY,
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    Detail,
    FeedbackSeen,
    Noted,
    Record,
    StepEnded,
    write_replayed,
)
from scheduler_service.persistence.history.answer_budget import (
    BODIES_BYTES,
    MOST_NOTIFICATIONS,
    MOST_RECORDS,
    TEXT_CHARACTERS,
    AnswerBudget,
)
from scheduler_service.persistence.history.full_executions import OLDEST_RECORDS, ShownRecords, read_shown
from scheduler_service.persistence.history.row_merging import DeliveryDetail
from scheduler_service.persistence.history.stored_records import (
    PORTION_BYTES,
    ROWS,
    read_last_exchanges,
    read_newest_first,
    read_oldest_first,
)
from scheduler_service.security.history_masking import Masking
from tests.rows import each_row
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write, write_one_of_everything
from tests.unit.persistence.history.samples import START, attempt, batch, exchange, execution

pytestmark = pytest.mark.anyio


async def test_one_execution_has_every_member(room: Room) -> None:
    """SPEC section 10: attempts with steps, checks and feedback, notifications with attempts."""
    await write_one_of_everything(room)
    found: Any = await room.reads.execution("default", "u1-1")
    assert found["state"] == "terminated"
    (one,) = found["attempts"]
    assert {name: one[name] for name in ("requestCounts", "startedAt", "endedAt", "error", "retryInMs")} == {
        "requestCounts": 7,
        "startedAt": rfc3339(START + 1_010),
        "endedAt": rfc3339(START + 1_600),
        "error": "500",
        "retryInMs": 2_000,
    }
    first, second = one["steps"]
    assert first == {
        "index": 0,
        "part": None,
        "instance": None,
        "respEnvName": "first",
        "method": "POST",
        "url": "http://127.0.0.1/work",
        "status": 200,
        "fault": None,
        "error": None,
        "sentAt": rfc3339(START + 20),
        "endedAt": rfc3339(START + 1_100),
        "durationMs": 7,
        "request": {"headers": {"X-One": "1", "X-Two": "a, b"}, "body": '{"n":1}', "truncated": False},
        "response": {
            "headers": {"Content-Type": "application/json"},
            "body": '{"ok":true}',
            "truncated": False,
        },
    }
    assert (second["status"], second["fault"], second["error"], second["response"]) == (
        None,
        "refused",
        "500",
        None,
    )
    (check,) = one["checks"]
    assert (check["serial"], check["status"], check["progress"], check["httpStatus"]) == (1, "", "1/2", 200)
    assert check["progressFraction"] == 0.5
    assert one["feedback"] == [
        {
            "at": rfc3339(START + 1_400),
            "stale": True,
            "part": None,
            "truncated": False,
            "progress": "30%",
            "progressFraction": 0.3,
            "body": {"status": "failed", "progress": "30%"},
        }
    ]
    (notification,) = found["notifications"]
    assert {name: notification[name] for name in ("name", "event", "url", "state")} == {
        "name": "ops",
        "event": "finalFailed",
        "url": "http://127.0.0.1/n",
        "state": "failed",
    }
    assert notification["attempts"] == [
        {"at": rfc3339(START + 1_800), "status": None, "fault": "timeout", "durationMs": 50},
        {"at": rfc3339(START + 9_000), "status": 500, "fault": None, "durationMs": 0},
    ]


async def test_parts_are_listed_by_their_index(room: Room) -> None:
    """Whoever ended first; the step as a whole follows them, then the next step (SPEC sections 10, 13)."""
    ended = [(0, 2), (0, 0), (0, 1), (0, None), (1, 1), (1, 0), (1, None)]
    steps = [StepEnded(1, 1, index, START, exchange(), part=part) for index, part in ended]
    await write(room, batch(1, execution(), *steps))
    found: Any = await room.reads.execution("default", "u1-1")
    listed = [(step["index"], step["part"]) for step in found["attempts"][0]["steps"]]
    assert listed == [(0, 0), (0, 1), (0, 2), (0, None), (1, 0), (1, 1), (1, None)]


async def test_what_came_instead_of_an_answer_is_shown(room: Room) -> None:
    """A failed part has no status, but a response: what its completion said (SPEC sections 10, 13).

    Bytes that are no UTF-8 keep their values.
    """
    failed = exchange(status=None, fault="full", response_body=b'{"left":0}')
    binary = StepEnded(1, 1, 1, START, exchange(response_body=b"\xff\x00"))
    await write(room, batch(1, execution(), StepEnded(1, 1, 0, START, failed, error="disk"), binary))
    found: Any = await room.reads.execution("default", "u1-1")
    step, other = found["attempts"][0]["steps"]
    assert (step["status"], step["fault"], step["response"]["body"]) == (None, "full", '{"left":0}')
    assert (other["response"]["body"], other["response"]["encoding"]) == ("ff00", "hex")


ATTEMPTS = (
    ([{0: 200, 1: 500}, {0: 201}], {0: 201}),
    ([{0: 200, 1: 500}, {1: 201, 2: 500}, {2: 202}], {0: 200, 1: 201, 2: 202}),
    ([{0: 200, 1: 201, 2: 500}, {0: 202, 1: 500}, {1: 203}], {0: 202, 1: 203}),
    ([], {}),
)


async def test_the_last_attempt_has_what_it_kept_of_earlier_ones(room: Room) -> None:
    """With `retryFrom: step` it begins later; a step that it did not reach is not its own
    (SPEC sections 6, 10)."""
    for number, (attempts, expected) in enumerate(ATTEMPTS, 1):
        steps = [
            StepEnded(number, counts, index, START + counts, exchange(status=status))
            for counts, sent in enumerate(attempts, 1)
            for index, status in sent.items()
        ]
        await write(room, batch(number, execution(number), *steps))
        found = await room.reads.exchanges("default", f"u1-{number}")
        assert found is not None
        assert {index: one.status for index, one in found.items()} == expected


def feedback(number: int, body: bytes = b"{}", *, of: int = 1) -> FeedbackSeen:
    """Of the attempt `of`."""
    return FeedbackSeen(1, of, START + number, body)


async def test_of_an_execution_that_polls_for_days_the_newest_are_shown(file_room: Room) -> None:
    """And how it began; the answer says that some are left out."""
    count = MOST_RECORDS + OLDEST_RECORDS + 100
    begun = batch(1, execution(), AttemptStarted(1, 1, START))
    await write(file_room, begun, *(batch(number, feedback(number)) for number in range(2, count)))
    found: Any = await file_room.reads.execution("default", "u1-1")
    (one,) = found["attempts"]
    assert (found["detail"], one["startedAt"] is not None) == ("partial", True)
    assert len(one["feedback"]) == MOST_RECORDS + OLDEST_RECORDS - 1
    last: Any = await file_room.reads.log("default", "u1-1", limit=count + 1)
    assert one["feedback"][-1]["at"] == last.items[-1]["at"]


async def test_bodies_of_one_answer_are_bounded_together(file_room: Room) -> None:
    """The newest are shown; the others have their lines alone, marked as truncated."""
    body = b'"' + b"x" * 65_533 + b'"'
    count = BODIES_BYTES // len(body) + 10
    await write(file_room, batch(1, execution(), *(feedback(number, body) for number in range(count))))
    found: Any = await file_room.reads.execution("default", "u1-1")
    shown = found["attempts"][0]["feedback"]
    assert (found["detail"], len(shown)) == ("partial", count)
    assert [(one["body"], one["truncated"]) for one in shown[:10]] == [(None, True)] * 10
    assert [one["truncated"] for one in shown[-5:]] == [False] * 5
    assert sum(len(one["body"] or "") for one in shown) <= BODIES_BYTES


async def test_of_many_notifications_the_newest_are_shown(file_room: Room) -> None:
    """In the order of their creation; their bodies share the room with those of the attempts."""
    told = [
        DeliveryRecord(
            f"d{number}",
            *(1, 1, "progress", "http://n", "delivered"),
            created_at=START + number,
            exchange=exchange(response_body=b"x" * 6_000),
        )
        for number in range(MOST_NOTIFICATIONS + 5)
    ]
    await write(file_room, batch(1, execution()), batch(0, *told))
    found: Any = await file_room.reads.execution("default", "u1-1")
    shown = found["notifications"]
    assert found["detail"] == "partial"
    assert [one["deliveryId"] for one in shown] == [f"d{n}" for n in range(5, MOST_NOTIFICATIONS + 5)]
    assert (shown[0]["response"]["body"], shown[0]["response"]["truncated"]) == (None, True)
    assert len(shown[-1]["response"]["body"]) == 6_000


@each_row(
    ("detail", "error", "word"),
    [
        ("all", None, "kept"),
        ("failures", "500", "kept"),
        ("failures", None, "brief"),
        ("none", None, "brief"),
    ],
)
async def test_what_the_job_keeps_less_of_is_brief(
    room: Room, detail: str, error: str | None, word: str
) -> None:
    """Not as if nothing had been sent (`historyDetail`, SPEC section 12)."""
    uid, state = f"{detail}{error}", "terminated" if error else "succeeded"
    records = (*attempt(1, 1, error=error), execution(state=state, error=error, attempt_count=1))
    await write(room, batch(1, *Masking(detail=detail).redact_all(records), uid=uid, job_id=uid))
    found: Any = await room.reads.execution("default", f"{uid}-1")
    assert (found["detail"], found["attemptCount"]) == (word, 1)
    alone: Any = await room.reads.execution("default", f"{uid}-1", 7)
    assert alone["detail"] == "kept"


async def test_one_attempt_alone_has_its_notifications(room: Room) -> None:
    """And what the execution has; one that is not there has none."""
    told = [
        DeliveryRecord(f"d{number}", 1, number, "failed", "http://n", "delivered", created_at=START)
        for number in (1, 2)
    ]
    last = execution(state="terminated", error="500")
    await write(room, *(batch(number, *attempt(1, number, error="500")) for number in (1, 2)))
    await write(room, batch(3, last), batch(0, *told))
    found: Any = await room.reads.execution("default", "u1-1", 1)
    assert [one["requestCounts"] for one in found["attempts"]] == [1]
    assert [one["deliveryId"] for one in found["notifications"]] == ["d1"]
    assert (found["error"], found["detail"]) == ("500", "kept")
    missing: Any = await room.reads.execution("default", "u1-1", 7)
    assert (missing["attempts"], missing["notifications"], missing["state"]) == ([], [], "terminated")


async def some_jobs(room: Room, *sizes: int) -> list[str]:
    """Jobs `j0`, `j1`, …, each with an execution that has a body of that size."""
    for number, size in enumerate(sizes):
        life = {"uid": f"u{number}", "job_id": f"j{number}"}
        body = b'"' + b"x" * size + b'"'
        await write(room, batch(1, execution(), feedback(1, body), **life))
    return [f"j{number}" for number in range(len(sizes))]


async def test_children_are_read_as_long_as_they_fit_whole(file_room: Room) -> None:
    """The first that does not is left to the next page, and whole there."""
    half = BODIES_BYTES // 2
    jobs = ["none", *await some_jobs(file_room, half, half - 1_000, half, 10)]
    first = await file_room.reads.children_latest("default", jobs, room=AnswerBudget(), limit=10)
    assert ([one["jobId"] for one in first.items], first.count) == (["j0", "j1"], 3)
    rest = jobs[first.count :]
    second = await file_room.reads.children_latest("default", rest, room=AnswerBudget(), limit=10)
    assert ([one["jobId"] for one in second.items], second.count) == (["j2", "j3"], 2)
    assert {one["detail"] for one in (*first.items, *second.items)} == {"kept"}


async def test_children_are_read_as_long_as_there_are_records_left(file_room: Room) -> None:
    """One of which no record could be shown is left to the next page."""
    jobs = []
    for number in range(6):
        records = [feedback(one) for one in range(10)]
        await write(file_room, batch(1, execution(), *records, uid=f"u{number}", job_id=f"j{number}"))
        jobs.append(f"j{number}")
    pages = []
    while jobs:
        found = await file_room.reads.children_latest(
            "default", jobs, room=AnswerBudget(records=25), limit=10
        )
        pages.append([one["detail"] for one in found.items])
        jobs = jobs[found.count :]
    assert pages == [["kept"] * 3] * 2


async def test_a_child_that_is_too_large_for_any_answer_has_a_page_of_its_own(file_room: Room) -> None:
    """It is shown in part: so a page always goes on."""
    jobs = await some_jobs(file_room, BODIES_BYTES + 1, 10)
    found = await file_room.reads.children_latest("default", jobs, room=AnswerBudget(), limit=10)
    assert ([one["detail"] for one in found.items], found.count) == (["partial"], 1)


async def test_children_are_counted(room: Room) -> None:
    """Those without an execution do not count."""
    jobs = ["a", *await some_jobs(room, 1, 1, 1), "z"]
    found = await room.reads.children_latest("default", jobs, room=AnswerBudget(), limit=2)
    assert ([one["jobId"] for one in found.items], found.count) == (["j0", "j1"], 3)
    found = await room.reads.children_latest("default", ["a", "z"], room=AnswerBudget(), limit=0)
    assert (found.items, found.count) == ([], 2)


def read(room: Room, space: AnswerBudget, request_counts: int | None = None) -> ShownRecords:
    with room.database.reading() as connection:
        return read_shown(connection, "u1", 1, space, request_counts)


def moments(records: Iterable[Detail]) -> list[int]:
    return [record.at - START for record in records]


async def fill(room: Room, count: int) -> None:
    """So many records, of which the first begins the attempt; two turns share a row."""
    records: list[Record] = [AttemptStarted(1, 1, START), *map(feedback, range(1, count))]
    await write(room, *(batch(number, record) for number, record in enumerate(records, 1)))


async def test_where_the_oldest_reach_to_the_newest_nothing_is_missing(room: Room) -> None:
    """The answer has all."""
    await fill(room, 40)
    space = AnswerBudget(records=20)
    assert moments(read(room, space).records) == [*range(40)]
    assert not space.has_left_out()


async def test_what_was_written_twice_counts_once(room: Room) -> None:
    """After a crash the writer may write turns again, in rows with others."""
    await write(room, batch(1, feedback(1)), batch(2, feedback(2)))
    await write(room, batch(2, feedback(2)), batch(3, feedback(3)))
    space = AnswerBudget(records=3)
    assert moments(read(room, space).records) == [1, 2, 3]
    assert not space.has_left_out()
    assert not space.take_record()


async def test_the_end_of_an_early_attempt_is_not_the_last_one(room: Room) -> None:
    """Where the records between are left out, how the last one ended may be unknown."""
    first = AttemptEnded(1, 1, START, "500", message="of the first")
    await write(room, batch(1, first), *(batch(number, feedback(number, of=2)) for number in range(2, 600)))
    assert read(room, AnswerBudget(records=20)).ended is None
    assert read(room, AnswerBudget()).ended == first


async def test_one_attempt_alone(room: Room) -> None:
    """Its records, also those that came late; of the others the last end alone, which says why it failed."""
    await write(room, *(batch(number, *attempt(1, number, error="500")) for number in (1, 2, 3)))
    await write(room, batch(4, feedback(9, of=2)), batch(5, execution()))
    space = AnswerBudget()
    found = read(room, space, 2)
    assert [type(record).__name__ for record in found.records] == [
        "AttemptStarted",
        "StepEnded",
        "AttemptEnded",
        "FeedbackSeen",
    ]
    assert {record.request_counts for record in found.records} == {2}
    assert found.ended is not None
    assert found.ended.request_counts == 3
    assert not space.has_left_out()


async def test_an_attempt_that_is_not_there_has_no_records(room: Room) -> None:
    """Whether others are before or after it."""
    await write(room, *(batch(number, *attempt(1, number)) for number in (2, 4)))
    assert [read(room, AnswerBudget(), counts).records for counts in (0, 3, 9)] == [[], [], []]


async def test_of_one_attempt_the_newest_and_the_oldest_are_shown(file_room: Room) -> None:
    """As of an execution."""
    await fill(file_room, OLDEST_RECORDS + 30)
    space = AnswerBudget(records=20)
    shown = moments(read(file_room, space, 1).records)
    assert shown == [*range(OLDEST_RECORDS), *range(OLDEST_RECORDS + 10, OLDEST_RECORDS + 30)]
    assert space.has_left_out()


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


async def test_many_rows_are_read_in_portions(file_room: Room) -> None:
    """More rows than sizes are looked up at once, more bytes than are read at once."""
    body = b"x" * (PORTION_BYTES // 3)
    for number in range(1, 11):
        await write(file_room, batch(number, FeedbackSeen(1, 1, START, body)))
    small = [(1, number, number, b"\x90") for number in range(100, 100 + ROWS + 50)]
    with file_room.database.writing() as connection:
        connection.exec_driver_sql(
            "INSERT INTO entries (uid, execute_number, first, last, payload) VALUES ('u1', ?, ?, ?, ?)", small
        )
    with file_room.database.reading() as connection:
        places = [stored.place for stored in read_newest_first(connection, "u1", 1)]
        again = [stored.place for stored in read_oldest_first(connection, "u1", 1)]
    assert places == [(number, 0) for number in range(10, 0, -1)]
    assert again == places[::-1]


def step(request_counts: int, index: int, body: bytes, part: int | None = None, number: int = 1) -> StepEnded:
    return StepEnded(number, request_counts, index, START, exchange(response_body=body), part=part)


async def responses(room: Room) -> dict[int, bytes | None]:
    with room.database.reading() as connection:
        found = read_last_exchanges(connection, "u1", 1)
    return {index: one.response_body for index, one in found.items()}


async def test_bodies_are_whole_however_much_came_after_them(file_room: Room) -> None:
    """No bound of an answer holds here: a replay needs exactly what was answered."""
    large = b"x" * (BODIES_BYTES // 2)
    steps = [step(1, index, large) for index in range(3)]
    await write(file_room, batch(1, execution(), *steps))
    later = [batch(number, FeedbackSeen(1, 1, START, b"{}")) for number in range(2, 5_700)]
    await write(file_room, *later)
    assert await responses(file_room) == dict.fromkeys(range(3), large)


async def test_a_replay_has_the_responses_with_which_it_began(room: Room) -> None:
    """Of the execution that it replays, and of that which this one replays; no later step of theirs."""
    await write(room, batch(1, step(1, 0, b"a"), step(1, 1, b"old"), uid="first"))
    replayed = (step(1, 1, b"b", number=2), step(1, 2, b"old", number=2))
    note = Noted(2, START, REPLAY, write_replayed("first-1", 1))
    await write(room, batch(1, note, *replayed, uid="first"))
    await write(room, batch(1, Noted(1, START, REPLAY, write_replayed("first-2", 2)), step(1, 3, b"d")))
    assert await responses(room) == {0: b"a", 1: b"b", 3: b"d"}


async def test_a_replay_of_what_is_gone_has_its_own_alone(room: Room) -> None:
    """The other responses are missed by name where they are asked for."""
    await write(room, batch(1, Noted(1, START, REPLAY, write_replayed("gone-1", 2)), step(1, 2, b"c")))
    assert await responses(room) == {2: b"c"}


async def test_a_replay_that_sent_nothing_has_those_before_its_step(room: Room) -> None:
    """As one whose template failed, or that waits: of what it replays the steps from there on are not its."""
    await write(room, batch(1, step(1, 0, b"a"), step(1, 1, b"old"), uid="first"))
    await write(room, batch(1, Noted(1, START, REPLAY, write_replayed("first-1", 1))))
    assert await responses(room) == {0: b"a"}


async def test_parts_are_no_steps(room: Room) -> None:
    """The step as a whole has the response that later steps see."""
    await write(room, batch(1, execution(), step(1, 0, b"part", part=0), step(1, 0, b"whole")))
    assert await responses(room) == {0: b"whole"}


async def test_a_copy_of_an_earlier_attempt_is_not_the_last_one(room: Room) -> None:
    """Turns that were written twice after a crash lie in rows with later ones."""
    await write(room, batch(1, step(1, 0, b"a")), batch(2, step(1, 1, b"b")))
    await write(room, batch(2, step(1, 1, b"b")), batch(3, step(2, 0, b"c")))
    assert await responses(room) == {0: b"c"}
