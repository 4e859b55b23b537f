"""Compiles a definition for a job without a server; refuses what needs one (SPEC section 16)."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from client_sdk.client.jobs import Definition, write_definition
from client_sdk.errors import Flaw, SdkError
from client_sdk.models import ModelError, parse_definition
from client_sdk.models.step import QUEUE_MEMBERS, ROUTING_MEMBERS
from client_sdk.target import Declaration
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.engine.compile import Compiled, compile_definition
from scheduler_service.engine.program import Program, Surroundings

NEEDS_SERVER: Mapping[str, str] = {
    "timer": "call run when it is time, or post the job to a service",
    "qos": "nothing outlives this process; leave it out, or post the job to a service",
    "leadSeconds": "no timer fires here; leave it out",
    "historyDetail": "there is no history here, only the result of run; leave it out",
    "keepResult": "there is no history here, only the result of run; leave it out",
    "pauseAfterFailures": "nothing fires here that could be paused; leave it out",
    "parentJob": "a job has no children here; leave it out",
    "parentJobExecution": "a job has no children here; leave it out",
}
UNSERVED = "nobody serves here"
GIVE = "give feedback_url and hand what is posted there to LiteJob.feedback, or post the job to a service"
FEEDBACK = re.compile(r"(?<!\$)\$\{\s*schedulingFeedbackUrl")
STEP_NEEDS_SERVER = (*ROUTING_MEMBERS, *QUEUE_MEMBERS)
DEFAULTS = {"jobId": "lite", "jobName": "lite"}
SCHEME, WITH_NAME = "service:", "service://"
LISTS, SINGLES = ("request", "notification"), ("checkUrl", "cancelUrl")


class DefinitionRefused(SdkError):
    """A definition that cannot run without a server; `errors` holds all that is wrong with it."""

    def __init__(self, errors: tuple[Flaw, ...]) -> None:
        super().__init__("; ".join(f"{error.pointer}: {error.message}" for error in errors))
        self.errors = errors


def compile_lite(
    definition: Definition, surroundings: Surroundings, services: Mapping[str, str], *, takes_feedback: bool
) -> Compiled:
    """A definition without timer and qos, compiled, with its warnings. Raises DefinitionRefused.

    `takes_feedback`: the caller serves the address of feedback URLs.
    """
    if isinstance(definition, Declaration):
        name = definition.__name__
        text = f"call the function itself, or pass the request to its service, {{'request': {name}.define("
        raise TypeError(
            f"definition is {name}, a job declared with @job: {text}'NAME')['request']}}, "
            "with services={'NAME': 'http://HOST:PORT'}"
        )
    posted = {**DEFAULTS, **write_definition(definition)}
    addresses = ServiceAddresses(services)
    placed = addresses.put(posted)
    waits = () if takes_feedback else _refuse_feedback(posted)
    refused = (*_refuse(posted), *waits, *addresses.missing)
    if refused:
        raise DefinitionRefused(refused)
    # It fires by `run` only; a definition without a timer would fire once by itself.
    placed["timer"] = {"period": "external"}
    placed.pop("qos", None)
    try:
        compiled = compile_definition(parse_definition(placed), surroundings)
    except (ModelError, DefinitionError) as error:
        raise DefinitionRefused(
            tuple(Flaw(one.pointer, one.code, one.message) for one in error.problems)
        ) from None
    return msgspec.structs.replace(compiled, program=_send_directly(compiled.program))


def _send_directly(program: Program) -> Program:
    """A service has one address here, so steps are not routed to instances."""
    steps = tuple(msgspec.structs.replace(step, dispatch=None) for step in program.steps)
    return msgspec.structs.replace(program, steps=steps)


def _refuse(posted: Mapping[str, Any]) -> Iterable[Flaw]:
    for name, remedy in NEEDS_SERVER.items():
        if posted.get(name) is not None:
            yield Flaw(f"/{name}", "needs_server", f"{name} needs a server: {remedy}")
    for pointer, step in _objects_in(posted, "request"):
        for name in STEP_NEEDS_SERVER:
            if step.get(name) is not None:
                text = f"{name} needs a server, which knows the instances; remove it"
                yield Flaw(f"{pointer}/{name}", "needs_server", text)
        if str(step.get("url", "")).lower().startswith("queue:"):
            text = "queue:// needs a server, from which instances claim; call http(s):// or service:// here"
            yield Flaw(f"{pointer}/url", "needs_server", text)
    for pointer, entry in _objects_in(posted, "notification"):
        if entry.get("guarantee") == "outbox":
            text = "an outbox needs a server: nothing outlives this process; remove it"
            yield Flaw(f"{pointer}/guarantee", "needs_server", text)


def _refuse_feedback(posted: Mapping[str, Any]) -> Iterable[Flaw]:
    """What hands out an address for feedback that nobody serves, or waits for feedback without a limit.

    An asynchronous job without `checkUrl` is refused only where `timeoutSeconds` is 0: its target may answer
    with `Location` (SPEC section 5), but where it does not, only the limit ends the execution.
    """
    if posted.get("async") and posted.get("checkUrl") is None and posted.get("timeoutSeconds") == 0:
        text = f"without checkUrl and time limit a job may wait for feedback without end, which {UNSERVED}"
        yield Flaw("/timeoutSeconds", "needs_server", f"{text}: give a limit, add checkUrl, or {GIVE}")
    singles = ((f"/{name}", posted.get(name)) for name in ("checkUrl", "cancelUrl"))
    for pointer, value in (*singles, *_objects_in(posted, "request"), *_objects_in(posted, "notification")):
        if FEEDBACK.search(json.dumps(value, default=str)):
            text = f"a feedback URL leads to an address that {UNSERVED}: leave it out, {GIVE}"
            yield Flaw(pointer, "needs_server", text)


def _objects_in(posted: Mapping[str, Any], name: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The objects in a list with their pointers; other entries are left for validation."""
    entries = posted.get(name)
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, Mapping):
            yield f"/{name}/{index}", entry


