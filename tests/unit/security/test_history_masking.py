"""No secret reaches the history, and everything else reaches it unchanged (SPEC sections 12 and 14)."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    DeliveryRecord,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    Noted,
    Record,
    ResultKept,
    StepEnded,
)
from scheduler_service.language.value_masks import SecretMask
from scheduler_service.security.history_masking import Masking, cut
from tests.rows import each_row
from tests.unit.security.secrets import MASKING, SECRET, masked_body, masked_exchange, step


@each_row(
    "name",
    ["Authorization", "proxy-authorization", "COOKIE", "Set-Cookie", "x-api-key", "x-tenant-secret"],
)
def test_secret_headers_are_masked_in_both_directions(name: str) -> None:
    """SPEC section 14: these five and the headers named in `history.mask`, however they are written."""
    headers = ((name, SECRET), ("X-Other", "kept"))
    found = masked_exchange(request_headers=headers, response_headers=headers)
    assert found.request_headers == found.response_headers == ((name, "***"), ("X-Other", "kept"))
    assert found.redacted


@each_row(
    "changes",
    [
        {"url": f"http://u:{SECRET}@target.test/"},
        {"url": f"http://target.test/?Password={SECRET}"},
        {"url": f"http://target.test/#password={SECRET}"},
        {"fault": f"http://u:{SECRET}@target.test/ is closed"},
        {"request_headers": (("X-Other", f"http://u:{SECRET}@target.test/"),)},
        {"response_headers": (("x-other", f"http://target.test/?TOKEN={SECRET}"),)},
        {"response_headers": (("x-other", "kept"), ("set-cookie", SECRET))},
        {"request_body": b'{"Password":"%b"}' % SECRET.encode()},
        {"response_body": b'"http://target.test/?Token=%b"' % SECRET.encode()},
    ],
)
def test_a_secret_is_found_wherever_it_stands_after_many_calls_without(changes: dict[str, Any]) -> None:
    """Calls without are recognized at once, by all of their texts together."""
    masking = Masking(members=("password",))
    plain = {
        "url": "http://target.test/",
        "request_headers": (("X-Other", "kept"),),
        "request_body": b'{"n":1}',
        "response_headers": (("x-other", "kept"),),
        "response_body": b'{"n":2}',
    }
    for _ in range(2):
        record = step(**plain)
        assert masking.redact_all([record])[0] is record
    (found,) = masking.redact_all([step(**{**plain, **changes})])
    assert SECRET not in repr(found)
    assert "***" in repr(found)


@each_row(
    "body",
    [
        {"password": SECRET},
        {"PASSWORD": {"inner": SECRET}},
        [{"a": [{"apiKey": [SECRET, {"x": SECRET}]}]}],
        {"text": json.dumps({"deep": {"password": SECRET}})},
        {"text": json.dumps([json.dumps({"password": SECRET})])},
    ],
)
def test_members_are_masked_at_any_depth(body: object) -> None:
    """SPEC section 14: the JSON members named in `history.mask`, in JSON inside strings too."""
    assert SECRET.encode() not in masked_body(json.dumps(body).encode())


@each_row(
    "record",
    [
        step(request_headers=(("A", "b"),), request_body=b'{"a":1}', response_body=b"\xff\x00"),
        FeedbackSeen(1, 1, 0, b'{"status":"succeed"}'),
        Noted(1, 0, "note", "text"),
        AttemptEnded(1, 1, 0, message="refused"),
        AttemptStarted(1, 1, 0),
        DeliveryRecord("d", 1, 1, "succeed", "http://127.0.0.1/n", "pending"),
        ExecutionRecord(1, 1, ExecutionState.PROCESSING, TriggeredBy.TIMER, 0, 0),
    ],
)
def test_a_record_without_secrets_comes_back_itself(record: Record) -> None:
    """Nothing to mask is no work."""
    assert MASKING.redact(record) is record


@given(st.text(min_size=1), st.integers(0, 40))
@settings(deadline=None)
def test_a_cut_never_breaks_a_character(text: str, limit: int) -> None:
    """What is left of a text is a text, as long as the limit allows."""
    body = text.encode()
    kept = cut(body, limit)
    assert text.startswith(kept.decode())
    assert len(kept) <= limit or kept == body
    assert len(kept) > limit - 4 or kept == body


def test_bodies_are_cut_after_masking_and_say_so() -> None:
    """SPEC section 12: bodies up to `history.body_bytes`; a secret across the cut is masked all the same."""
    body = json.dumps({"a": "x" * 80, "password": SECRET}).encode()
    masking = Masking(members=["password"], body_bytes=90)
    found = masked_exchange(masking, request_body=body, response_body=b"y" * 91)
    assert found.request_body is not None
    assert SECRET.encode() not in found.request_body
    assert len(found.request_body) == 90
    assert found.request_truncated
    assert found.response_truncated
    feedback = masking.redact(FeedbackSeen(1, 1, 0, b"z" * 91))
    assert feedback == FeedbackSeen(1, 1, 0, b"z" * 90, truncated=True)
    # `redacted` says that something was masked or left out, `truncated` that something was cut
    found = masked_exchange(Masking(body_bytes=1), request_body=b"ab", response_body=b"a")
    assert (found.request_truncated, found.response_truncated, found.redacted) == (True, False, False)
    # Bytes that are no UTF-8 have no character to spare
    assert cut(b"\x80" * 10, 5) == b"\x80" * 5


@each_row("members", [[], ["password"]])
def test_a_token_across_the_cut_is_masked(members: list[str]) -> None:
    """Also where only what is kept of a body is searched; what is cut off is no redaction of it."""
    body = b'"https://a.example/f?token=' + SECRET.encode() * 9 + b'"' + b"y" * 90
    start = body.index(SECRET.encode())
    masking = Masking(members=members, body_bytes=start + 3)
    found = masked_exchange(masking, response_body=body)
    assert found.response_body is not None
    assert found.response_body.startswith(body[:start] + b"***")
    assert SECRET[:3].encode() not in found.response_body
    assert (found.response_truncated, found.redacted, found.response_redacted) == (True, True, True)
    found = masked_exchange(Masking(body_bytes=start - 20), response_body=body)
    assert found.response_body == body[: start - 20]
    assert (found.response_truncated, found.redacted, found.response_redacted) == (True, False, False)


def test_a_secret_name_behind_the_cut_hides_a_text_that_is_no_json() -> None:
    """SPEC section 14: what cannot be parsed is replaced as a whole, however little of it is kept."""
    found = masked_exchange(
        Masking(members=["password"], body_bytes=9), response_body=b"s3cret is the password"
    )
    assert found.response_body == b"***"
    assert Masking(members=["password"]).reads_bodies
    assert not Masking().reads_bodies


def triggered(params: bytes, state: ExecutionState = ExecutionState.PROCESSING) -> ExecutionRecord:
    return ExecutionRecord(1, 1, state, TriggeredBy.MANUAL, 0, 0, params=params)


def kept_params(masking: Masking, record: ExecutionRecord, **options: Any) -> tuple[bytes | None, bool]:
    found = masking.redact(record, **options)
    assert isinstance(found, ExecutionRecord)
    return found.params, found.params_complete


def test_parameters_are_masked_and_cut_like_bodies_and_say_so() -> None:
    """SPEC sections 12, 14: what a replay cannot use again is marked as incomplete."""
    masking = Masking(members=["password"], body_bytes=20)
    secret = b'{"password":"s3cr3t"}'
    assert kept_params(masking, triggered(secret)) == (b'{"password":"***"}', False)
    assert kept_params(masking, triggered(b'{"a":"' + b"x" * 20 + b'"}')) == (b'{"a":"' + b"x" * 14, False)
    whole = triggered(b'{"day":"mon"}')
    assert masking.redact(whole) is whole
    # `history.detail`: none keeps none, failures none of what succeeded; that there were none is kept
    params, ended = b'{"day":"mon"}', ExecutionState.SUCCEEDED
    assert kept_params(MASKING, triggered(params), detail="none") == (None, False)
    assert kept_params(MASKING, triggered(params, ended), detail="failures") == (None, False)
    assert kept_params(MASKING, triggered(params), detail="failures") == (params, True)
    assert kept_params(MASKING, triggered(b"{}", ended), detail="failures") == (b"{}", True)


def test_a_response_that_is_not_what_came_says_so() -> None:
    """A replay goes on from it only where its own body was left alone."""
    headers = (("Authorization", SECRET),)
    aside = masked_exchange(request_headers=headers, response_headers=headers, response_body=b'{"a":1}')
    assert (aside.redacted, aside.response_redacted) == (True, False)
    masked = masked_exchange(response_body=b'{"password":"x"}')
    assert (masked.redacted, masked.response_redacted) == (True, True)
    left_out = masked_exchange(Masking(detail="failures"), response_body=b"{}")
    assert (left_out.response_body, left_out.response_redacted) == (None, True)
    assert not masked_exchange(Masking(detail="failures"), response_body=b"").response_redacted


def test_failures_keep_the_detail_of_what_failed_alone() -> None:
    """`historyDetail: failures`; the job's own word wins over the setting."""
    records = (step(request_body=b"a"), step(error="500", request_body=b"b", url="http://u:p@h/"))
    ok, failed = Masking(detail="all").redact_all(records, detail="failures")
    assert isinstance(ok, StepEnded)
    assert isinstance(failed, StepEnded)
    assert (ok.exchange.request_body, ok.exchange.status, ok.exchange.redacted) == (None, 200, True)
    assert (failed.exchange.request_body, failed.exchange.url) == (b"b", "http://***@h/")
    assert Masking(detail="failures").redact_all(records, detail="all")[0] == records[0]
    # `history.detail: none`
    row = ExecutionRecord(1, 1, ExecutionState.PROCESSING, TriggeredBy.TIMER, 0, 0)
    delivery = DeliveryRecord(
        "d", 1, 1, "e", "http://h/?key=x&to=y", "failed", exchange=Exchange("POST", "u")
    )
    kept = Masking(detail="none").redact_all((row, step(), Noted(1, 0, "n", "t"), delivery))
    assert kept == (row, DeliveryRecord("d", 1, 1, "e", "http://h/?***", "failed"))


