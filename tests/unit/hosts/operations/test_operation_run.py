"""An operation under way rests between its pieces (SPEC section 10)."""

import asyncio

import pytest

from scheduler_service.hosts.operations.operation_run import (
    REST_SECONDS,
    WORK_SECONDS,
    Operation,
    OperationRun,
    Outcome,
    Pace,
)

pytestmark = pytest.mark.anyio
PIECES = 6


class Line:
    """A time line that moves when somebody sleeps or works; it knows how long nobody worked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.idle = 0.0

    def tell(self) -> float:
        """The present, in seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Returns at once, so much later."""
        self.now += seconds
        self.idle += seconds

    def work(self, seconds: float) -> None:
        """So much is done."""
        self.now += seconds


async def test_pieces_rest_and_the_first_one_does_not() -> None:
    """However long ago another operation ended: the line is idle before each piece but the first."""
    line = Line()
    pace = Pace(timer=line.tell, sleep=line.sleep)
    idle: list[float] = []

    def log(event: str, **keys: object) -> None:
        raise AssertionError((event, keys))

    async def work(piece: str) -> Outcome:
        idle.append(line.idle)
        line.work(WORK_SECONDS)
        return Outcome()

    line.work(10 * WORK_SECONDS)
    members = {"kind": "jobs", "action": "pause", "created_by": "", "started_at": "", "updated_at": ""}
    operation = Operation(operation_id="o", total=PIECES, **members)
    ids = [str(number) for number in range(PIECES)]
    await OperationRun(operation=operation, ids=ids, work=work, at_once=1, pace=pace, log=log).work_off()
    assert idle == pytest.approx([REST_SECONDS * number for number in range(PIECES)])


PIECE_SECONDS = WORK_SECONDS / 4
SPAN = 100 * (WORK_SECONDS + REST_SECONDS)


@pytest.fixture
def line() -> Line:
    """At its begin."""
    return Line()


@pytest.fixture
def pace(line: Line) -> Pace:
    """On that line."""
    return Pace(timer=line.tell, sleep=line.sleep)


@pytest.mark.parametrize("piece", [PIECE_SECONDS, REST_SECONDS / 3, WORK_SECONDS])
async def test_more_than_half_of_the_time_is_left(line: Line, pace: Pace, piece: float) -> None:
    """However long a piece takes, up to a span of work."""
    while line.now < SPAN:
        await pace.wait()
        line.work(piece)
    assert line.idle >= line.now / 2
    assert line.idle < line.now * 0.75


async def test_slow_pieces_rest_too(line: Line, pace: Pace) -> None:
    """A store that takes long is busy: no piece follows another one at once."""
    for number in range(10):
        await pace.wait()
        assert line.idle == pytest.approx(number * REST_SECONDS)
        line.work(10 * WORK_SECONDS)


async def test_an_operation_begins_without_a_rest(line: Line, pace: Pace) -> None:
    """However long none was under way."""
    line.work(WORK_SECONDS)
    pace.begin()
    await pace.wait()
    assert line.idle == 0


async def test_all_rest_together() -> None:
    """What would begin while others rest waits for the same end, and all begin in their order."""
    line, over, resting = Line(), asyncio.Event(), asyncio.Event()
    rests: list[float] = []
    begun: list[int] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)
        resting.set()
        await over.wait()

    async def begin(number: int) -> None:
        await pace.wait()
        begun.append(number)

    pace = Pace(timer=line.tell, sleep=sleep)
    line.work(WORK_SECONDS)
    waiting = [asyncio.ensure_future(begin(number)) for number in range(4)]
    await resting.wait()
    waiting.pop(1).cancel()
    assert (rests, begun) == ([REST_SECONDS], [])
    over.set()
    await asyncio.gather(*waiting)
    assert (rests, begun) == ([REST_SECONDS], [0, 2, 3])


async def test_others_come_before_each_piece(pace: Pace) -> None:
    """What the loop has to do already is done first, with a rest and without."""
    done: list[str] = []
    asyncio.get_running_loop().call_soon(done.append, "a firing")
    await pace.wait()
    assert done == ["a firing"]
