"""An operation under way rests between its pieces (SPEC section 10)."""

import pytest

from scheduler_service.hosts.operations.operation import Operation, Outcome
from scheduler_service.hosts.operations.pace import REST_SECONDS, WORK_SECONDS, Pace
from scheduler_service.hosts.operations.run import Run
from tests.unit.hosts.operations.line import Line

pytestmark = pytest.mark.anyio
PIECES = 6


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
    await Run(operation=operation, ids=ids, work=work, at_once=1, pace=pace, log=log).work_off()
    assert idle == pytest.approx([REST_SECONDS * number for number in range(PIECES)])
