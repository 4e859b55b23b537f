"""How many connections callers may have, what they may take of memory, and which one gives way."""

import asyncio
from typing import Any

from scheduler_service.http_server.connections import UNREAD_SECONDS, Connections


class Fake:
    """A connection that notes that it was cut."""

    def __init__(self) -> None:
        self.is_cut = False
        self.unsent_bytes = self.kept_bytes = 0

    def cut(self) -> None:
        self.is_cut = True

    def end(self) -> None:
        raise AssertionError("none is asked to end")


class Bench:
    """Connections of a listener that takes `most`, under a clock that stands still."""

    def __init__(self, most: int = 2, held_bytes: int = 100) -> None:
        self.seconds = 0.0
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.connections = Connections(
            most=most,
            head_seconds=10,
            idle_seconds=30,
            log=lambda event, **keys: self.lines.append((event, keys)),
            clock=lambda: self.seconds,
            held_bytes=held_bytes,
            unread_bytes=100,
            slow_bytes=300,
        )

    def come(self) -> tuple[Fake, bool]:
        """A new connection, and whether it is admitted."""
        fake = Fake()
        return fake, self.connections.admit(fake)

    def admitted(self) -> Fake:
        """A new connection that is admitted."""
        fake, is_admitted = self.come()
        assert is_admitted
        return fake


async def test_the_oldest_silent_one_gives_way() -> None:
    """So one more always gets in; the line of the log says the limit."""
    bench = Bench()
    first, second, third = (bench.admitted() for _ in range(3))
    assert (first.is_cut, second.is_cut, third.is_cut) == (True, False, False)
    assert bench.lines == [("connections_closed", {"overLimit": 1, "limit": 2})]
    bench.connections.forget(first)
    assert bench.connections.count == 2


async def test_one_that_waits_for_its_next_request_gives_way_after_the_silent_ones() -> None:
    """Who has sent a request is more likely to send another one."""
    bench = Bench()
    known = bench.admitted()
    bench.connections.begin(known)
    bench.connections.await_request(known)
    silent = bench.admitted()
    bench.seconds = 1
    bench.admitted()
    assert (known.is_cut, silent.is_cut) == (False, True)
    bench.connections.forget(silent)
    bench = Bench(most=1)
    known = bench.admitted()
    bench.connections.begin(known)
    bench.connections.await_request(known)
    bench.admitted()
    assert known.is_cut


async def test_a_flood_of_silent_ones_ends_no_caller_that_has_asked() -> None:
    """However many come within a second, they end each other."""
    bench = Bench()
    known = bench.admitted()
    bench.connections.begin(known)
    bench.connections.await_request(known)
    strangers = [bench.admitted() for _ in range(20)]
    assert not known.is_cut
    assert [one.is_cut for one in strangers] == [True] * 19 + [False]


async def test_requests_are_not_disturbed() -> None:
    """Where all connections are being answered, a further one is refused, and none of them is cut."""
    bench = Bench()
    busy = [bench.admitted() for _ in range(2)]
    for one in busy:
        bench.connections.begin(one)
    refused, is_admitted = bench.come()
    assert not is_admitted
    bench.connections.forget(refused)
    assert not any(one.is_cut for one in busy)
    assert bench.connections.events.counts == {"refused": 1}
    bench.connections.await_request(busy[0])
    bench.admitted()
    assert busy[0].is_cut


async def test_an_answer_that_is_not_read_gives_way_after_a_second() -> None:
    """Before a new caller is refused, and before one that waits for its next request; not if it is read."""
    bench = Bench()
    read, unread = bench.admitted(), bench.admitted()
    for one in (read, unread):
        bench.connections.begin(one)
        bench.connections.block(one)
    bench.connections.unblock(read)
    bench.seconds = 0.9
    refused, is_admitted = bench.come()
    assert not is_admitted
    bench.connections.forget(refused)
    bench.connections.await_request(read)
    bench.seconds = 1
    bench.admitted()
    assert (read.is_cut, unread.is_cut) == (False, True)


async def test_a_head_has_its_time() -> None:
    """10 s from the connection, or from what comes of a later one; 30 s for the next one to begin."""
    bench = Bench(most=9)
    silent, known, again, busy = (bench.admitted() for _ in range(4))
    for one in (known, again, busy):
        bench.connections.begin(one)
    bench.seconds = 5
    bench.connections.await_request(known)
    bench.connections.await_head(again)
    late = bench.admitted()
    for seconds, cut in ((9.9, []), (10, [silent]), (14.9, [silent]), (15, [silent, again, late])):
        bench.seconds = seconds
        bench.connections.await_head(again)  # however often something comes of it
        bench.connections.look()
        assert [one for one in (silent, known, again, busy, late) if one.is_cut] == cut
    bench.seconds = 35
    bench.connections.look()
    assert known.is_cut
    assert not busy.is_cut
    assert bench.connections.events.counts == {"silent": 3}


async def test_who_stands_still_is_cut_without_a_word() -> None:
    """30 s after the last piece of a body; 5 s after nothing is read of it any more."""
    bench = Bench(most=9)
    body, refused = bench.admitted(), bench.admitted()
    bench.connections.await_body(body)
    bench.connections.await_end(refused)
    bench.seconds = 5
    bench.connections.await_body(body)
    bench.connections.look()
    assert (body.is_cut, refused.is_cut) == (False, True)
    bench.seconds = 34.9
    bench.connections.look()
    assert not body.is_cut
    bench.seconds = 35
    bench.connections.look()
    assert body.is_cut
    assert bench.lines == []


