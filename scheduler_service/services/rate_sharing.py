"""The rate limits of services over all nodes of a cluster (docs/decisions/0056-one-rate-limit.md).

A limit of `count` calls within `per` ms is `count` permits, each of which is used at most once within `per`.
So no stretch of `per` ms has more than `count` calls, whoever makes them. A node that holds permits uses them
without asking anybody, until its loan ends. The pool has the others, and the moments of those that were used.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError, StoreUncertain, explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_registry import RatePage, SharedRates
from scheduler_service.telemetry.log_summaries import Outage

LOAN_MS = 3 * SECOND
"""So long a node uses its permits after it has written that it holds them."""
SKEW_MS = 100
"""By so much the clocks of two nodes may differ: what passes between them counts as used so much later."""
SLICES = 16
"""A node begins with this part of the permits, and doubles what it has while calls wait."""
BUCKETS = 50
"""Moments within `per` that are told apart where permits pass between nodes: rounded up to the later one."""
IDLE_MS = 2_000
"""After so long without a call a node gives back what it has, and asks for nothing any more."""
ASK_AGAIN_MS = 250
"""How soon a call that may not be made is looked at again; what is granted meanwhile is told at once."""
PAUSE_MS = 250
"""Between two visits of one book, however many calls wait."""
RENEW_MS = SECOND
"""So often a node that has permits looks at the book: others may lack them."""
TRIES = 5
"""Of a visit, where other nodes write at the same time."""
PATIENCE_MS = 2 * RENEW_MS
"""So long who asks waits for others, each of which looks at the book meanwhile."""
Key = tuple[str, str]
OnGrant = Callable[[Key], None]


class Spent(msgspec.Struct, frozen=True, array_like=True, order=True):
    """So many permits were used `at` a moment (steady ms), or may have been."""

    at: int
    count: int


class Loan(msgspec.Struct, frozen=True, array_like=True):
    """What one holder has until when (steady ms), and how many of its calls wait.

    `full_until`: all of it is used, and the first is free for anybody then; 0: some may be unused.
    """

    held: int
    until: int
    unmet: int = 0
    full_until: int = 0


class Book(msgspec.Struct, frozen=True, array_like=True):
    """The loans by holder, and the permits in the pool that were used; all others were not."""

    loans: dict[str, Loan] = {}
    spent: tuple[Spent, ...] = ()


class Mine(msgspec.Struct, frozen=True):
    """What a holder has: `held` permits, of which some were used at the moments in `used`.

    `unmet` calls wait. `is_leaving`: it keeps nothing. `keeps`: it took some so lately that it has not used
    them all. `yields`: it gave at its last visit, so whoever lacks something comes first.
    """

    held: int = 0
    used: tuple[int, ...] = ()
    unmet: int = 0
    is_leaving: bool = False
    keeps: bool = False
    yields: bool = False


class Settled(msgspec.Struct, frozen=True):
    """The book after a holder's visit, what it holds then, and the moments of the used ones that it took."""

    book: Book
    held: int
    taken: tuple[int, ...] = ()


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Book).decode


def settle(book: Book, holder: str, mine: Mine, limit: RateLimit, now: int) -> Settled:
    """One visit of a holder: it gives what others lack and it can spare, else takes what it lacks.

    It gives permits that it has not used, then those that it used first. Loans that have ended go back into
    the pool, as used at their end.
    """
    loan = book.loans.get(holder)
    book = _without_ended(book, limit, now)
    others = {name: other for name, other in book.loans.items() if name != holder}
    spare = limit.count - mine.held - sum(other.held for other in others.values())
    held = mine.held - _count_given(mine, others, limit, spare)
    spent = _sum_up((*book.spent, *_pass_on(mine.used[: max(len(mine.used) - held, 0)], limit, now)))
    free, taken = 0, tuple[int, ...]()
    if held == mine.held:
        free, taken, spent = _take(spent, mine, _count_takeable(mine, others, limit, spare), limit, spare)
    held, unmet = held + free + len(taken), 0 if mine.is_leaving else max(mine.unmet - free, 0)
    if held or unmet:
        is_long = loan is not None and loan.until - now >= LOAN_MS // 2
        used = sorted((*mine.used[max(len(mine.used) - held, 0) :], *taken))
        full_until = _pass_on_at(used[0], limit) + limit.per if held and len(used) >= held else 0
        others[holder] = Loan(held, loan.until if loan and is_long else now + LOAN_MS, unmet, full_until)
    return Settled(Book(others, spent), held, taken)


