"""Recognizes definitions that come together and are like others before them, as of one moment."""

import msgspec

from scheduler_service.domain.errors import Problem
from scheduler_service.engine.compile import below_timer
from scheduler_service.engine.moulds import Cast, Members, Moulds
from scheduler_service.timing.firings import warnings_at
from scheduler_service.timing.timer import Timer


class Recognition:
    """What `moulds` make of definitions at `now` (wall ms), each timer looked at once."""

    def __init__(self, *, moulds: Moulds, now: int) -> None:
        self._moulds = moulds
        self._now = now
        # By identity: definitions with one timer share it, and comparing it costs more than looking at it.
        self._seen: dict[int, tuple[Timer, tuple[Problem, ...]]] = {}

    def recognize(self, members: Members) -> Cast | None:
        """As `Moulds.cast`, with all warnings; None: the compiler has to look at it."""
        cast = self._moulds.cast(members)
        return None if cast is None else self.complete(cast)

    def complete(self, cast: Cast) -> Cast:
        """`cast`, which was compiled without a moment, with the warnings that need one."""
        late = self._warn(cast.program.timer)
        return msgspec.structs.replace(cast, warnings=(*cast.warnings, *late)) if late else cast

    def _warn(self, timer: Timer) -> tuple[Problem, ...]:
        seen = self._seen.get(id(timer))
        if seen is None:
            seen = self._seen[id(timer)] = (timer, tuple(below_timer(warnings_at(timer, self._now))))
        return seen[1]
