"""The rate limits of services over all nodes of a cluster (docs/decisions/0056-one-rate-limit.md)."""

import asyncio
from collections.abc import Callable

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.errors import StoreError, StoreUncertain, explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_rates import RatePage, SharedRates
from scheduler_service.services.rate_book import (
    LOAN_MS,
    SKEW_MS,
    Book,
    Loan,
    Settled,
    read_book,
    settle,
    write_book,
)
from scheduler_service.services.shared_window import Key, SharedWindow
from scheduler_service.telemetry.outage import Outage

PAUSE_MS = 250
"""Between two visits of one book, however many calls wait."""
RENEW_MS = SECOND
"""So often a node that has permits looks at the book: others may lack them."""
TRIES = 5
"""Of a visit, where other nodes write at the same time."""
OnGrant = Callable[[Key], None]


class RateSharing:
    """The windows of one node; `holder` names its process. Nothing is asked without calls of such a service.

    While the books cannot be read or written, permits are used to the end of their loan, then calls wait.
    """

    def __init__(self, *, shared: SharedRates, clock: Timekeeper, holder: str, log: Log) -> None:
        self._shared = shared
        self._clock = clock
        self._holder = holder
        self._on_grant: OnGrant = _ignore
        self._outage = Outage("rates_not_shared", "rates_shared_again", log=log)
        self._visitors: dict[Key, _Visitor] = {}

    def bind(self, on_grant: OnGrant) -> None:
        """Names who is told that calls of a service may go on."""
        self._on_grant = on_grant

    def window(self, tenant: str, service: str) -> SharedWindow:
        """The one of a service; always the same."""
        key = (tenant, service)
        visitor = self._visitors.get(key)
        if visitor is None:
            visitor = self._visitors[key] = _Visitor(
                key=key,
                shared=self._shared,
                clock=self._clock,
                holder=self._holder,
                on_grant=lambda: self._on_grant(key),
                outage=self._outage,
            )
        return visitor.window

    async def stop(self) -> None:
        """Gives back all permits. Raises nothing."""
        await asyncio.gather(*(visitor.stop() for visitor in self._visitors.values()))


class _Visitor:
    """Keeps the book of one limit for the window of this node.

    A visit is one read, and one write where something changed or the loan has to be renewed.
    """

    def __init__(
        self,
        *,
        key: Key,
        shared: SharedRates,
        clock: Timekeeper,
        holder: str,
        on_grant: Callable[[], None],
        outage: Outage,
    ) -> None:
        self._key = key
        self._shared = shared
        self._clock = clock
        self._name = holder
        self._lives = 0
        self._on_grant = on_grant
        self._outage = outage
        self._visited_at = -PAUSE_MS
        self._alarm: Alarm | None = None
        self._planned_at: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.window = SharedWindow(key=key, on_want=self._hurry)

    async def stop(self) -> None:
        """Gives back what the window has. Raises nothing."""
        self._is_stopping = True
        self._cancel_alarm()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self.window.held:
            await self._visit()

    @property
    def _holder(self) -> str:
        """Under another name after each loss, so that what was lost is nobody's, and ends."""
        return f"{self._name} {self._lives}"

    def _hurry(self) -> None:
        self._plan(max(self._clock.now().steady, self._visited_at + PAUSE_MS))

    def _plan(self, at: int) -> None:
        """A visit at `at`, or earlier where one is planned."""
        if self._is_stopping or (self._planned_at is not None and self._planned_at <= at):
            return
        self._cancel_alarm()
        self._planned_at = at
        pause = at - self._clock.now().steady
        if pause > 0:
            self._alarm = self._clock.call_after(pause, self._begin)
        else:
            self._begin()

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._planned_at = None

    def _begin(self) -> None:
        if self._task is None:
            self._alarm = None
            self._task = asyncio.create_task(self._visit())
            self._task.add_done_callback(self._end)
        # Else the end of the one under way plans the next.

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._task, was_planned = None, self._planned_at
        self._cancel_alarm()
        now = self._clock.now().steady
        if was_planned is not None and was_planned > now:
            self._plan(was_planned)
        if self.window.is_wanting:
            self._hurry()
        elif self.window.held:
            self._plan(now + RENEW_MS)

    async def _visit(self) -> None:
        try:
            for _ in range(TRIES):
                if await self._settle(await self._shared.read(*self._key)):
                    break
        except Exception as error:  # noqa: BLE001 - nobody else looks at this task, and silence would count
            self._outage.fail(explain(error))
        else:
            self._outage.succeed()
        self._visited_at = self._clock.now().steady

    async def _settle(self, page: RatePage) -> bool:
        """Whether it is settled, and written where needed; False: another node wrote. Raises StoreError."""
        window, now = self.window, self._clock.now().steady
        assert window.limit is not None, "who wants something has a limit"
        book = read_book(page.content)
        self._check_loan(book.loans.get(self._holder), now)
        mine = window.describe(now, is_leaving=self._is_stopping)
        settled = settle(book, self._holder, mine, window.limit, now)
        if not self._is_to_write(book, settled.book, now):
            return True
        parted = window.part_with(settled.gives)
        try:
            is_written = await self._shared.write(
                *self._key, msgspec.structs.replace(page, content=write_book(settled.book))
            )
        except StoreUncertain:
            self._lose()
            raise
        except StoreError:
            window.take_back(parted)
            raise
        if is_written:
            self._take_over(settled)
        else:
            window.take_back(parted)
            window.want_again(mine.unmet)
        return is_written

    def _check_loan(self, loan: Loan | None, now: int) -> None:
        """What the book does not say, or says no more, is not this window's any longer."""
        held = 0 if loan is None else loan.held
        if held != self.window.held or (loan is not None and loan.until + SKEW_MS <= now):
            self._lose()

    def _lose(self) -> None:
        self._lives += 1
        self.window.lose_all()

    def _is_to_write(self, before: Book, after: Book, now: int) -> bool:
        """Whether more changes than the end of a loan that has a while left."""
        own = before.loans.get(self._holder)
        if own is None or own.until - now < LOAN_MS // 2:
            return before != after
        mine = after.loans.get(self._holder)
        if mine is None:
            return True
        same_end = {**after.loans, self._holder: msgspec.structs.replace(mine, until=own.until)}
        return before != msgspec.structs.replace(after, loans=same_end)

    def _take_over(self, settled: Settled) -> None:
        loan = settled.book.loans.get(self._holder)
        self.window.receive(settled.free, settled.foreign, 0 if loan is None else loan.until)
        if settled.free:
            self._on_grant()


def _ignore(key: Key) -> None:
    """Nobody is told."""
