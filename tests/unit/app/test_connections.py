"""How many connections callers may have, and which one gives way."""

from typing import Any

from scheduler_service.app.connections import Connections


class Fake:
    """A connection that notes that it was cut."""

    def __init__(self) -> None:
        self.is_cut = False
        self.unsent_bytes = self.kept_bytes = 0

    def cut(self) -> None:
        self.is_cut = True


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
    bench.connections.finish(known)
    silent = bench.admitted()
    bench.seconds = 1
    bench.admitted()
    assert (known.is_cut, silent.is_cut) == (False, True)
    bench.connections.forget(silent)
    bench = Bench(most=1)
    known = bench.admitted()
    bench.connections.begin(known)
    bench.connections.finish(known)
    bench.admitted()
    assert known.is_cut


async def test_a_flood_of_silent_ones_ends_no_caller_that_has_asked() -> None:
    """However many come within a second, they end each other."""
    bench = Bench()
    known = bench.admitted()
    bench.connections.begin(known)
    bench.connections.finish(known)
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
    bench.connections.finish(busy[0])
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
    bench.connections.finish(read)
    bench.seconds = 1
    bench.admitted()
    assert (read.is_cut, unread.is_cut) == (False, True)


async def test_a_head_has_its_time() -> None:
    """10 s for the first one, counted from the connection; idle time more for each further one."""
    bench = Bench(most=9)
    silent = bench.admitted()
    known = bench.admitted()
    bench.connections.begin(known)
    bench.seconds = 5
    bench.connections.finish(known)
    late = bench.admitted()
    busy = bench.admitted()
    bench.connections.begin(busy)
    bench.seconds = 9.9
    bench.connections.sweep()
    assert not silent.is_cut
    bench.seconds = 10
    bench.connections.sweep()
    assert (silent.is_cut, known.is_cut, late.is_cut) == (True, False, False)
    bench.seconds = 44.9
    bench.connections.sweep()
    assert (known.is_cut, late.is_cut) == (False, True)
    bench.seconds = 45
    bench.connections.sweep()
    assert known.is_cut
    assert not busy.is_cut
    assert bench.connections.events.counts == {"silent": 3}
    bench.connections.close()


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
