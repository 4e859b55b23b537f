"""Lives through a story of a cluster in which a node dies at a chosen point."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Protocol

from tests.conformance.hosts.houses import DaprHouse
from tests.conformance.hosts.process import Point


class Story(Protocol):
    """What happens in a cluster, and what has to hold in the end, whoever dies on the way."""

    async def play(self) -> None:
        """To its end."""

    def check(self) -> None:
        """Raises AssertionError."""


async def live_through(
    house: DaprHouse, tell: Callable[[], Story], *, point: Point, nodes: int
) -> tuple[str, str] | None:
    """The story in a cluster of one or two nodes, which it starts and closes; who died where, None: nobody.

    The points are counted from the moment at which all nodes are there.
    """
    await house.start()
    if nodes == 2:
        await house.add("two")
    house.points.start(point)
    story = tell()
    try:
        await story.play()
        story.check()
    except BaseException as error:
        error.add_note(f"point {point}, died {house.points.died}")
        raise
    finally:
        await house.close()
    return house.points.died


async def points_of(tell: Callable[[DaprHouse], Story], *, nodes: int, is_long: bool) -> Iterable[Point]:
    """Where a process may die: the first point of each kind for each process; `is_long`: all there may be.

    A kind is no number: on a busy machine the processes come to their points in another order next time.
    """
    if is_long:
        return count(1)
    house = DaprHouse()
    assert await live_through(house, lambda: tell(house), point=0, nodes=nodes) is None
    return sorted(house.points.firsts)
