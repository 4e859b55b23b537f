"""Floods are counted by kind, in bounded memory, from any thread."""

import threading

from scheduler_service.telemetry.flood import FULL, LONGEST_NAME, MOST_KINDS, Flood, Kind, kind_of
from scheduler_service.telemetry.tally import LINE_SECONDS

NAMES = ("service",)


class World:
    """A flood and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.flood = Flood(clock=lambda: self.now)

    def come(self, *kinds: Kind) -> int:
        """How many of these are admitted."""
        return sum(self.flood.admits(kind) for kind in kinds)


def test_each_kind_has_its_own_window() -> None:
    """From its first line; a window without counted lines ends without a word."""
    world = World()
    many, few = Kind("turn_failed"), Kind("job_paused")
    assert world.come(*[many] * (FULL + 5)) == FULL
    world.now += LINE_SECONDS / 2
    assert world.come(*[few] * 3, many) == 3
    assert world.flood.take_ended() == ()
    assert world.flood.left() == LINE_SECONDS / 2
    world.now += LINE_SECONDS / 2
    assert world.flood.take_ended() == [(many, 6)]
    assert not world.flood.has_untold
    world.now += LINE_SECONDS / 2
    assert world.flood.take_ended() == []


def test_what_it_holds_is_bounded() -> None:
    """Beyond a hundred kinds lines count by their word; names are cut."""
    world = World()
    kinds = [kind_of("instance_lost", NAMES, {"service": f"{n}-" * 1_000}) for n in range(10_000)]
    assert world.come(*kinds) == MOST_KINDS + FULL
    assert max(len(name) for _, name in kinds[-1].names) == LONGEST_NAME
    counted = world.flood.take_ended(all_of_them=True)
    assert counted == [(Kind("instance_lost"), 10_000 - MOST_KINDS - FULL)]


def test_no_line_is_lost_between_threads() -> None:
    """Each is written or counted."""
    world = World()
    kind = Kind("turn_failed")
    admitted: list[int] = []
    threads = [
        threading.Thread(target=lambda: admitted.append(world.come(*[kind] * 1_000))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == FULL
    assert world.flood.take_ended(all_of_them=True) == [(kind, 4_000 - FULL)]


def test_a_line_without_the_key_is_of_the_kind_without() -> None:
    """It is counted with those that lack it as well."""
    assert kind_of("instance_lost", NAMES, {}) == kind_of("instance_lost", NAMES, {"other": 1})
    assert kind_of("turn_failed", (), {"jobId": "a"}) == Kind("turn_failed")
