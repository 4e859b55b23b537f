"""What callers may send and targets may answer at the most, for `tests.bench.stalls`."""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx

from tests.bench.stall_probe import MIB, Answers, Probe, definition

Answer = httpx.Response | None


def fill(one: Callable[[int], str], size: int, *, between: str = ",") -> str:
    """As many pieces as fit `size` bytes."""
    pieces, room = [], size
    for number in range(size):
        piece = one(number)
        room -= len(piece) + len(between)
        if room < 0:
            break
        pieces.append(piece)
    return between.join(pieces)


def _post(probe: Probe, path: str, text: str, **headers: str) -> Answer:
    return probe.client.post(path, content=text, headers={"content-type": "application/json", **headers})


def _one(probe: Probe, job_id: str, members: str) -> Answer:
    base = json.dumps(definition(job_id, probe.target, jobName="x"))[:-1]
    return _post(probe, f"/jobs/{job_id}", f"{base},{members}}}")


def _body(probe: Probe, job_id: str, body: str) -> Answer:
    return _one(probe, job_id, f'"request":[{{"url":"{probe.target}/run","body":{body}}}]')


def array(probe: Probe, *, similar: bool = True, key: str = "") -> Answer:
    """4 MiB: a thousand definitions of 4 KiB, alike or each with a shape of its own; `key` makes ids."""
    text = "x" * (3 * 1024)
    jobs = [
        definition(
            f"array-{similar}-{key}{n}",
            probe.target,
            **(
                {"labels": {"a": text}}
                if similar
                else {"request": [{"url": f"{probe.target}/{n}", "body": [text, *range(20), [[]] * 50]}]}
            ),
        )
        for n in range(1_000)
    ]
    return _post(probe, "/jobs", json.dumps(jobs), **({"idempotency-key": key} if key else {}))


def array_of_bodies(probe: Probe) -> Answer:
    """4 MiB of small values within four definitions of one MiB."""
    body = json.dumps(list(range(140_000)))
    jobs = ",".join(
        json.dumps(definition(f"many-{n}", probe.target, request=[]))[:-14]
        + f'"request":[{{"url":"{probe.target}/run","body":{body}}}]}}'
        for n in range(4)
    )
    return _post(probe, "/jobs", f"[{jobs}]")


