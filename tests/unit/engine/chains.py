"""A job with a chain of steps that is under way."""

from typing import Any

from tests.unit.engine.rig import Rig

CHAIN = [{"url": "http://target.test/1"}, {"url": "http://target.test/2", "body": "${$.x}"}]


def running(qos: int, **members: Any) -> Rig:
    """A job whose first step is answered and whose second is in flight."""
    rig = Rig(qos=qos, **{"request": CHAIN, **members}).triggered()
    rig.answer(200, {"x": "y"})
    return rig


TWO: list[dict[str, Any]] = [
    {"url": "http://target.test/one", "respEnvName": "ONE"},
    {"url": "http://target.test/two?x=${ONE.x}", "body": {"all": "${ONE}|json", "x": "${$.x}"}},
]


def retried(steps: list[dict[str, Any]], **members: Any) -> Rig:
    """A chain that is retried once, after a second."""
    return Rig(request=steps, retry=[{"errorEquals": "*", "maxAttempts": 1}], **members).triggered()