async def test_who_holds_most_of_the_memory_for_longest_gives_way() -> None:
    """As many as are needed; what they held is free at once, and what a closed one held too."""
    bench = Bench(most=9)
    first, second, third, quiet = (bench.admitted() for _ in range(4))
    for connection, size in ((first, 30), (second, 40), (first, 50), (quiet, 0)):
        bench.connections.hold(connection, size)
    assert [one.is_cut for one in (first, second)] == [False, False]
    bench.connections.hold(third, 60)
    assert (first.is_cut, second.is_cut, third.is_cut, quiet.is_cut) == (True, False, False, False)
    bench.connections.forget(first)
    bench.connections.forget(third)
    bench.connections.hold(quiet, 60)
    assert [one.is_cut for one in (second, quiet)] == [False, False]
    bench.connections.hold(second, 0)
    bench.connections.hold(second, 41)
    assert (quiet.is_cut, second.is_cut) == (True, False)
    assert bench.lines[0] == ("connections_closed", {"overHeld": 1, "limit": 9})


async def test_who_is_being_answered_gives_way_after_five_seconds() -> None:
    """Before that the one that sends: longest, or now where nobody else does."""
    bench = Bench(most=9)
    asked, sending, polling, late, last = (bench.admitted() for _ in range(5))
    bench.connections.hold(asked, 40, is_answering=True)
    bench.connections.hold(sending, 20)
    bench.connections.hold(polling, 20)
    bench.connections.hold(polling, 30, is_answering=True)
    bench.connections.hold(late, 40, is_answering=True)
    assert [one.is_cut for one in (asked, sending, polling, late)] == [False, True, False, True]
    bench.seconds = 5
    bench.connections.hold(last, 90)
    assert [one.is_cut for one in (asked, polling, last)] == [True, True, False]


async def test_an_answer_that_ends_is_not_counted_any_more() -> None:
    """Nor as one that is being answered: what it sends next is a request of its own."""
    bench = Bench(most=9)
    first, second = bench.admitted(), bench.admitted()
    bench.connections.hold(first, 60, is_answering=True)
    bench.connections.hold(first, 0)
    bench.connections.hold(first, 60)
    bench.connections.hold(second, 60, is_answering=True)
    assert (first.is_cut, second.is_cut) == (True, False)


def unread(bench: Bench, kept_bytes: int) -> Fake:
    """One more answer of that size waits."""
    connection = bench.admitted()
    bench.connections.begin(connection)
    connection.kept_bytes, connection.unsent_bytes = kept_bytes, 100
    bench.connections.block(connection)
    return connection


def cut_at(bench: Bench, seconds: float, *connections: Fake) -> list[bool]:
    """Which of these have been cut once it was looked at."""
    bench.seconds = seconds
    bench.connections.look()
    return [one.is_cut for one in connections]


async def test_those_that_are_not_read_for_longest_are_cut() -> None:
    """Only as many as it takes, and none that has not waited for a second."""
    bench = Bench(most=99)
    first, second, third = unread(bench, 60), unread(bench, 30), unread(bench, 10)
    assert cut_at(bench, UNREAD_SECONDS / 2, first, second) == [False, False]
    unread(bench, 60)
    assert cut_at(bench, UNREAD_SECONDS, first, second) == [False, False], (
        "what has just begun does not count"
    )
    assert cut_at(bench, 1.5 * UNREAD_SECONDS, first, second) == [True, False]
    unread(bench, 30)
    assert cut_at(bench, 3 * UNREAD_SECONDS, first, second, third) == [True, True, False]
    assert bench.connections.events.counts == {"overUnread": 2}
    # However slowly, and however much others leave unread
    bench = Bench(most=99)
    slow = unread(bench, 100)
    for moment in range(1, 5):
        slow.unsent_bytes -= 10
        assert cut_at(bench, moment * UNREAD_SECONDS, slow) == [False]
    silent = unread(bench, 101)
    slow.unsent_bytes -= 10
    assert cut_at(bench, 4.5 * UNREAD_SECONDS, slow, silent) == [False, False]
    slow.unsent_bytes -= 10
    assert cut_at(bench, 5 * UNREAD_SECONDS, slow, silent) == [False, True]


async def test_slow_readers_are_cut_where_all_take_too_much() -> None:
    """Those that began first, whether they read or not, and how long ago it was."""
    bench = Bench(most=99)
    slow, silent, other = unread(bench, 100), unread(bench, 90), unread(bench, 10)
    assert cut_at(bench, 0.1 * UNREAD_SECONDS, slow, silent, other) == [False] * 3
    late = unread(bench, 110)
    slow.unsent_bytes -= 10
    assert cut_at(bench, 0.2 * UNREAD_SECONDS, slow, silent) == [True, False]
    unread(bench, 100)
    assert cut_at(bench, 0.3 * UNREAD_SECONDS, silent, other) == [True, False]
    unread(bench, 1_000)
    assert cut_at(bench, 0.4 * UNREAD_SECONDS, other, late) == [True, True]


async def test_an_answer_of_which_nothing_is_read_ends_its_connection() -> None:
    """However little memory it takes."""
    bench = Bench(most=99)
    waiting = unread(bench, 1)
    assert cut_at(bench, 29.9, waiting) == [False]
    assert cut_at(bench, 30, waiting) == [True]


async def test_it_looks_by_itself_when_the_next_time_is_up() -> None:
    """On the clock of the loop, until it ends."""
    connections = Connections(most=9, head_seconds=0.02, idle_seconds=9, log=lambda event, **keys: None)
    first, second = Fake(), Fake()
    connections.admit(first)
    async with asyncio.timeout(30):
        while not first.is_cut:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    connections.forget(first)
    await connections.end()
    connections.admit(second)
    await asyncio.sleep(0.05)
    assert not second.is_cut
