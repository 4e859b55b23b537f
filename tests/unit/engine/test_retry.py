"""Whether a failed attempt is tried again, and how attempts follow each other (SPEC sections 5 and 6)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.models import parse_definition
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.turn_events import FeedbackArrived, Replay, Triggered
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.program import Policy, Surroundings
from scheduler_service.engine.retry import Failure, GiveUp, Retry, judge, plan_retries
from scheduler_service.timing.backoff import JITTERS, WAIT_MAX
from tests.rows import each_row
from tests.unit.engine.rig import TWO, Rig, definition, retried


def policy(*errors: str, **members: object) -> Policy:
    return Policy(errors=frozenset(errors), **members)  # type: ignore[arg-type]


def decide(
    policies: list[Policy],
    code: str,
    *,
    failure_type: FailureType = FailureType.HTTP,
    spent: tuple[int, ...] = (),
    retries: int = 0,
    max_retries: int = 5,
    retry_after: int | None = None,
    seed: str = "",
) -> Retry | GiveUp:
    failure = Failure(code, failure_type)
    return judge(tuple(policies), spent, retries, max_retries, failure, retry_after=retry_after, seed=seed)


@each_row(
    ("errors", "code", "matches"),
    [
        ("500", "500", True),
        ("500", "502", False),
        ("5xx", "502", True),
        ("5xx", "404", False),
        ("4xx", "429", True),
        ("4xx", "4xx", True),
        ("4xx", "4000", False),
        ("*", "404", True),
        ("*", "error1", True),
        ("*", "timeout", True),
        ("*", "template", True),
        ("*", "egress", False),
        ("egress", "egress", True),
        ("*", "lost", False),
        ("lost", "lost", False),
        ("cancelled", "cancelled", False),
        ("error1", "error10", False),
    ],
)
def test_what_a_policy_matches(errors: str, code: str, matches: bool) -> None:
    """SPEC section 6: codes, classes, `*` (any but egress); lost and cancelled are never retried."""
    assert isinstance(decide([policy(errors)], code), Retry) is matches


def test_the_defaults_are_one_second_twice_doubling() -> None:
    """SPEC section 6: intervalSeconds 1, maxAttempts 2, backoffRate 2.0."""
    assert decide([policy("500")], "500") == Retry(0, 1_000)
    assert decide([policy("500")], "500", spent=(1,), retries=1) == Retry(0, 2_000)
    assert decide([policy("500")], "500", spent=(2,), retries=2) == GiveUp("policy_spent")


def test_the_first_match_decides_also_when_it_is_spent() -> None:
    """SPEC section 6."""
    policies = [policy("500", attempts=1), policy("*")]
    assert decide(policies, "500", spent=(1, 0), retries=1) == GiveUp("policy_spent")
    assert decide(policies, "404", spent=(1, 0), retries=1) == Retry(1, 1_000)
    assert decide([policy("500", attempts=0), policy("*")], "500") == GiveUp("policy_spent")
    # SPEC section 6: the sum never exceeds `maxRetries`
    policies = [policy("a", attempts=9), policy("b", attempts=9)]
    assert decide(policies, "a", spent=(2, 3), retries=5) == GiveUp("limit")
    assert decide(policies, "a", max_retries=0) == GiveUp("limit")
    assert decide(policies, "zzz") == GiveUp("no_policy")
    assert decide([], "500") == GiveUp("no_policy")


def test_a_timeout_that_is_500_goes_to_who_names_timeout_where_none_matches_500() -> None:
    """SPEC section 5, first point: `5xx` and `*` match 500; a connection failure stays 500."""
    named = policy("timeout", interval=7_000)
    timeout = FailureType.TIMEOUT
    assert decide([named], "500", failure_type=timeout) == Retry(0, 7_000)
    assert decide([named], "500", failure_type=FailureType.CONNECT) == GiveUp("no_policy")
    assert decide([named], "500") == GiveUp("no_policy")
    for other in ("500", "5xx", "*"):
        assert decide([named, policy(other)], "500", failure_type=timeout) == Retry(1, 1_000)
    spent = decide([named, policy("500", attempts=0)], "500", failure_type=timeout)
    assert spent == GiveUp("policy_spent")
    # SPEC section 5: it raises `timeout`
    timeout = FailureType.TIMEOUT
    assert decide([policy("500"), policy("5xx")], "timeout", failure_type=timeout) == GiveUp("no_policy")
    assert decide([policy("500"), policy("timeout")], "timeout", failure_type=timeout) == Retry(1, 1_000)


def test_retry_after_lengthens_and_never_shortens() -> None:
    """SPEC section 6: also beyond a ceiling; not without bounds."""
    limited = [policy("503", interval=4_000, ceiling=5_000)]
    assert decide(limited, "503", retry_after=9_000) == Retry(0, 9_000)
    assert decide(limited, "503", retry_after=1_000) == Retry(0, 4_000)
    assert decide(limited, "503", retry_after=-5) == Retry(0, 4_000)
    assert decide(limited, "503", retry_after=10**30) == Retry(0, WAIT_MAX)


@given(seed=st.text(), used=st.integers(0, 8), retry_after=st.none() | st.integers(0, 10**6))
@settings(deadline=None)
def test_full_jitter_is_stable_and_within_the_wait(seed: str, used: int, retry_after: int | None) -> None:
    """SPEC section 6: `full` spreads a wait over 0 to its length; Retry-After is kept nevertheless."""
    spread = [policy("500", jitter="full", attempts=9, ceiling=60_000)]
    verdicts = [
        decide(spread, "500", spent=(used,), retry_after=retry_after, seed=seed, max_retries=9)
        for _ in range(2)
    ]
    assert verdicts[0] == verdicts[1]
    assert isinstance(verdicts[0], Retry)
    assert (retry_after or 0) <= verdicts[0].wait <= max(1_000 * 2**used, retry_after or 0)


def test_a_new_jitter_kind_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word goes through the definition and its program as it is; `backoff.JITTERS` alone computes it."""
    monkeypatch.setitem(JITTERS, "half", lambda seed, wait: wait // 2)  # type: ignore[misc]
    parsed = parse_definition(definition(retry=[{"errorEquals": "500", "intervalSeconds": 4}]))
    half = [entry.model_copy(update={"jitter": "half"}) for entry in parsed.retry]
    made = compile_definition(parsed.model_copy(update={"retry": half}), Surroundings()).program
    assert [policy.jitter for policy in made.policies] == ["half"]
    assert decide(list(made.policies), "500") == Retry(0, 2_000)
    assert plan_retries(made.policies, 1, Failure("500", FailureType.HTTP)).retries == (Retry(0, 4_000),)


def test_the_waits_of_a_job_that_always_fails() -> None:
    """SPEC section 17: retries drawn on a time line."""

    def plan(
        policies: list[Policy], code: str, failure_type: FailureType = FailureType.HTTP, most: int = 5
    ) -> tuple[list[tuple[int, int]], str | None]:
        found = plan_retries(tuple(policies), most, Failure(code, failure_type))
        return [(retry.policy, retry.wait) for retry in found.retries], found.reason

    policies = [policy("500", attempts=9, ceiling=5_000), policy("timeout", attempts=3, rate=1.0)]
    waits = [(0, 1_000), (0, 2_000), (0, 4_000), (0, 5_000), (0, 5_000)]
    assert plan(policies, "500") == (waits, "limit")
    assert plan(policies, "timeout") == ([(1, 1_000)] * 3, "policy_spent")
    assert plan(policies, "404") == ([], "no_policy")
    assert plan([policy("*")], "lost") == ([], "never_retried")
    timeout = plan([policy("timeout")], "500", FailureType.TIMEOUT)
    assert timeout == ([(0, 1_000), (0, 2_000)], "policy_spent")
    assert plan([policy("*", jitter="full")], "x") == ([(0, 1_000), (0, 2_000)], "policy_spent")
    endless, reason = plan([policy("*", attempts=10**9)], "x", most=10**9)
    assert (len(endless), reason) == (1_000, None)


def test_a_retry_repeats_the_chain() -> None:
    """A new attempt, the whole chain, the same keys (SPEC section 6)."""
    rig = retried(TWO)
    rig.answer(200, {"x": 1})
    rig.answer(500)
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/one"
    assert (rig.header("Idempotency-Key"), rig.header("X-Scheduling-Request-Counts")) == ("uid-1-0", "2")
    assert rig.execution(1).attempt_count == 2


def test_counters_are_kept_over_the_attempts_of_an_execution() -> None:
    """Per policy and per execution: one that is spent leaves the others what they have."""
    policies = [
        {"errorEquals": "500", "maxAttempts": 2, "backoffRate": 3},
        {"errorEquals": "timeout", "maxAttempts": 1},
        {"errorEquals": "404", "maxAttempts": 1, "intervalSeconds": 7},
    ]
    rig = Rig(retry=policies).create()
    waits: list[int | None] = []
    for number in (1, 2):
        rig.deliver(Triggered())
        for status in (500, 404, 500, 500):
            rig.answer(status)
            waits.append(rig.record_of(AttemptEnded).retry_in)
            rig.pass_time(waits[-1] or 0)
        assert rig.execution(number).state is ExecutionState.TERMINATED
    assert waits == [1_000, 7_000, 3_000, None] * 2


def test_retry_from_the_step() -> None:
    """`retryFrom: step` goes on at the failed step, with the earlier responses kept."""
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}])
    rig.answer(200, {"x": 1})
    rig.answer(500)
    rig.pass_time(1_000)
    assert (rig.request.url, rig.sent_body()) == ("http://target.test/two?x=1", {"all": {"x": 1}, "x": "1"})
    rig.answer(200)
    assert rig.states() == [ExecutionState.SUCCEEDED]
    # What feedback fails is repeated from the last step where that one says so
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}], **{"async": True})
    rig.answer(200, {"x": 1})
    rig.answer(200)
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"status": "failed"}))
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=1"
    # What the replay left out stays left out in its retries, and its responses stay
    rig = Rig(request=TWO, retry=[{"errorEquals": "*"}]).create()
    rig.deliver(Triggered(replay=Replay(1, 1, (b'{"x":7}',))))
    rig.answer(500)
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=7"


def test_a_waiting_retry_shows_its_error() -> None:
    """While it waits the execution is `failed` with its error, also when another process takes it over."""
    rig = retried([TWO[0]], qos=1)
    rig.answer(503)
    rig.restart()
    waiting = rig.execution(1)
    assert (waiting.state, waiting.error, waiting.failure_type) == (
        ExecutionState.FAILED,
        "503",
        FailureType.HTTP,
    )
    rig.pass_time(1_000)
    assert (rig.execution(1).state, rig.execution(1).error) == (ExecutionState.PROCESSING, None)
