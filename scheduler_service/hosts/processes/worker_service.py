"""What a worker process does for the service: the other end of `remote_shard`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from scheduler_service.domain.leases import Claim, Leased
from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import Reply
from scheduler_service.engine import parameters  # noqa: F401 - else the first schema's turn would import it
from scheduler_service.engine.compile_cache import BatchLookup, CompileCache, read_members
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.messages import (
    event_of,
    read_ask,
    write_document,
    write_error,
    write_kept,
    write_reply,
)
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.merged_store import ShardStore
from scheduler_service.hosts.processes.rpc_methods import (
    ChildrenOf,
    CreateRequest,
    Method,
    ShardStatus,
    TakeRequest,
    UpcomingSpan,
)
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import CatalogueEntry, JobCounts, JobPage, JobQuery, JobTally, Revision
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Compile, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.queues import ShardQueues

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Handler = Callable[[bytes], Awaitable[bytes]]


class WorkerService:
    """Answers the service's calls from one shard: its host, its store and its history."""

    def __init__(
        self,
        *,
        host: EmbeddedHost,
        store: ShardStore,
        history: History,
        compile_text: Compile,
        compile_cache: CompileCache,
        clock: Clock,
        status: Callable[[], ShardStatus],
    ) -> None:
        self._host = host
        self._store = store
        self._compile = compile_text
        self._compile_cache = compile_cache
        self._clock = clock
        notifications = host.notifications
        self._handlers: Mapping[str, Handler] = dict(
            [
                _handler(rpc_methods.STATUS, _answering(status)),
                _handler(rpc_methods.TAKE, self._take),
                _handler(rpc_methods.CREATE, self._create),
                _handler(rpc_methods.OFFER, self._offer),
                _handler(rpc_methods.DEFINITION, lambda argument: store.definition(*argument)),
                _handler(rpc_methods.FORGET, store.forget),
                _handler(rpc_methods.FLUSH, lambda _: history.flush()),
                _handler(rpc_methods.RESEND, notifications.resend),
                _handler(rpc_methods.DISMISS, notifications.dismiss),
                _handler(rpc_methods.RESEND_OUTBOX, lambda _: notifications.resend_outbox()),
                *self._reads(),
                _handler(rpc_methods.CLAIM, self._claim),
                *_of_queues(store.queues),
            ]
        )

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises StoreError, CursorError."""
        return await self._handlers[method](argument)

    def _reads(self) -> Sequence[tuple[str, Handler]]:
        """The handlers of the catalogue."""
        catalogue = self._store.catalogue
        return [
            _handler(rpc_methods.GET, catalogue.get),
            _handler(rpc_methods.SOME, self._some),
            _handler(rpc_methods.FIND, catalogue.find),
            _handler(rpc_methods.LIST, self._list),
            _handler(rpc_methods.DEFINITIONS, self._definitions),
            _handler(rpc_methods.REVISIONS, self._revisions),
            _handler(rpc_methods.CHILDREN, self._children),
            _handler(rpc_methods.UPCOMING, self._upcoming),
            _handler(rpc_methods.COUNTS, self._counts),
            _handler(rpc_methods.TALLY, self._tally),
        ]

    async def _take(self, request: TakeRequest) -> bytes:
        """Takes a turn, or reads the job; a StoreError is an answer."""
        try:
            ask = read_ask(request.message)
            event = event_of(ask)
            if event is None:
                job = await self._host.read(request.job_id)
                return write_document(None if job is None else job.document)
            text = ask.definition
            definition = None if text is None else Definition(text, await self._compile(text))
            reply = await self._host(request.job_id, Command(event, definition, ask.remembered, write_kept))
        except StoreError as error:
            return write_error(error)
        return write_reply(reply)

    async def _create(self, request: CreateRequest) -> list[bytes]:
        definitions: list[Definition] = []
        slices = Slices()
        for text in request.texts:
            await slices.pause(len(text))
            definitions.append(Definition(text, await self._compile(text)))
        return [_write(answer) for answer in await self._host.create_all(definitions, request.owner)]

    async def _offer(self, request: CreateRequest) -> list[bytes | None]:
        """Creates those that the compile cache has, without warnings; None for each of the others."""
        lookup = BatchLookup(cache=self._compile_cache, now=self._clock.now().wall)
        found: dict[int, Definition] = {}
        slices = Slices()
        for position, text in enumerate(request.texts):
            await slices.pause(len(text))
            cached = lookup.find(read_members(text) or {})
            if cached is not None and not cached.warnings:
                found[position] = Definition(text, cached.program)
        answers = await self._host.create_all(list(found.values()), request.owner)
        replies = dict(zip(found, map(_write, answers), strict=True))
        return [replies.get(position) for position in range(len(request.texts))]

    async def _claim(self, claim: Claim) -> tuple[Leased, ...]:
        """A lease counts from now: this process may have stood still since it was asked."""
        now = max(claim.now, self._clock.now().steady)
        return await self._store.queues.claim(msgspec.structs.replace(claim, now=now))

    async def _some(self, job_ids: list[str]) -> dict[str, CatalogueEntry]:
        return dict(await self._store.catalogue.some(job_ids))

    async def _definitions(self, job_ids: list[str]) -> dict[str, bytes]:
        return dict(await self._store.catalogue.definitions(job_ids))

    async def _list(self, query: JobQuery) -> JobPage:
        return await self._store.catalogue.list(query)

    async def _tally(self, query: JobQuery) -> JobTally:
        return await self._store.catalogue.tally(query)

    async def _counts(self, argument: tuple[Now, str | None]) -> JobCounts:
        now, tenant = argument
        return await self._store.catalogue.counts(now, tenant=tenant)

    async def _revisions(self, argument: tuple[str, int, int]) -> list[Revision]:
        uid, after, limit = argument
        return list(await self._store.catalogue.revisions(uid, after=after, limit=limit))

    async def _children(self, family: ChildrenOf) -> list[CatalogueEntry]:
        found = await self._store.catalogue.children(
            family.parent_job, family.parent_execution, after=family.after, limit=family.limit
        )
        return list(found)

    async def _upcoming(self, span: UpcomingSpan) -> list[CatalogueEntry]:
        catalogue = self._store.catalogue
        return list(
            await catalogue.upcoming(
                span.start, span.end, span.limit, tenant=span.tenant, with_labels=span.with_labels
            )
        )


def _answering(status: Callable[[], ShardStatus]) -> Callable[[None], Awaitable[ShardStatus]]:
    async def answer(_: None) -> ShardStatus:
        return status()

    return answer


def _write(answer: Reply | StoreError) -> bytes:
    return write_error(answer) if isinstance(answer, StoreError) else write_reply(answer)


def _of_queues(queues: ShardQueues) -> list[tuple[str, Handler]]:
    """What needs the queues alone."""
    return [
        _handler(rpc_methods.LOOK, queues.look),
        _handler(rpc_methods.RENEW, lambda argument: queues.renew(*argument)),
        _handler(rpc_methods.COMPLETE, lambda argument: queues.complete(*argument)),
        _handler(rpc_methods.FREE, queues.free),
        _handler(rpc_methods.SWEEP, queues.sweep),
        _handler(rpc_methods.EXTEND, queues.extend),
        _handler(rpc_methods.HOLD, lambda argument: queues.hold(*argument)),
        _handler(rpc_methods.GO_ON, lambda argument: queues.go_on(*argument)),
        _handler(rpc_methods.DROP, queues.drop),
        _handler(rpc_methods.ENDED, lambda argument: queues.ended(*argument)),
        _handler(rpc_methods.CHANGED, lambda argument: queues.changed(*argument)),
        _handler(rpc_methods.FIGURES, queues.figures),
        _handler(rpc_methods.HELD, queues.held),
    ]


def _handler(
    method: Method[Argument, Result], work: Callable[[Argument], Awaitable[Result]]
) -> tuple[str, Handler]:
    async def handle(packed: bytes) -> bytes:
        return method.write_result(await work(method.read_argument(packed)))

    return method.name, handle
