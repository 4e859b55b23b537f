"""Keys that requests bring: of feedback tokens (SPEC section 5), and those that make a request count once."""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from weakref import WeakValueDictionary

import msgspec

from scheduler_service.api.responses import ENCODER, ApiProblem, invalid, no_job, refuse
from scheduler_service.domain.execution import JobState
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.hosts.processes.shards import Shard
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.state import Remembered, RequestStore

MOST_KEYS = 10_000


class JobKey(msgspec.Struct, frozen=True, gc=False):
    """What the feedback tokens of one life of a job are made of."""

    uid: str
    key: bytes

    def fits(self, request_counts: int, token: str) -> bool:
        """Whether `token` belongs to this attempt."""
        expected = feedback_token(self.key, self.uid, request_counts)
        return hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace"))


class FeedbackKeys:
    """The keys of the jobs that were reported on lately, so that a token costs no look at its job.

    The turn decides; this spares it, and the reading of a body, what would be refused.
    """

    def __init__(self, jobs: Shard, catalogue: Catalogue) -> None:
        self._jobs, self._catalogue = jobs, catalogue
        self._known: OrderedDict[str, JobKey] = OrderedDict()

    async def check(self, job_key: str, request_counts: int, token: str) -> None:
        """Raises ApiProblem (404 without such a job, 403 for a token that does not fit), StoreError."""
        known = self._known.get(job_key)
        if known is None or not known.fits(request_counts, token):
            known = await self._look(job_key, known)
            self._keep(job_key, known)
            if not known.fits(request_counts, token):
                raise wrong_token(request_counts)

    async def _look(self, job_key: str, known: JobKey | None) -> JobKey:
        """The key of the job's present life, which is read where it is another life than the known one."""
        entry = self._jobs.peek(job_key) or await self._catalogue.get(job_key)
        if entry is None or entry.state is JobState.DESTROYED:
            self._known.pop(job_key, None)
            raise no_job(job_key)
        if known is not None and known.uid == entry.uid:
            return known
        job = await self._jobs.read(job_key)
        if job is None or job.document is None:
            raise no_job(job_key)
        return JobKey(job.document.head.uid, job.document.head.key)

    def _keep(self, job_key: str, known: JobKey) -> None:
        self._known[job_key] = known
        self._known.move_to_end(job_key)
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)


def wrong_token(request_counts: int) -> ApiProblem:
    """A 403: the token is not that of this attempt."""
    message = (
        f"the token does not belong to requestCounts {request_counts} of this job; "
        "use the feedback URL as it was given"
    )
    return refuse(HTTPStatus.FORBIDDEN, "/token", "forbidden", message)


class IdempotencyKeys:
    """The keys of requests that are in progress in this process."""

    def __init__(self, store: RequestStore) -> None:
        self._store = store
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def run_once(
        self,
        remembered: Remembered,
        work: Callable[[], Awaitable[object]],
        is_final: Callable[[object], bool],
    ) -> object:
        """The result of `work`, for JSON; of an earlier request with this key, its result.

        The key is stored before `work` begins, so that it stands for this body also after a crash. A request
        that was begun and has no answer, or none that is final, is done again: `work` has to allow that.
        Raises ApiProblem (422) for a key that came with another body, StoreError, and what `work` raises.
        """
        async with self._locks.setdefault((remembered.scope, remembered.key), asyncio.Lock()):
            known = await self._store.recall(remembered.scope, remembered.key, remembered.since)
            if known is not None and known.digest != remembered.digest:
                raise key_reused()
            if known is not None and known.answer:
                return msgspec.Raw(known.answer)
            await self._store.remember(remembered)
            result = await work()
            answer = ENCODER.encode(result)
            if is_final(result):
                await self._store.remember(msgspec.structs.replace(remembered, answer=answer))
            return msgspec.Raw(answer)


def key_reused() -> ApiProblem:
    """A 422: the key came before with another body."""
    message = "this key came with another body within the last 24 hours; use a new key for another request"
    return invalid("/Idempotency-Key", "key_reused", message)