class ServiceAddresses:
    """Addresses by service name; `missing` collects references to services without an address."""

    def __init__(self, services: Mapping[str, str]) -> None:
        self._services = services
        self.missing: list[Flaw] = []

    def put(self, posted: Mapping[str, Any]) -> dict[str, Any]:
        """The definition with addresses; malformed parts are left unchanged for validation."""
        placed = dict(posted)
        for name in LISTS:
            if isinstance(placed.get(name), list):
                placed[name] = [
                    self._place(one, f"/{name}/{index}") for index, one in enumerate(placed[name])
                ]
        for name in SINGLES:
            if placed.get(name) is not None:
                placed[name] = self._place(placed[name], f"/{name}")
        return placed

    def _place(self, target: Any, pointer: str) -> Any:
        if isinstance(target, str):
            return self._find(target, pointer)
        if not isinstance(target, Mapping) or not isinstance(target.get("url"), str):
            return target
        placed = dict(target)
        name = placed.pop("serviceName", None)
        url = target["url"]
        if isinstance(name, str):
            # The authority becomes the first segment of the path (SPEC section 4).
            url = f"{WITH_NAME}{name}/{url.partition(':')[2].lstrip('/')}"
        return {**placed, "url": self._find(url, f"{pointer}/url")}

    def _find(self, url: str, pointer: str) -> str:
        if not url.lower().startswith(SCHEME):
            return url
        name, _, rest = url[len(WITH_NAME) :].partition("/") if url.startswith(WITH_NAME) else ("", "", "")
        address = self._services.get(name)
        if address is None:
            self.missing.append(Flaw(pointer, "no_instance", self._explain(name)))
            return url
        return f"{address.rstrip('/')}/{rest}"

    def _explain(self, name: str) -> str:
        if not name:
            return "service:/path is the job's own service, and there is none here; write its address"
        known = f"it has {', '.join(map(repr, self._services))}" if self._services else "it has none"
        return f"no address of the service {name!r} was given in services, {known}: add {name!r}: 'http://…'"
