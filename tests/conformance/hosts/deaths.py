"""Lives through a story of a cluster in which a node dies at a chosen point."""

from collections.abc import Callable
from typing import Protocol

from tests.conformance.hosts.houses import DaprHouse


class Story(Protocol):
    """What happens in a cluster, and what has to hold in the end, whoever dies on the way."""

    async def play(self) -> None:
        """To its end."""

    def check(self) -> None:
        """Raises AssertionError."""


async def live_through(
    house: DaprHouse, tell: Callable[[], Story], *, point: int, nodes: int
) -> tuple[str, str] | None:
    """The story in a cluster of one or two nodes, which it starts and closes; who died where, None: nobody.

    The points are counted from the moment at which all nodes are there.
    """
    await house.start()
    if nodes == 2:
        await house.add("two")
    house.points.count, house.points.chosen = 0, point
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
