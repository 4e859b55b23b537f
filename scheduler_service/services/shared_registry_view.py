"""This node's view of the one registry of its cluster: what any node was told, all of them know."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.registered_services import InstancePlace
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError, explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_registry import (
    Changes,
    NodeReport,
    Old,
    OpenCalls,
    ServiceNotice,
    SharedInstance,
    SharedRegistry,
    Sighting,
)
from scheduler_service.services.instances import FORGOTTEN_AFTER, Instance, Instances
from scheduler_service.services.registry import Sharing
from scheduler_service.telemetry.log_summaries import Outage

FORMAT = 1
"""Raised when a row says something that a program of today would misread; an older one is read as it is."""


class RowUnreadable(Exception):
    """The row is damaged, or a newer program wrote it."""


class Written(msgspec.Struct, frozen=True):
    """An instance as its row has it, and the number of that writing."""

    instance: Instance
    number: int


class _Format(msgspec.Struct):
    format: int = FORMAT


class _Row(msgspec.Struct, frozen=True):
    """What the columns of the row do not say, named as in `Instance`."""

    address: str
    format: int = FORMAT
    tags: tuple[str, ...] = ()
    capacity: int | None = None
    description: str = ""
    draining: bool = False
    drains_by_word: bool = False
    declares: bytes = b""
    said: int = 0
    vouched: bool | None = None


_SAID = tuple(name for name in _Row.__struct_fields__ if name != "format")
_pack = msgspec.msgpack.Encoder().encode
_unpack_format = msgspec.msgpack.Decoder(_Format).decode
_unpack = msgspec.msgpack.Decoder(_Row).decode


def row_of(instance: Instance, left_at: int | None = None) -> SharedInstance:
    """The row of an instance that has registered, or has deregistered at `left_at` (steady ms)."""
    content = _Row(**{name: getattr(instance, name) for name in _SAID})
    return SharedInstance(*place_of(instance), _pack(content), instance.seen, left_at)


def instance_of(row: SharedInstance) -> Instance:
    """The instance of a row, with a load of 0. Raises RowUnreadable."""
    try:
        written = _unpack_format(row.content).format
        if written > FORMAT:
            raise RowUnreadable(f"it has format {written}, this program knows {FORMAT}; install a newer one")
        content = _unpack(row.content)
    except msgspec.DecodeError as error:
        raise RowUnreadable(str(error)) from error
    return Instance(
        service=row.service,
        tenant=row.tenant,
        instance_id=row.instance_id,
        seen=row.seen_at,
        **{name: getattr(content, name) for name in _SAID},
    )


def place_of(instance: Instance) -> InstancePlace:
    """What identifies it."""
    return instance.tenant, instance.service, instance.instance_id


def is_later(known: Instance, found: Instance, before: Written | None) -> bool:
    """Whether what it said here of its draining is later than what was written elsewhere."""
    is_unwritten = before is not None and drains(known) != drains(before.instance)
    return known.said > found.said or (known.said == found.said and is_unwritten)


def drains(instance: Instance) -> tuple[bool, bool]:
    """What it said of its draining."""
    return instance.draining, instance.drains_by_word


REPORT_MS = SECOND
"""So often a node says of which instances it has heard, where it has heard of any."""

OpenHere = Callable[[], Sequence[tuple[InstancePlace, int]]]
LOOK_MS = SECOND // 2
"""So often a node writes what changed, and reads what the others wrote."""
TIDY_MS = MINUTE
"""So often a node looks for what it may forget."""
BLIND_AFTER_MS = 3 * SECOND
"""After so long without a read, silence of instances that others hear of says nothing."""
OnNotices = Callable[[Sequence[ServiceNotice]], Awaitable[None]]


class NodeReports:
    """What this node has to say, and what the others said. Moments are steady ms."""

    def __init__(self, *, instances: Instances, node: str) -> None:
        self._instances = instances
        self._node = node
        self._heard: dict[InstancePlace, int] = {}
        self._calls: dict[str, dict[InstancePlace, int]] = {}
        self._reported_at = 0
        self._report = NodeReport(node, 0)

    def next(self, now: int, open_here: OpenHere) -> NodeReport | None:
        """The report that is to be written; None: there is no news, or it is too soon."""
        if now - self._reported_at < REPORT_MS:
            return None
        since = now - self._instances.offline_after
        seen = tuple(
            Sighting(one.tenant, one.service, one.instance_id, one.seen, one.load)
            for one in self._instances.all()
            if one.seen > max(self._heard.get(place_of(one), 0), since)
        )
        calls = tuple(OpenCalls(*place, count) for place, count in open_here())
        if (seen, calls) != (self._report.seen, self._report.calls):
            return NodeReport(self._node, now, seen, calls)
        self._reported_at = now
        return None

    def note_written(self, report: NodeReport) -> None:
        """The others can read it."""
        self._report, self._reported_at = report, report.at

    def hurry(self) -> None:
        """The next report is not too soon."""
        self._reported_at = 0

    def take(self, report: NodeReport, *, is_alive: bool) -> None:
        """What another node said; calls count only from one that is alive."""
        if is_alive:
            self._calls[report.node] = {_called(one): one.count for one in report.calls}
        for one in report.seen:
            place = (one.tenant, one.service, one.instance_id)
            self.note_heard(place, one.seen)
            self._instances.hear(*place, one.seen, one.load)

    def calls_to(self, place: InstancePlace) -> int:
        """By the latest reports of the nodes that are alive."""
        return sum(calls.get(place, 0) for calls in self._calls.values())

    def note_heard(self, place: InstancePlace, seen: int) -> None:
        """All nodes know that it lived at `seen`."""
        if self._instances.get(*place) is not None:
            self._heard[place] = max(self._heard.get(place, 0), seen)

    def forget(self, place: InstancePlace) -> None:
        """It has left."""
        self._heard.pop(place, None)

    def tidy(self) -> None:
        """What was said of instances that are not known any more is forgotten."""
        self._heard = {place: at for place, at in self._heard.items() if self._instances.get(*place)}

    def keep(self, names: frozenset[str]) -> None:
        """Calls of nodes other than these are over."""
        self._calls = {node: calls for node, calls in self._calls.items() if node in names}


def _called(calls: OpenCalls) -> InstancePlace:
    return calls.tenant, calls.service, calls.instance_id


class SharedView(Sharing):
    """Implements `services.router.OtherNodes`, too.

    Registrations and leavings are written before they count here. Signs of life and open calls of all
    instances go out as one report of the node, so that a heartbeat costs nothing more. `others` are the nodes
    that are alive; `node` is this one's name. A row that cannot be read here is said in the log and passed
    over; whatever else fails is said as `registry_not_shared`, and tried again.
    """

    def __init__(
        self,
        *,
        shared: SharedRegistry,
        instances: Instances,
        clock: Timekeeper,
        node: str,
        others: Callable[[], frozenset[Holder]],
        log: Log,
    ) -> None:
        self._shared = shared
        self._instances = instances
        self._clock = clock
        self._node = node
        self._others = others
        self._log = log
        self._outage = Outage("registry_not_shared", "registry_shared_again", log=log)
        self._open_here: OpenHere = tuple
        self._on_notices: OnNotices = _ignore
        self._alive: frozenset[Holder] = frozenset()
        self._number = 0
        self._mark = (clock.now().steady, 0)
        self._tidied_at = 0
        self._is_table_read = True
        self._reads_begun = 0
        self._reading = asyncio.Lock()
        self._read_at: int | None = None
        self._whole_at = 0
        self._notices: dict[tuple[str, str], bool] = {}
        self._rows: dict[InstancePlace, Written] = {}
        self._revived: dict[InstancePlace, int] = {}
        self._reports = NodeReports(instances=instances, node=node)
        self._task: asyncio.Task[None] | None = None

    @property
    def complete_at(self) -> int:
        """Moves on while the database cannot be read, and after a node is gone that was told of some."""
        now = self._clock.now().steady
        return now + self._instances.offline_after if self._is_blind(now) else self._whole_at

    def bind(self, *, open_here: OpenHere, on_notices: OnNotices) -> None:
        """Names whose calls are reported, and who is told of changed services."""
        self._open_here = open_here
        self._on_notices = on_notices

    def start(self) -> None:
        """Begins to exchange changes with the other nodes."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Writes what was heard last. Raises nothing."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._reports.hurry()
        await self._exchange()

    async def catch_up(self) -> None:
        """Reads what is new. Those who ask while a read is under way share the next one."""
        wanted = self._reads_begun + 1
        async with self._reading:
            if self._reads_begun < wanted:
                await self._read()

    async def ask(self) -> None:
        """As `catch_up`, but raises nothing: `complete_at` says that nothing more is known."""
        try:
            await self.catch_up()
        except Exception as error:  # noqa: BLE001 - as in `_exchange`: a step must not break by it
            self._read_at = None
            self._outage.fail(explain(error))

    def calls_to(self, place: InstancePlace) -> int:
        """By the latest reports of the nodes that are alive."""
        return self._reports.calls_to(place)

    async def write(self, instance: Instance) -> None:
        async with self._reading:  # what was read before would undo it here
            number = await self._shared.put(instances=[row_of(instance)])
            self._rows[place_of(instance)] = Written(instance, number)
            self._revived.pop(place_of(instance), None)

    async def leave(self, instance: Instance, left_at: int) -> None:
        async with self._reading:
            await self._shared.put(instances=[row_of(instance, left_at)])
            self._part_from(place_of(instance))

    async def forget(self, before: int) -> None:
        silent = tuple(place for place, row in self._rows.items() if self._is_old(row, before))
        marked_at, noticed = self._mark
        alive = frozenset({self._node, *(holder.node for holder in self._others())})
        await self._shared.forget(Old(before, silent, alive, noticed if marked_at < before else 0))
        for place in silent:
            self._part_from(place)
        if marked_at < before:
            self._mark = (self._clock.now().steady, self._number)

    def note(self, tenant: str, name: str, *, anew: bool) -> None:
        self._notices[tenant, name] = anew

    async def flush(self) -> None:
        with suppress(StoreError):
            await self._write_notices()

    async def _run(self) -> None:
        while True:
            await self._exchange()
            await self._clock.sleep(LOOK_MS)

    async def _exchange(self) -> None:
        try:
            self._look_at_nodes()
            self._tidy()
            await self._write_notices()
            if not self._is_table_read:
                await self._on_notices(())
                self._is_table_read = True
            await self._write_changed()
            await self._write_report()
            await self.catch_up()
        except Exception as error:  # noqa: BLE001 - nobody else looks at this task, and silence would count
            self._outage.fail(explain(error))
        else:
            self._outage.succeed()

    def _look_at_nodes(self) -> None:
        """Instances that spoke to a node that is gone have as long as after a start to find another one."""
        alive = self._others()
        if not self._alive <= alive:
            self._whole_at = self._clock.now().steady + self._instances.offline_after
            self._is_table_read = False  # it may have died before it told of a service that it wrote
        self._alive = alive
        self._reports.keep(frozenset(holder.node for holder in alive))

    def _tidy(self) -> None:
        """The scan runs at one node; each of the others forgets by itself what is old.

        It keeps the rows as long again, for a scan that runs here.
        """
        now = self._clock.now().steady
        if now - self._tidied_at < TIDY_MS:
            return
        self._tidied_at = now
        self._instances.forget(now - FORGOTTEN_AFTER)
        for place, row in list(self._rows.items()):
            if self._is_old(row, now - 2 * FORGOTTEN_AFTER):
                self._part_from(place)
        self._reports.tidy()
        self._revived = {place: at for place, at in self._revived.items() if self._instances.get(*place)}

    def _is_old(self, row: Written, before: int) -> bool:
        place = place_of(row.instance)
        return row.instance.seen < before and self._instances.get(*place) is None

    async def _write_notices(self) -> None:
        told = dict(self._notices)
        if told:
            await self._shared.put(services=[ServiceNotice(*key, anew) for key, anew in told.items()])
            self._notices = {key: anew for key, anew in self._notices.items() if told.get(key) is not anew}

    async def _write_changed(self) -> None:
        """Instances that drain, or do so no more, and those that a leaving overtook.

        What another node has written meanwhile stays; the next read compares it with what is known here, and
        tells the new number of what was written.
        """
        changed = [one for one in map(self._changed, self._rows.keys() | self._revived) if one is not None]
        if changed:
            await self._shared.change(changed)

    def _changed(self, place: InstancePlace) -> SharedInstance | None:
        one, row = self._instances.get(*place), self._rows.get(place)
        if one is None or (row is not None and drains(one) == drains(row.instance)):
            return None
        number = self._revived[place] if row is None else row.number
        return msgspec.structs.replace(row_of(one), number=number)

    async def _write_report(self) -> None:
        report = self._reports.next(self._clock.now().steady, self._open_here)
        if report is not None:
            await self._shared.report(report)
            self._reports.note_written(report)

    async def _read(self) -> None:
        self._reads_begun += 1
        now = self._clock.now().steady
        changes = await self._shared.after(self._number, self._node)
        if changes.services:
            await self._on_notices(changes.services)
        self._apply(changes)
        self._number = changes.number
        if self._is_blind(now):
            self._whole_at = now + self._instances.offline_after
        self._read_at = now

    def _is_blind(self, now: int) -> bool:
        return self._read_at is None or now - self._read_at > BLIND_AFTER_MS

    def _apply(self, changes: Changes) -> None:
        for row in changes.instances:
            try:
                self._apply_row(row)
            except RowUnreadable as error:
                self._log(
                    "registry_row_skipped", service=row.service, instance=row.instance_id, error=str(error)
                )
        for unread in changes.unread:
            self._log("registry_row_skipped", node=unread.node, error=unread.reason)
        names = {holder.node for holder in self._others()}
        for report in changes.reports:
            self._reports.take(report, is_alive=report.node in names)

    def _apply_row(self, row: SharedInstance) -> None:
        place, known = row.place, self._instances.get(*row.place)
        if row.left_at is None:
            found = instance_of(row)
            before, self._rows[place] = self._rows.get(place), Written(found, row.number)
            self._revived.pop(place, None)
            if known is not None and is_later(known, found, before):
                found = msgspec.structs.replace(
                    found, draining=known.draining, drains_by_word=known.drains_by_word, said=known.said
                )
            self._instances.adopt(found)
            self._reports.note_heard(place, row.seen_at)
        elif known is not None and known.seen > row.left_at:
            self._rows.pop(place, None)
            self._revived[place] = row.number
        else:
            self._part_from(place)
            self._instances.remove(*place, row.left_at)

    def _part_from(self, place: InstancePlace) -> None:
        """It has left."""
        self._rows.pop(place, None)
        self._revived.pop(place, None)
        self._reports.forget(place)


async def _ignore(notices: Sequence[ServiceNotice]) -> None:
    """Nobody is told."""
