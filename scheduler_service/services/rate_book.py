"""Who of a cluster may use how much of one rate limit: permits that are lent to nodes (pure).

A limit of `count` calls within `per` ms is `count` permits, each of which is used at most once within `per`.
So no stretch of `per` ms has more than `count` calls, whoever makes them. A node that holds permits uses them
without asking anybody, until its loan ends. The pool has the others, and the moments of those that were used.
"""

from collections.abc import Iterable, Sequence

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.services import RateLimit

LOAN_MS = 3 * SECOND
"""So long a node uses its permits after it has written that it holds them."""
SKEW_MS = 100
"""By so much the clocks of two nodes may differ: what passes between them counts as used so much later."""
SLICES = 16
"""A node begins with this part of the permits, and doubles what it has while calls wait."""
BUCKETS = 50
"""Moments within `per` that are told apart where permits pass between nodes: rounded up to the later one."""


class Spent(msgspec.Struct, frozen=True, array_like=True, order=True):
    """So many permits were used `at` a moment (steady ms), or may have been."""

    at: int
    count: int


class Loan(msgspec.Struct, frozen=True, array_like=True):
    """What one holder has until when (steady ms), and how many of its calls wait."""

    held: int
    until: int
    unmet: int = 0


class Book(msgspec.Struct, frozen=True, array_like=True):
    """The loans by holder, and the permits in the pool that were used; all others were not."""

    loans: dict[str, Loan] = {}
    spent: tuple[Spent, ...] = ()


class Mine(msgspec.Struct, frozen=True):
    """What a holder has: `free` permits, those that it used at `own` moments, and `foreign` ones, which were
    used elsewhere and not by it yet. `unmet` calls wait; `is_leaving`: it wants to keep nothing. `yields`: it
    gave at its last visit, so whoever lacks something comes first.
    """

    free: int = 0
    own: Sequence[int] = ()
    foreign: tuple[Spent, ...] = ()
    unmet: int = 0
    is_leaving: bool = False
    yields: bool = False

    @property
    def held(self) -> int:
        """All permits."""
        return self.free + len(self.own) + count_all(self.foreign)


class Gives(msgspec.Struct, frozen=True):
    """What a holder gives: free permits, those of its first own moments, and all foreign ones or none."""

    free: int = 0
    own: int = 0
    foreign: bool = False


class Settled(msgspec.Struct, frozen=True):
    """The book after a holder's visit, what it gave, and what it took: free permits, and used ones."""

    book: Book
    gives: Gives = Gives()
    free: int = 0
    foreign: tuple[Spent, ...] = ()


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Book).decode
EMPTY = Book()


def write_book(book: Book) -> bytes:
    """The book as it is stored."""
    return _pack(book)


def read_book(content: bytes) -> Book:
    """The book as it was stored; empty where nothing was. Raises msgspec.DecodeError."""
    return _unpack(content) if content else EMPTY


def count_all(spent: Iterable[Spent]) -> int:
    """How many permits these are."""
    return sum(one.count for one in spent)


def settle(book: Book, holder: str, mine: Mine, limit: RateLimit, now: int) -> Settled:
    """One visit of a holder: it gives what others lack and it can spare, else takes what it lacks.

    Loans that have ended go back into the pool, as used at their end.
    """
    book = _without_ended(book, limit, now)
    others = {name: loan for name, loan in book.loans.items() if name != holder}
    spare = limit.count - mine.held - sum(loan.held for loan in others.values())
    lacking = sum(loan.unmet for loan in others.values())
    rivals = 1 + sum(loan.unmet > 0 for loan in others.values())
    # Where a limit was lowered, more is lent than there is: each holder comes down to its part.
    sharers = rivals if spare >= 0 else 1 + len(others)
    gives = _give(mine, lacking - spare, limit.count // sharers)
    given = gives.free + gives.own + (count_all(mine.foreign) if gives.foreign else 0)
    spent = book.spent + _given_moments(mine, gives, limit, now)
    free = 0
    foreign: tuple[Spent, ...] = ()
    if not given and not mine.is_leaving and not (mine.yields and rivals > 1):
        most = spare if rivals == 1 else min(spare, max(-(-limit.count // rivals) - mine.held, 0))
        free, foreign, spent = _take(spent, mine, min(most, limit.count), limit, spare)
    taken = free + count_all(foreign)
    held, unmet = mine.held - given + taken, 0 if mine.is_leaving else max(mine.unmet - free, 0)
    if held or unmet:
        others[holder] = Loan(held, now + LOAN_MS, unmet)
    return Settled(Book(others, _sum_up(spent)), gives, free, foreign)


def _without_ended(book: Book, limit: RateLimit, now: int) -> Book:
    """Without loans that have ended, and moments that count no more."""
    over = {name: loan for name, loan in book.loans.items() if loan.until + SKEW_MS <= now}
    back = tuple(Spent(loan.until + SKEW_MS, loan.held) for loan in over.values() if loan.held)
    spent = tuple(one for one in book.spent + back if one.at + limit.per > now)
    return Book({name: loan for name, loan in book.loans.items() if name not in over}, spent)


def _give(mine: Mine, lacking: int, fair: int) -> Gives:
    """What others lack: first what nobody here waits for, then what is beyond the `fair` part and was used.

    What came from elsewhere stays until it was used here, or it might go round for ever.
    """
    if mine.is_leaving:
        return Gives(mine.free, len(mine.own), foreign=bool(mine.foreign))
    free = max(min(lacking, mine.free - mine.unmet), 0)
    own = max(min(lacking - free, len(mine.own), mine.held - free - fair), 0)
    return Gives(free, own)


def _given_moments(mine: Mine, gives: Gives, limit: RateLimit, now: int) -> tuple[Spent, ...]:
    """The moments of the used permits that are given, later by the skew, in buckets."""
    step = max(limit.per // BUCKETS, 1)
    moments = (-(-(at + SKEW_MS) // step) * step for at in mine.own[: gives.own])
    own = tuple(Spent(at, 1) for at in moments if at + limit.per > now)
    return own + (mine.foreign if gives.foreign else ())


def _take(
    spent: tuple[Spent, ...], mine: Mine, most: int, limit: RateLimit, spare: int
) -> tuple[int, tuple[Spent, ...], tuple[Spent, ...]]:
    """Free permits, used ones (which may be used here later), and what is left of the used ones."""
    if mine.unmet <= 0 or most <= 0:
        return 0, (), spent
    wanted = max(mine.unmet, -(-limit.count // SLICES), mine.held)
    free = min(wanted, most, max(spare - count_all(spent), 0))
    left = min(mine.unmet, most) - free
    taken, kept = [], []
    for one in sorted(spent):
        part = max(min(one.count, left), 0)
        left -= part
        if part:
            taken.append(Spent(one.at, part))
        if one.count > part:
            kept.append(Spent(one.at, one.count - part))
    return free, tuple(taken), tuple(kept)


def _sum_up(spent: Iterable[Spent]) -> tuple[Spent, ...]:
    """One entry for each moment."""
    counts: dict[int, int] = {}
    for one in spent:
        counts[one.at] = counts.get(one.at, 0) + one.count
    return tuple(Spent(at, count) for at, count in sorted(counts.items()))
