"""Whether a failed attempt is retried, and after which wait (SPEC section 6)."""

import re

import msgspec

from scheduler_service.domain.execution import FailureType
from scheduler_service.engine.program import Policy
from scheduler_service.timing.backoff import JITTERS, WAIT_MAX, wait

NEVER_RETRIED = frozenset({"lost", "cancelled"})
PLANNED_MAX = 1_000
_STATUS = re.compile(r"[1-5][0-9][0-9]")


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed: its error code (SPEC section 5) and the kind of failure."""

    code: str
    failure_type: FailureType


class Retry(msgspec.Struct, frozen=True):
    """Retry after `wait` ms; `policy` is the index of the policy that decided, used up by one."""

    policy: int
    wait: int


class GiveUp(msgspec.Struct, frozen=True):
    """The execution ends.

    `reason`, the first that holds: `never_retried` (`lost`, `cancelled`), `limit` (`maxRetries` is used
    up), `no_policy` (none matches), `policy_spent`.
    """

    reason: str


class RetryPlan(msgspec.Struct, frozen=True):
    """Retries in order, without jitter; `reason` as in `GiveUp`, None: there are more."""

    retries: tuple[Retry, ...]
    reason: str | None


def judge(
    policies: tuple[Policy, ...],
    spent: tuple[int, ...],
    retries: int,
    max_retries: int,
    failure: Failure,
    *,
    retry_after: int | None = None,
    seed: str = "",
) -> Retry | GiveUp:
    """Whether an attempt that failed is retried, after `retries` retries, `spent` of them by each policy.

    The first policy that matches decides, also if it is spent; `spent` may be shorter than `policies` (the
    rest is 0). `retry_after` (ms) lengthens the wait, beyond a ceiling too, and never shortens it.
    `seed` names the attempt: an equal seed gives an equal spread.
    """
    if failure.code in NEVER_RETRIED:
        return GiveUp("never_retried")
    if retries >= max_retries:
        return GiveUp("limit")
    index = find_policy(policies, failure)
    if index is None:
        return GiveUp("no_policy")
    used = spent[index] if index < len(spent) else 0
    if used >= policies[index].attempts:
        return GiveUp("policy_spent")
    policy = policies[index]
    planned = wait(policy.interval, policy.rate, policy.ceiling, used + 1)
    spread = JITTERS[policy.jitter](f"{seed}/{index}/{used}", planned)
    return Retry(index, max(spread, min(retry_after or 0, WAIT_MAX)))


def find_policy(policies: tuple[Policy, ...], failure: Failure) -> int | None:
    """The index of the policy that decides on `failure`, or None.

    A timeout that counts as `500` matches `timeout` if no policy matches `500` (SPEC section 5).
    """
    index = _first_match(policies, failure.code)
    if index is None and failure.code == "500" and failure.failure_type is FailureType.TIMEOUT:
        return next((at for at, policy in enumerate(policies) if "timeout" in policy.errors), None)
    return index


def plan_retries(
    policies: tuple[Policy, ...], max_retries: int, failure: Failure, *, most: int = PLANNED_MAX
) -> RetryPlan:
    """The retries of an execution whose attempts all fail with `failure`, at most `most`."""
    # An equal failure always matches the same policy, so that one decides alone, and spends all retries.
    index = find_policy(policies, failure)
    deciding = () if index is None else (msgspec.structs.replace(policies[index], jitter="none"),)
    planned: list[Retry] = []
    while True:
        verdict = judge(deciding, (len(planned),), len(planned), max_retries, failure)
        if isinstance(verdict, GiveUp):
            return RetryPlan(tuple(planned), verdict.reason)
        if len(planned) == most:
            return RetryPlan(tuple(planned), None)
        assert index is not None  # no policy decides: given up
        planned.append(Retry(index, verdict.wait))


def _first_match(policies: tuple[Policy, ...], code: str) -> int | None:
    names = _names(code)
    return next((index for index, policy in enumerate(policies) if not names.isdisjoint(policy.errors)), None)


def _names(code: str) -> frozenset[str]:
    """The words of `errorEquals` that match `code`."""
    if code == "egress":
        return frozenset({code})
    if _STATUS.fullmatch(code):
        return frozenset({code, f"{code[0]}xx", "*"})
    return frozenset({code, "*"})
