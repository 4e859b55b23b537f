"""Lines of the log that mean an occurrence."""

import io

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.telemetry.flood import FULL
from scheduler_service.telemetry.log_occurrences import MEANINGS, OccurrenceLog
from scheduler_service.telemetry.logs import EventLog
from scheduler_service.telemetry.vocabulary import VOCABULARY
from tests.rows import each_row


@each_row(
    ("event", "keys", "kind", "subject"),
    [
        (
            "instance_lost",
            {"service": "billing", "instance": "b-1"},
            OccurrenceKind.INSTANCE_LOST,
            "billing/b-1",
        ),
        (
            "instance_returned",
            {"service": "billing", "instance": "b-1"},
            OccurrenceKind.INSTANCE_BACK,
            "billing/b-1",
        ),
        ("history_not_written", {"error": "disk full"}, OccurrenceKind.STORE_LOST, "history"),
        ("history_written_again", {}, OccurrenceKind.STORE_BACK, "history"),
        ("store_lost", {"error": "no route"}, OccurrenceKind.STORE_LOST, None),
    ],
)
def test_a_line_is_an_occurrence(
    event: str, keys: dict[str, str], kind: OccurrenceKind, subject: str | None
) -> None:
    """With the subject that its keys name, and its error."""
    found: list[Occurrence] = []
    lines: list[str] = []
    log = OccurrenceLog(log=lambda event, /, **_: lines.append(event), publish=found.append, wall=lambda: 7)
    log(event, **keys)
    log("listening", url="http://127.0.0.1:8000")
    assert lines == [event, "listening"]
    (one,) = found
    assert (one.kind, one.at, one.subject, one.message) == (kind, 7, subject, keys.get("error"))


def test_what_is_an_occurrence_is_never_left_out() -> None:
    """However many lines of its kind there were; a log that counts nothing has all lines."""
    log = EventLog(stream=io.StringIO(), clock=lambda: 0.0)
    found: list[Occurrence] = []
    published = OccurrenceLog(log=log, publish=found.append, wall=lambda: 7)
    for _ in range(2 * FULL):
        published("instance_lost", service="a", instance="b")
        published("firing_delayed", jobId="a")
    assert not published.omits("instance_lost", service="a")
    assert published.omits("firing_delayed")
    assert len(found) == 2 * FULL
    plain = OccurrenceLog(log=lambda event, /, **_: None, publish=found.append, wall=lambda: 7)
    assert not plain.omits("firing_delayed")


def test_each_meaning_is_one_of_a_word_of_the_log() -> None:
    """A word that is renamed would mean nothing any more."""
    assert set(MEANINGS) <= set(VOCABULARY)


def test_each_kind_of_the_service_is_meant_by_some_line() -> None:
    """Else readers of events, and alerts, would wait for it in vain."""
    subjects = ("INSTANCE_", "NODE_", "WORKER_", "STORE_")
    of_the_service = {kind for kind in OccurrenceKind if kind.name.startswith(subjects)}
    assert of_the_service == {meaning.kind for meaning in MEANINGS.values()}
    assert len(of_the_service) > 8