@given(
    st.recursive(
        st.text() | st.none() | st.floats(allow_nan=False),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["password", "Password"]), inner)
        ),
        max_leaves=20,
    )
)
@settings(deadline=None)
def test_only_values_of_masked_members_change(value: object) -> None:
    """For any JSON: what is masked parses again, and is what a plain walk makes of it."""

    def walk(one: object) -> object:
        if isinstance(one, dict):
            return {k: "***" if k.lower() == "password" else walk(v) for k, v in one.items()}
        return [walk(member) for member in one] if isinstance(one, list) else one

    body = json.dumps(["password", "mark", value]).encode()
    masking = Masking(members=["password"], body_bytes=1 << 20)
    assert json.loads(masked_body(body, masking)) == walk(["password", "mark", value])


def test_a_result_is_masked_whatever_the_detail_and_never_cut() -> None:
    """Members, tokens and values of secrets, also far behind `history.body_bytes` (SPEC sections 12, 14)."""
    masking, mask = Masking(members=["password"], body_bytes=10), SecretMask(["a-value-of-the-environment"])
    said = {"a": "x" * 90_000, "password": SECRET, "b": "a-value-of-the-environment", "n": 1}
    result = ResultKept(1, json.dumps(said).encode(), 200)
    for detail in ("all", "failures", "none"):
        found = masking.redact(result, detail=detail, mask=mask)
        assert isinstance(found, ResultKept)
        assert found.masked
        assert json.loads(found.body) == said | {"password": "***", "b": "***"}
    plain = ResultKept(1, b"y" * 90, 200)
    assert masking.redact_all([plain], detail="none") == (plain,)
