"""What the store of the dapr host remembers of a job between two turns."""

from scheduler_service.domain.effects import Delivery
from scheduler_service.ports import Batch, Remembered


class Known:
    """`raw` is the state as it lay in the store when it was `seen` (steady ms), `sequence` its turn.

    `read`: what was found instead, until it is loaded. `began`: the start of the present turn. `batches` are
    those that the history has not confirmed, `deliveries` and `answers` those that SQL did not take.
    """

    __slots__ = ("answers", "batches", "began", "deliveries", "doubts", "raw", "read", "seen", "sequence")

    def __init__(self, *, raw: bytes, began: int, seen: int, doubts: int) -> None:
        self.raw = raw
        self.began = began
        self.seen = seen
        self.doubts = doubts
        self.read: bytes | None = None
        self.sequence = 0
        self.batches: dict[tuple[str, int], Batch] = {}
        self.deliveries: list[Delivery] = []
        self.answers: list[Remembered] = []
