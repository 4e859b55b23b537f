"""Bodies that templates make much larger than what they are made of: these need room of their own.

Parameters and responses are counted twice, for the requests that are made of them. But a template may name a
value five hundred times.
"""

from scheduler_service.domain.document import Open
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.decision import SMALL_BYTES
from scheduler_service.engine.program import Target
from scheduler_service.engine.requests import Refused
from scheduler_service.engine.turn_state import TurnState


def take_growth(turn: TurnState, run: Open, target: Target, request: OutboundRequest) -> int | Refused:
    """By how many bytes the body of `request` is larger than its template and what the execution has.

    They have room from now on; or Refused: there is none.
    """
    body, template = request.body, target.body
    if body is None or len(body) <= SMALL_BYTES or template is None or template.is_constant:
        return 0
    kept = sum([len(one.body or b"") for one in turn.contexts[run.execute_number].responses])
    grown = max(0, len(body) - template.size - len(run.params) - kept)
    if turn.take_room(grown):
        return grown
    message = (
        f"the body would have {len(body)} bytes, many times what it is made of, and what all executions keep "
        "leaves no room for it (limits.open_bytes); name less in the template, or let fewer run at one moment"
    )
    return Refused("template", message)
