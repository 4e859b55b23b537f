"""Bodies that templates make much larger than what they are made of: these need room of their own.

Parameters and responses are counted twice, for the requests that are made of them. But a template may name a
value five hundred times.
"""

from scheduler_service.domain.document import Open
from scheduler_service.engine.program import Target
from scheduler_service.engine.requests import Refused
from scheduler_service.engine.turn_state import TurnState


def growth_of(turn: TurnState, run: Open, target: Target, body: bytes) -> int:
    """By how many bytes `body` is larger than its template, and than what the execution has; 0: it is not."""
    template = target.body
    if template is None or template.is_constant:
        return 0
    kept = sum([len(one.body or b"") for one in turn.contexts[run.execute_number].responses])
    return max(0, len(body) - template.size - len(run.params) - kept)


def refuse_growth(size: int) -> Refused:
    """Why a body of so many bytes cannot be made at this moment."""
    message = (
        f"the body would have {size} bytes, many times what it is made of, and what all executions keep "
        "leaves no room for it (limits.open_bytes); name less in the template, or let fewer run at one moment"
    )
    return Refused("template", message)
