"""The conformance data on retry policies, judged by SPEC section 6.

What is left out, and why, stands in `retry_policies_left_out.md` beside this file.
"""

from typing import Any

from scheduler_service.domain.execution import FailureType
from scheduler_service.engine.program import Policy
from scheduler_service.engine.retry import Failure, GiveUp, judge
from tests import conformance_data
from tests.conformance_data import Row

REASONS = {
    "no matching retrier": "no_policy",
    "retrier exhausted": "policy_spent",
    "global maxRetries reached": "limit",
}
UNLIMITED = 10**6


def rows(dialect: str) -> list[Row]:
    ours = [row for row in conformance_data.rows("retry_policies") if row["dialect"] == dialect]
    return [row for row in ours if "invalid" not in row["expect"]]


def run(policies: tuple[Policy, ...], most: int, errors: list[str | None]) -> dict[str, Any]:
    """What becomes of an execution whose attempts end with `errors` (None: success), in the data's words."""
    spent, delays = [0] * len(policies), []
    for attempt, error in enumerate(errors, 1):
        if error is None:
            return {"delays": delays, "outcome": "succeeded", "attempts": attempt}
        failure = Failure(error, FailureType.TIMEOUT if error == "timeout" else FailureType.BUSINESS)
        verdict = judge(policies, tuple(spent), len(delays), most, failure)
        if isinstance(verdict, GiveUp):
            end = {"reason": verdict.reason, "error": error, "attempts": attempt}
            return {"delays": delays, "outcome": "failed", **end}
        delays.append(verdict.wait)
        spent[verdict.policy] += 1
    return {"delays": delays, "outcome": "pending", "attempts": len(errors)}


def expected(row: dict[str, Any]) -> dict[str, Any]:
    expect = dict(row["expect"])
    expect["delays"] = [round(delay * 1_000) for delay in expect["delays"]]
    if "reason" in expect:
        expect["reason"] = REASONS[expect["reason"]]
    return expect


def seed_policy(given: dict[str, Any]) -> Policy:
    return Policy(
        errors=frozenset({given["errorEquals"]}),
        interval=round(given.get("intervalSeconds", 1) * 1_000),
        attempts=given.get("maxAttempts", 2),
        rate=given.get("backoffRate", 2.0),
    )


def asl_policy(given: dict[str, Any]) -> Policy:
    names = {"States.ALL": "*", "States.Timeout": "timeout"}
    ceiling = given.get("MaxDelaySeconds")
    return Policy(
        errors=frozenset(names.get(name, name) for name in given["ErrorEquals"]),
        interval=round(given.get("IntervalSeconds", 1) * 1_000),
        attempts=given.get("MaxAttempts", 3),
        rate=given.get("BackoffRate", 2.0),
        ceiling=None if ceiling is None else round(ceiling * 1_000),
    )


def test_policies_of_the_seed_document() -> None:
    """SPEC section 6: counters per policy, the first match decides also when spent, `maxRetries` over all."""
    judged = 0
    for row in rows("seed"):
        policies = tuple(map(seed_policy, row["policies"]))
        assert run(policies, row.get("maxRetries", 5), row["errors"]) == expected(row), row["id"]
        judged += 1
    assert judged > 50


def test_policies_of_amazon_states_language() -> None:
    """Where the words mean the same, so do the policies (SPEC section 6); no cap over all of them there."""
    judged = 0
    for row in rows("asl"):
        policies = tuple(map(asl_policy, row["policies"]))
        assert run(policies, UNLIMITED, row["errors"]) == expected(row), row["id"]
        judged += 1
    assert judged > 50
