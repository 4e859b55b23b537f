"""What the templates of a request may see: root, system variables, environment (SPEC section 4)."""

import hashlib
import hmac
from typing import Any

from scheduler_service.domain.turn_events import Triggered
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import START, Rig

URL = "http://target.test/"


def sent(surroundings: Surroundings | None = None, *, params: bytes = b"{}", **members: Any) -> Rig:
    """A job whose first request has gone out."""
    rig = Rig(surroundings, **members).create(restored=True)  # else service:/ needs an owner
    rig.deliver(Triggered(params=params))
    return rig


@each_row(
    ("step", "base"),
    [
        ({"url": URL}, "http://outer.test"),
        ({"url": "service://shop/x"}, "http://inner.test"),
        ({"url": "SERVICE:/x"}, "http://inner.test"),
        ({"url": URL, "serviceName": "shop"}, "http://inner.test"),
        ({"url": "${SHOP}/x"}, "http://inner.test"),
        ({"url": "${OTHER}/x"}, "http://outer.test"),
    ],
)
def test_feedback_url(step: dict[str, Any], base: str) -> None:
    """Internal for a service, external for http(s); an HMAC over uid and requestCounts is its token."""
    around = Surroundings(
        internal_url="http://inner.test/",
        external_url="http://outer.test",
        environment={"SHOP": "service://shop", "OTHER": "http://other.test"},
    )
    body = {
        "it": "${schedulingFeedbackUrl}",
        "in": "${schedulingFeedbackUrlInternal}",
        "out": "${schedulingFeedbackUrlExternal}",
    }
    rig = sent(around, jobId="a:b", request=[{**step, "body": body}])
    token = hmac.new(b"key", b"uid:1", hashlib.sha256).hexdigest()
    path = f"/jobs/a:b/feedback/1?token={token}"
    assert rig.sent_body() == {
        "it": base + path,
        "in": "http://inner.test" + path,
        "out": "http://outer.test" + path,
    }


def test_system_variables_and_aliases() -> None:
    """Each has its value and its type; `jobId` and `executeNumber` yield to every other name."""
    names = ["JobId", "ExecuteNumber", "RequestCounts", "FireTime", "ShardIndex", "ShardTotal"]
    body: dict[str, Any] = {name: f"${{scheduling{name}}}|json" for name in names}
    rig = sent(request=[{"url": URL, "body": {**body, "id": "${jobId}", "n": "${executeNumber}"}}])
    assert rig.sent_body() == {
        "JobId": "job",
        "ExecuteNumber": 1,
        "RequestCounts": 1,
        "FireTime": "2023-11-14T22:13:20.000Z",
        "ShardIndex": 0,
        "ShardTotal": 1,
        "id": "job",
        "n": "1",
    }
    other = sent(params=b'{"jobId":"mine"}', request=[{"url": URL, "body": "${jobId}"}])
    assert other.sent_body() == "mine"
    # Fire time is the planned moment: not the moment at which it was sent
    rig = Rig(request=[{"url": URL, "body": "${schedulingFireTime}"}]).create()
    rig.deliver(Triggered(planned_at=START - 500))
    assert rig.sent_body() == "2023-11-14T22:13:19.500Z"


def test_the_root_of_templates() -> None:
    """Members of the latest response, named responses (which win), `responses` in order, `trigger`."""
    steps = [
        {"url": URL, "respEnvName": "A"},
        {"url": URL, "respEnvName": "x"},
        {
            "url": URL,
            "body": ["${A}|json", "${x}|json", "${$.y}|json", "${responses}|json", "${trigger.p}|json"],
        },
    ]
    rig = sent(params=b'{"p":1}', request=steps)
    rig.answer(200, b"plain text")
    rig.answer(200, {"x": 1, "y": None})
    second = {"x": 1, "y": None}
    assert rig.sent_body() == ["plain text", second, None, ["plain text", second], 1]
    # A name is a member of the root, else a variable of the environment
    around = Surroundings(environment={"WHO": "env", "ONLY": "env"})
    rig = sent(around, params=b'{"WHO":"param"}', request=[{"url": URL, "body": ["${WHO}", "${ONLY}"]}])
    assert rig.sent_body() == ["param", "env"]
