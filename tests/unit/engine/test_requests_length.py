"""How long a rendered URL or header may be: where it has a template, a target decides (SPEC section 4)."""

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded
from tests.rows import each_row
from tests.unit.engine.asynchronous import started
from tests.unit.engine.rig import Rig

LONGEST = 8_192
BASE = "http://target.test/"
FIRST = {"url": BASE, "respEnvName": "A"}


def second(step: dict[str, object], said: str) -> Rig:
    """A job whose second step has a value of the first one's answer."""
    rig = started(**{"async": False}, request=[FIRST, step])
    rig.answer(200, {"value": said})
    return rig


def test_a_url_has_at_most_so_many_characters() -> None:
    """One more fails the attempt with `template`, and the message does not repeat it."""
    room = LONGEST - len(BASE)
    assert len(second({"url": BASE + "${A.value}"}, "x" * room).request.url) == LONGEST
    rig = second({"url": BASE + "${A.value}"}, "x" * (room + 1))
    ended = rig.record_of(AttemptEnded)
    assert (ended.error, ended.failure_type) == ("template", FailureType.TEMPLATE)
    assert ended.message is not None
    assert "8193" in ended.message
    assert len(ended.message) < 300


def test_a_header_too() -> None:
    """Its name is in the message."""
    step = {"url": BASE, "headers": {"X-Given": "${A.value}"}}
    assert second(step, "x" * LONGEST).header("X-Given") == "x" * LONGEST
    rig = second(step, "x" * (LONGEST + 1))
    assert rig.record_of(AttemptEnded).error == "template"
    assert "X-Given" in str(rig.record_of(AttemptEnded).message)


@each_row("url", [BASE + "x" * LONGEST, "/" + "x" * LONGEST])
def test_a_whole_url_from_an_answer_too(url: str) -> None:
    """Given as a whole, or as the `Location` of a 202."""
    rig = second({"url": "${A.value}"}, url)
    assert rig.record_of(AttemptEnded).error == "template"
    polling = started()
    polling.answer(202, headers={"location": url})
    assert polling.record_of(AttemptEnded).error == "template"
    assert len(str(polling.record_of(AttemptEnded).message)) < 300


def test_what_a_definition_says_itself_is_as_long_as_it_likes() -> None:
    """Only its owner decides it."""
    url = BASE + "x" * (2 * LONGEST)
    assert second({"url": url}, "x").request.url == url
