"""The preview of a timer: as text, and its next firings in UTC and local time (SPEC section 3)."""

from collections.abc import Mapping
from itertools import islice

import msgspec

from scheduler_service.domain.document import Cursor
from scheduler_service.timing.chinese import Chinese
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.english import English
from scheduler_service.timing.schedule import between
from scheduler_service.timing.timer import Timer, TimerKind
from scheduler_service.timing.times import local_text

COUNT_MAX = 1_000
LANGUAGES: Mapping[str, English] = {"en": English(), "zh": Chinese()}
"""By the tag of RFC 5646; the first one is that of a caller who prefers none of them."""


class Shown(msgspec.Struct, frozen=True):
    """One firing: `utc` in ms, `local` as text with its offset, `note` on a day on which clocks change."""

    utc: int
    local: str
    note: str | None = None


class Preview(msgspec.Struct, frozen=True):
    """The meaning of a timer. `dialect` and `normal_form`: only of cron."""

    kind: TimerKind
    dialect: str | None
    normal_form: str | None
    description: str
    firings: tuple[Shown, ...]


def preview(
    timer: Timer,
    *,
    anchor: int,
    count: int,
    until: int | None = None,
    seed: str = "",
    language: str = "en",
) -> Preview:
    """The timer as text, and its first `count` firings (at most 1,000), none after `until`.

    `anchor` is the moment of creation; cron does not fire at it. With a `seed` the firings have the jitter
    of that job, without one they have none. `language` is that of the words, one of
    `LANGUAGES`.
    """
    cron = timer.cron
    return Preview(
        kind=timer.kind,
        dialect=None if cron is None else str(cron.dialect),
        normal_form=None if cron is None else cron.normal_form,
        description=describe(timer, language),
        firings=show(timer, Cursor(anchor), count=count, until=until, seed=seed, language=language),
    )


def show(
    timer: Timer,
    cursor: Cursor,
    *,
    count: int,
    until: int | None = None,
    seed: str = "",
    language: str = "en",
) -> tuple[Shown, ...]:
    """The next `count` firings (at most 1,000) that `cursor` has not used up, none after `until`."""
    spread = timer if seed else msgspec.structs.replace(timer, jitter=0)
    coming = between(spread, cursor, seed, LATEST if until is None else until)
    moments = (firing.planned_at for firing in islice(coming, max(0, min(count, COUNT_MAX))))
    note = LANGUAGES[language].note
    return tuple(Shown(at, local_text(at, timer.zone), note(timer.zone, at)) for at in moments)


def describe(timer: Timer, language: str = "en") -> str:
    """The timer as one sentence in `language`, without a full stop; or why it cannot be computed."""
    return timer.trouble or LANGUAGES[language].describe(timer)
