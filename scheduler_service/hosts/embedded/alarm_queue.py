"""The near alarms of one time line in memory, as a heap."""

import heapq

BEFORE_ALL = -1


class AlarmQueue:
    """Moments by job, earliest first. Up to `horizon` every alarm on disk is here too, or is ringing now.

    A moment that moves to later costs nothing until the earlier one is reached: the heap holds one live
    place per job.
    """

    __slots__ = ("_heap", "_places", "_targets", "horizon")

    def __init__(self) -> None:
        self.horizon = BEFORE_ALL
        self._heap: list[tuple[int, str]] = []
        self._targets: dict[str, int] = {}
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._targets

    def target(self, job_id: str) -> int | None:
        """When the job rings, or None."""
        return self._targets.get(job_id)

    def put(self, job_id: str, moment: int) -> None:
        """The job rings at `moment`, and at no other."""
        self._targets[job_id] = moment
        place = self._places.get(job_id)
        if place is None or moment < place:
            self._push(job_id, moment)

    def drop(self, job_id: str) -> None:
        """The job does not ring."""
        self._targets.pop(job_id, None)

    def next(self) -> int | None:
        """The earliest moment at which `pop` may have something; never too late."""
        return self._heap[0][0] if self._heap else None

    def between(self, now: int, end: int, most: int) -> list[tuple[int, str]]:
        """Alarms later than `now` and up to `end`, in order; of more than `most` any. Looks at few others."""
        found: list[tuple[int, str]] = []
        heap, places = self._heap, [0]
        while places and len(found) < most:
            place = places.pop()
            if place >= len(heap) or heap[place][0] > end:
                continue  # a heap: nothing below is earlier
            places += (2 * place + 1, 2 * place + 2)
            job_id = heap[place][1]
            target = self._targets.get(job_id)
            if target is not None and now < target <= end and self._places.get(job_id) == heap[place][0]:
                found.append((target, job_id))
        return sorted(found)

    def pop(self, now: int) -> tuple[int, str] | None:
        """The earliest alarm up to `now`, taken out; None when none is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            moment, job_id = heapq.heappop(heap)
            if self._places.get(job_id) != moment:
                continue
            del self._places[job_id]
            target = self._targets.get(job_id)
            if target is None:
                continue
            if target <= now:
                del self._targets[job_id]
                return target, job_id
            self._push(job_id, target)
        return None

    def _push(self, job_id: str, moment: int) -> None:
        self._places[job_id] = moment
        heapq.heappush(self._heap, (moment, job_id))
