"""The keys of feedback tokens, kept so that a report with a wrong one costs little (SPEC section 5)."""

import hmac
from collections import OrderedDict
from http import HTTPStatus

import msgspec

from scheduler_service.api.responses import ApiProblem, no_job, refuse
from scheduler_service.domain.execution import JobState
from scheduler_service.engine.scope import feedback_token
from scheduler_service.hosts.processes.shards import Shard
from scheduler_service.ports.catalogue import Catalogue

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

    def __init__(self) -> None:
        self._known: OrderedDict[str, JobKey] = OrderedDict()

    async def check(
        self, jobs: Shard, catalogue: Catalogue, job_key: str, request_counts: int, token: str
    ) -> None:
        """Raises ApiProblem (404 without such a job, 403 for a token that does not fit), StoreError."""
        known = self._known.get(job_key)
        if known is None or not known.fits(request_counts, token):
            known = await self._look(jobs, catalogue, job_key, known)
            self._keep(job_key, known)
            if not known.fits(request_counts, token):
                raise _wrong_token(request_counts)

    async def _look(self, jobs: Shard, catalogue: Catalogue, job_key: str, known: JobKey | None) -> JobKey:
        """The key of the job's present life, which is read where it is another life than the known one."""
        entry = jobs.peek(job_key) or await catalogue.get(job_key)
        if entry is None or entry.state is JobState.DESTROYED:
            self._known.pop(job_key, None)
            raise no_job(job_key)
        if known is not None and known.uid == entry.uid:
            return known
        job = await jobs.read(job_key)
        if job is None or job.document is None:
            raise no_job(job_key)
        return JobKey(job.document.head.uid, job.document.head.key)

    def _keep(self, job_key: str, known: JobKey) -> None:
        self._known[job_key] = known
        self._known.move_to_end(job_key)
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)


def _wrong_token(request_counts: int) -> ApiProblem:
    message = (
        f"the token does not belong to requestCounts {request_counts} of this job; "
        "use the feedback URL as it was given"
    )
    return refuse(HTTPStatus.FORBIDDEN, "/token", "forbidden", message)
