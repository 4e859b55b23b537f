"""The rate limits of services over all nodes of a cluster (docs/decisions/0056-one-rate-limit.md)."""

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.services import RateLimit
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.errors import StoreError, StoreUncertain, explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_rates import RatePage, SharedRates
from scheduler_service.services.rate_book import (
    LOAN_MS,
    SKEW_MS,
    Book,
    Gives,
    Loan,
    Mine,
    Settled,
    Spent,
    count_all,
    read_book,
    settle,
    write_book,
)
from scheduler_service.telemetry.tally import Outage

IDLE_MS = 2_000
"""After so long without a call a node gives back what it has, and asks for nothing any more."""
ASK_AGAIN_MS = 250
"""How soon a call that may not be made is looked at again; what is granted meanwhile is told at once."""
Key = tuple[str, str]
PAUSE_MS = 250
"""Between two visits of one book, however many calls wait."""
RENEW_MS = SECOND
"""So often a node that has permits looks at the book: others may lack them."""
TRIES = 5
"""Of a visit, where other nodes write at the same time."""
OnGrant = Callable[[Key], None]


class Parted(msgspec.Struct, frozen=True):
    """`count` permits that were taken out of a window to be given; the moments of those that were used."""

    count: int
    own: tuple[int, ...]
    foreign: tuple[Spent, ...]


class SharedWindow:
    """Implements `services.router.Window` over the permits of one node.

    `on_want` is called where calls wait that another permit would allow. Permits count until the moment to
    which they were lent.
    """

    def __init__(self, *, key: Key, on_want: Callable[[], None]) -> None:
        self.key = key
        self.limit: RateLimit | None = None
        self._on_want = on_want
        self._held = self._until = self._unmet = self._touched = 0
        self._own: deque[int] = deque()
        self._foreign: tuple[Spent, ...] = ()
        self._has_given = False

    @property
    def held(self) -> int:
        """The permits that it has, used or not."""
        return self._held

    @property
    def is_wanting(self) -> bool:
        """Whether calls wait of which the book was not told."""
        return self._unmet > 0

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call may be allowed; 0: it is."""
        self.limit, self._touched = limit, now
        if now >= self._until or not self._held:
            return ASK_AGAIN_MS
        self._drop_old(now)
        most = min(self._held, limit.count)
        if self._busy < most:
            return 0
        moments = sorted([*self._own, *(one.at for one in self._foreign for _ in range(one.count))])
        pause = moments[self._busy - most] + limit.per - now
        return pause if self._held >= limit.count else min(pause, ASK_AGAIN_MS)

    def want(self, count: int, now: int) -> None:
        """So many calls wait: the next visit of the book asks for as many permits."""
        self._unmet, self._touched = max(self._unmet, count), now
        if self.limit is not None and (self._held < self.limit.count or now >= self._until):
            self._on_want()

    def want_again(self, count: int) -> None:
        """What was told to the book did not reach it."""
        self._unmet = max(self._unmet, count)

    def take(self, now: int) -> None:
        """Counts a call."""
        self._own.append(now)
        self._touched = now

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made. Older ones count no more."""
        for _ in range(min(count, self._own.count(taken))):
            self._own.remove(taken)

    def describe(self, now: int, *, is_leaving: bool = False) -> Mine:
        """What it has, for the book; without a call for two seconds it leaves. Who waits is told once."""
        self._drop_old(now)
        unmet, self._unmet = self._unmet, 0
        yields, self._has_given = self._has_given, False
        return Mine(
            free=max(self._held - self._busy, 0),
            own=tuple(self._own),
            foreign=self._foreign,
            unmet=unmet,
            is_leaving=is_leaving or now - self._touched >= IDLE_MS,
            yields=yields,
        )

    def part_with(self, gives: Gives) -> Parted:
        """Uses no more what it gives. What is returned can be taken back where it was not written."""
        own = tuple(self._own.popleft() for _ in range(min(gives.own, len(self._own))))
        foreign = self._foreign if gives.foreign else ()
        if gives.foreign:
            self._foreign = ()
        count = gives.free + gives.own + count_all(foreign)
        self._held -= count
        self._has_given = count > 0
        return Parted(count, own, foreign)

    def take_back(self, parted: Parted) -> None:
        """It was not given."""
        self._held += parted.count
        self._has_given = False
        self._own.extendleft(reversed(parted.own))
        self._foreign = (*parted.foreign, *self._foreign)

    def receive(self, free: int, foreign: tuple[Spent, ...], until: int) -> None:
        """These permits are lent to it, with those that it has, to this moment."""
        self._held += free + count_all(foreign)
        self._foreign += foreign
        self._until = until

    def lose_all(self) -> None:
        """What it had is no longer its own, or it is unknown; whoever reads the book counts it as used."""
        self._held = self._until = 0
        self._own.clear()
        self._foreign = ()

    @property
    def _busy(self) -> int:
        return len(self._own) + (count_all(self._foreign) if self._foreign else 0)

    def _drop_old(self, now: int) -> None:
        if self.limit is None:
            return
        over = now - self.limit.per
        while self._own and self._own[0] <= over:
            self._own.popleft()
        if self._foreign:
            self._foreign = tuple(one for one in self._foreign if one.at > over)


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