def next_free(book: Book, limit: RateLimit, now: int) -> int:
    """The first moment (steady ms) at which any permit is free; 0: one may be now."""
    pool = limit.count - sum(loan.held for loan in book.loans.values())
    if pool > sum(one.count for one in book.spent):
        return 0
    moments = [loan.full_until for loan in book.loans.values() if loan.held]
    first = min([*moments, *(one.at + limit.per for one in book.spent if pool > 0)], default=0)
    return first if first > now else 0


def _without_ended(book: Book, limit: RateLimit, now: int) -> Book:
    """Without loans that have ended, and moments that count no more."""
    over = {name: loan for name, loan in book.loans.items() if loan.until + SKEW_MS <= now}
    back = tuple(Spent(loan.until + SKEW_MS, loan.held) for loan in over.values() if loan.held)
    spent = tuple(one for one in book.spent + back if one.at + limit.per > now)
    return Book({name: loan for name, loan in book.loans.items() if name not in over}, spent)


def _count_given(mine: Mine, others: dict[str, Loan], limit: RateLimit, spare: int) -> int:
    """What others lack: what nobody here waits for, or what is beyond the fair part."""
    if mine.is_leaving:
        return mine.held
    # Where a limit was lowered, more is lent than there is: each holder comes down to its part.
    sharers = _count_rivals(others) if spare >= 0 else 1 + len(others)
    lacking = sum(other.unmet for other in others.values()) - spare
    unneeded = mine.held - len(mine.used) - mine.unmet
    most = unneeded if mine.keeps and spare >= 0 else max(unneeded, mine.held - limit.count // sharers)
    # Half of what is unused: of a little, each of the next calls would wait for a visit.
    return max(min(max(lacking, unneeded // 2), most), 0) if lacking > 0 else 0


def _count_takeable(mine: Mine, others: dict[str, Loan], limit: RateLimit, spare: int) -> int:
    rivals = _count_rivals(others)
    if mine.is_leaving or mine.unmet <= 0 or (mine.yields and rivals > 1):
        return 0
    return spare if rivals == 1 else min(spare, -(-limit.count // rivals) - mine.held)


def _count_rivals(others: dict[str, Loan]) -> int:
    """The holder, and the others whose calls wait."""
    return 1 + sum(other.unmet > 0 for other in others.values())


def _pass_on(used: Iterable[int], limit: RateLimit, now: int) -> Iterable[Spent]:
    """The moments of used permits that are given, later by the skew, in buckets."""
    moments = (_pass_on_at(at, limit) for at in used)
    return (Spent(at, 1) for at in moments if at + limit.per > now)


def _pass_on_at(used_at: int, limit: RateLimit) -> int:
    step = max(limit.per // BUCKETS, 1)
    return -(-(used_at + SKEW_MS) // step) * step


def _take(
    spent: tuple[Spent, ...], mine: Mine, most: int, limit: RateLimit, spare: int
) -> tuple[int, tuple[int, ...], tuple[Spent, ...]]:
    """Free permits, the moments of used ones (which may be used here later), and what is left of these."""
    if most <= 0:
        return 0, (), spent
    moments = [one.at for one in spent for _ in range(one.count)]
    wanted = max(mine.unmet, -(-limit.count // SLICES), mine.held)
    free = min(wanted, most, max(spare - len(moments), 0))
    left = max(min(mine.unmet, most) - free, 0)
    return free, tuple(moments[:left]), _sum_up(Spent(at, 1) for at in moments[left:])


def _sum_up(spent: Iterable[Spent]) -> tuple[Spent, ...]:
    """One entry for each moment, in order."""
    counts: dict[int, int] = {}
    for one in spent:
        counts[one.at] = counts.get(one.at, 0) + one.count
    return tuple(Spent(at, count) for at, count in sorted(counts.items()))


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
        self._windows: dict[Key, SharedWindow] = {}

    def bind(self, on_grant: OnGrant) -> None:
        """Names who is told that calls of a service may go on."""
        self._on_grant = on_grant

    def window(self, tenant: str, service: str) -> "SharedWindow":
        """The one of a service; always the same."""
        key = (tenant, service)
        if key not in self._windows:
            self._windows[key] = SharedWindow(
                key=key,
                shared=self._shared,
                clock=self._clock,
                holder=self._holder,
                on_grant=lambda: self._on_grant(key),
                outage=self._outage,
            )
        return self._windows[key]

    async def stop(self) -> None:
        """Gives back all permits. Raises nothing."""
        await asyncio.gather(*(window.stop() for window in self._windows.values()))


class SharedWindow:
    """Implements `services.rate_windows.ProcessWindow` over the permits that one node holds.

    A visit of the book is one read, and one write where something changed or the loan has to be renewed.
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
        self._limit: RateLimit | None = None
        self._held = self._until = self._unmet = self._touched = self._keeps_until = 0
        self._used: deque[int] = deque()
        self._has_given = self._is_listed = False
        self._visited_at = self._free_at = 0
        self._visiting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def held(self) -> int:
        """The permits that it has, used or not."""
        return self._held

    @property
    def lacks_share(self) -> bool:
        """Whether it has no permit."""
        return not self._held

    async def ask(self, limit: RateLimit, count: int) -> int | None:
        """Asks the book for `count` callers who wait, and waits while others may have some left.

        Gives 0 where a call is allowed, else how long (ms) none is; None: the book cannot be read.
        """
        now = self._clock.now().steady
        end = now + PATIENCE_MS
        while True:
            self._limit, self._touched, self._unmet = limit, now, max(self._unmet, count)
            if not await self._visit():
                return None
            self._go_on_visiting()
            now = self._clock.now().steady
            if not self.wait(limit, now):
                return 0
            if self._free_at > now or now >= end:
                return max(self._free_at - now, ASK_AGAIN_MS)
            await self._clock.sleep(PAUSE_MS)

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call may be allowed; 0: it is."""
        self._limit, self._touched = limit, now
        if now >= self._until or not self._held:
            return ASK_AGAIN_MS
        self._drop_old(limit, now)
        most = min(self._held, limit.count)
        if len(self._used) < most:
            return 0
        pause = sorted(self._used)[len(self._used) - most] + limit.per - now
        return pause if self._held >= limit.count else min(pause, ASK_AGAIN_MS)

    def room(self, limit: RateLimit, now: int) -> int:
        """How many calls are allowed now, just after `wait` was 0."""
        return min(self._held, limit.count) - len(self._used)

    def want(self, count: int, now: int) -> None:
        """So many calls wait: the next visit of the book asks for as many permits."""
        self._unmet, self._touched = max(self._unmet, count), now
        if self._limit is not None and (self._held < self._limit.count or now >= self._until):
            self._go_on_visiting()

    def take(self, now: int) -> None:
        """Counts a call."""
        self._used.append(now)
        self._touched = now

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made. Older ones count no more."""
        for _ in range(min(count, self._used.count(taken))):
            self._used.remove(taken)

    async def stop(self) -> None:
        """Gives back what it has. Raises nothing."""
        self._is_stopping = True
        if self._held or self._visiting.locked():
            await self._visit()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _holder(self) -> str:
        """Under another name after each loss, so that what was lost is nobody's, and ends."""
        return f"{self._name} {self._lives}"

    def _go_on_visiting(self) -> None:
        is_running = self._task is not None and not self._task.done()
        if not is_running and not self._is_stopping:
            self._task = asyncio.create_task(self._run())

    def _drop_old(self, limit: RateLimit, now: int) -> None:
        while self._used and self._used[0] <= now - limit.per:
            self._used.popleft()

    async def _run(self) -> None:
        """Visits the book while the node has permits, or wants some."""
        while self._held or self._unmet or self._is_listed:
            if self._unmet or self._clock.now().steady - self._visited_at >= RENEW_MS:
                await self._visit()
            await self._clock.sleep(PAUSE_MS)

    async def _visit(self) -> bool:
        """Whether the book could be read and written."""
        async with self._visiting:
            try:
                for _ in range(TRIES):
                    if await self._settle(await self._shared.read(*self._key)):
                        break
            except Exception as error:  # noqa: BLE001 - nobody else looks at the task, and silence would count
                self._outage.fail(explain(error))
                return False
            finally:
                self._visited_at = self._clock.now().steady
            self._outage.succeed()
            return True

    async def _settle(self, page: RatePage) -> bool:
        """Whether it is settled, and written where needed; False: another node wrote. Raises StoreError."""
        limit, now = self._limit, self._clock.now().steady
        assert limit is not None, "who wants something has a limit"
        book = _unpack(page.content) if page.content else Book()
        self._check_loan(book.loans.get(self._holder), now)
        mine = self._describe(limit, now)
        settled = settle(book, self._holder, mine, limit, now)
        self._free_at = next_free(settled.book, limit, now)
        if settled.book == book:
            return True
        given = self._part_with(settled.held)
        written = msgspec.structs.replace(page, content=_pack(settled.book))
        try:
            is_written = await self._shared.write(*self._key, written)
        except StoreUncertain:
            self._lose()
            raise
        except StoreError:
            self._take_back(mine.held, given)
            raise
        if is_written:
            self._take_over(settled, mine, limit)
        else:
            self._take_back(mine.held, given)
            self._unmet = max(self._unmet, mine.unmet)
        return is_written

    def _check_loan(self, loan: Loan | None, now: int) -> None:
        """What the book does not say, or says no more, is not this window's any longer."""
        held = 0 if loan is None else loan.held
        if held != self._held or (loan is not None and loan.until + SKEW_MS <= now):
            self._lose()

    def _lose(self) -> None:
        """What it had is no longer its own, or it is unknown; whoever reads the book counts it as used."""
        self._lives += 1
        self._held = self._until = 0
        self._used.clear()

    def _describe(self, limit: RateLimit, now: int) -> Mine:
        """What it has; without a call for two seconds it leaves. Who waits is told once."""
        self._drop_old(limit, now)
        unmet, self._unmet = self._unmet, 0
        yields, self._has_given = self._has_given, False
        return Mine(
            held=self._held,
            used=tuple(self._used),
            unmet=unmet,
            is_leaving=self._is_stopping or now - self._touched >= IDLE_MS,
            keeps=now < self._keeps_until,
            yields=yields,
        )

    def _part_with(self, held: int) -> list[int]:
        """Uses no more than `held` permits; the moments of the used ones that it gives."""
        self._has_given = held < self._held
        self._held = min(self._held, held)
        return [self._used.popleft() for _ in range(len(self._used) - self._held)]

    def _take_back(self, held: int, given: list[int]) -> None:
        """It was not given."""
        self._held = held
        self._has_given = False
        self._used.extendleft(reversed(given))

    def _take_over(self, settled: Settled, mine: Mine, limit: RateLimit) -> None:
        loan = settled.book.loans.get(self._holder)
        self._held, self._until = settled.held, 0 if loan is None else loan.until
        self._is_listed = loan is not None and loan.unmet > 0
        if settled.taken:
            self._used = deque(sorted((*self._used, *settled.taken)))
            self._keeps_until = max(settled.taken) + limit.per
        if settled.held - len(settled.taken) > mine.held:
            self._on_grant()


class MemoryRates:
    """Implements `ports.shared_registry.SharedRates` for the processes of one machine, in one of them."""

    def __init__(self) -> None:
        self._pages: dict[Key, RatePage] = {}

    async def read(self, tenant: str, service: str) -> RatePage:
        """The latest page."""
        return self._pages.get((tenant, service), RatePage())

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        """Writes over the page with this number; False: there is a newer one."""
        if self._pages.get((tenant, service), RatePage()).number != page.number:
            return False
        self._pages[tenant, service] = RatePage(page.content, page.number + 1)
        return True


def _ignore(key: Key) -> None:
    """Nobody is told."""