def array_of_brackets(probe: Probe) -> Answer:
    """4 MiB of empty objects: too many definitions."""
    return _post(probe, "/jobs", "[" + "{}," * (MIB + MIB // 4) + "{}]")


def array_of_two(probe: Probe) -> Answer:
    """4 MiB in two definitions, of which the first is refused."""
    return _post(probe, "/jobs", '[{"a":[' + "[]," * (MIB + MIB // 4) + '[]]},{"jobId":"a"}]')


def array_nobody(probe: Probe) -> Answer:
    """4 MiB that are not an array."""
    return _post(probe, "/jobs", '{"a":[' + "[]," * (MIB + MIB // 4) + "[]]}")


def spliced(probe: Probe, body: str, name: str, sent: Any = "${$}|json", **options: Any) -> Answer:
    """A response of a MiB spliced into the next step's body."""
    Answers.bodies[f"/{name}"] = body.encode()
    steps = [
        {"url": f"{probe.target}/{name}"},
        {"url": f"{probe.target}/run", "body": sent} | options,
    ]
    answer = probe.define(name, request=steps)
    probe.tick()
    probe.trigger(name)
    return answer


OBJECTS = '{"a":[' + fill(lambda n: f'{{"id":{n}}}', MIB - 20) + "]}"
LISTS = '{"a":[' + fill(lambda n: "[]", MIB - 20) + "]}"
NUMBERS = '{"a":[' + fill(lambda n: f"{n % 10}", MIB - 20) + "]}"


def listed(probe: Probe, path: str) -> Answer:
    """A list at its largest."""
    if probe.client.get("/jobs/list-499").status_code == 404:
        probe.client.post(
            "/jobs",
            json=[
                definition(f"list-{n}", probe.target, labels={f"l{k}": "v" for k in range(30)})
                for n in range(500)
            ],
        )
        for n in range(500):
            probe.client.post(f"/jobs/list-{n}/trigger", json={})
        time.sleep(3)
        probe.tick()
    return probe.client.get(path)


def detailed(probe: Probe) -> Answer:
    """The page of an execution with many steps, each with bodies as long as the history keeps them."""
    Answers.bodies["/big"] = json.dumps({"a": "x" * 5_000}).encode()
    steps = [{"url": f"{probe.target}/big", "body": ["y" * 1_900]} for _ in range(500)]
    probe.define("detail", request=steps)
    execution = probe.client.post("/jobs/detail/trigger", json={}).json()["data"]["executionId"]
    while (answer := probe.client.get(f"/executions/{execution}")).json()["data"]["endedAt"] is None:
        time.sleep(0.5)
    probe.tick()
    for _ in range(5):
        answer = probe.client.get(f"/executions/{execution}")
    return answer


def reloaded(probe: Probe) -> Answer:
    """A trigger of a job whose definition has a MiB of templates."""
    _body(probe, "reload", "[" + fill(lambda n: f'"{n}"', MIB - 1_000) + ',"${jobId}"]')
    probe.tick()
    probe.trigger("reload")
    return None


def long(before: str, one: Callable[[int], str], after: str) -> str:
    """`before` and `after` with as many pieces between them as fit a body."""
    return before + fill(one, MIB - 1_000) + after


MEMBERS: dict[str, Callable[[str], str]] = {
    "steps": lambda url: long('"request":[', partial(_step, url), "]"),
    "headers": lambda url: long(f'"request":[{{"url":"{url}","headers":{{', lambda n: f'"a{n}":"1"', "}}]"),
    "labels": lambda _: long('"labels":{', lambda n: f'"a{n}":"1"', "}"),
    "codes": lambda _: long('"retry":[{"errorEquals":[', lambda n: f'"{n}"', "]}]"),
    "successes": lambda url: long(f'"request":[{{"url":"{url}","successCodes":[', lambda _: "200", "]}]"),
    "events": lambda url: long(
        f'"notification":[{{"url":"{url}","stateEquals":[', lambda n: f'"finalFail{n}"', "]}]"
    ),
    "timer": lambda _: '"timer":"{' + " " * (MIB - 1_000) + '}"',
    "schema": lambda _: long('"paramsSchema":{"enum":[', lambda _: "[]", "]}"),
    "unknown": lambda _: long("", lambda n: f'"respEnvNam{n}":{n}', ""),
    "wrong": lambda _: long('"labels":{', lambda n: f'"a{n}":1', "}"),
    "large": lambda _: long('"labels":[', lambda _: "1e999", "]"),
    "malformed": lambda _: long('"labels":[', lambda _: "[]", ",x]"),
}
"""Members of a definition, of a MiB each, by a word for the job."""
BODIES: dict[str, Callable[[], str]] = {
    "numbers": lambda: long("[", lambda n: str(n % 10), "]"),
    "lists": lambda: long("[", lambda _: "[]", "]"),
    "objects": lambda: long("[", lambda n: f'{{"a{n}":1}}', "]"),
    "texts": lambda: long("[", lambda n: f'"${{a{n}}}{n}"' if n < 400 else '"abcdef"', "]"),
    "templates": lambda: long('["${jobId}",', lambda n: str(n % 10), "]"),
    "accents": lambda: '["' + "ä" * (MIB // 2 - 500) + '"]',
}
"""Bodies of a step, of a MiB each."""
SPLICED: dict[str, tuple[str, Any]] = {
    "objects": (OBJECTS, "${$}|json"),
    "lists": (LISTS, "${$}|json"),
    "numbers": (NUMBERS, "${$}|json"),
    "text": (json.dumps({"a": "x" * (MIB - 100)}), "${$}|json"),
    "often": (OBJECTS, {f"m{n}": "${$.a}|json" for n in range(4)}),
    "as text": (OBJECTS, {f"m{n}": "a${$.a}" for n in range(15)}),
    "secrets": ('{"password":' + OBJECTS + "}", "${$}|json"),
    "tokens": ('{"a":"' + "?token=a" * (MIB // 9) + '"}', "${$}|json"),
    "path": (NUMBERS, "${$.a[?@ > 5 && @ < 7]}|json"),
    "path below": (OBJECTS, "${$..id}|json"),
    "path equal": (OBJECTS, "${$.a[?@ == $.a[0]]}|json"),
    "path pattern": (json.dumps({"a": ["a" * 1_000] * 1_000}), "${$.a[?match(@, '(a|b|c)*d')]}|json"),
    "path small": (json.dumps({"a": [[]] * 1_000}), "${$.a[?count($.a[?@ == 1]) > 1]}|json"),
}
"""Answers of a target, and the body of the next step."""
ATTACKS: dict[str, Callable[[Probe], Answer]] = {
    "array alike": array,
    "array of shapes": partial(array, similar=False),
    "array with a key": partial(array, key="once"),
    "array of bodies": array_of_bodies,
    "array of brackets": array_of_brackets,
    "array of two": array_of_two,
    "array nobody": array_nobody,
    **{
        f"body {name}": lambda probe, name=name, make=make: _body(probe, name, make())
        for name, make in BODIES.items()
    },
    **{
        f"definition {name}": lambda probe, name=name, make=make: _one(probe, name, make(probe.target))
        for name, make in MEMBERS.items()
    },
    **{
        f"spliced {name}": lambda probe, name=name, parts=parts: spliced(
            probe, parts[0], f"s-{name.replace(' ', '-')}", parts[1]
        )
        for name, parts in SPLICED.items()
    },
    "trigger": lambda probe: _post(probe, "/jobs/bystander/trigger", long('{"a":[', lambda _: "[]", "]}")),
    "trigger checked": lambda probe: _trigger_checked(probe),
    "preview": lambda probe: _preview(probe),
    "list jobs": lambda probe: listed(probe, "/jobs?limit=500"),
    "list executions": lambda probe: listed(probe, "/executions?limit=500"),
    "list firings": lambda probe: listed(probe, "/upcoming?limit=500"),
    "openapi": lambda probe: probe.client.get("/openapi.json"),
    "detail": detailed,
    "reload": reloaded,
}


def _step(url: str, number: int) -> str:
    name = '"${a}"' if number < 300 else "[]"
    return f'{{"url":"{url}/{number}","body":[{name},{"[]," * 600}[]]}}'


def _preview(probe: Probe) -> Answer:
    root = '{"a":[' + fill(lambda n: f'{{"id":{n}}}', MIB - 1_000) + "]}"
    return _post(
        probe, "/templates/preview", f'{{"place":"body","template":"${{$..id}}|json","root":{root}}}'
    )


def _trigger_checked(probe: Probe) -> Answer:
    schema = {"properties": {"a": {"items": {"type": "integer", "minimum": 0, "maximum": 100}}}}
    probe.define("checked", paramsSchema=schema)
    probe.tick()
    return _post(probe, "/jobs/checked/trigger", NUMBERS)
