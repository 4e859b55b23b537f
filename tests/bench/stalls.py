"""How long one thing within the allowed sizes holds the loop: `python -m tests.bench.stalls [word …]`.

Each input goes to a real service while a job fires every 100 ms. Printed are the longest time for which
the service's loop did nothing else, as a tick of each millisecond saw it, how much of it its thread was at
work (the rest it waited for the interpreter, or for a processor), the lateness of the job, and the most
memory that the service has had. The words name the inputs to send: those that contain one of them; with
`alone` each has a service of its own that has just started.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx

from tests.bench.stage import show
from tests.bench.stall_probe import Probe, definition, probing

MIB = 1 << 20
MANY = range(1_000)
TEXT = "x" * 3_000
UNREACHED = "http://127.0.0.1:9/run"


def alike(_: str) -> str:
    """A thousand jobs of 4 KiB, alike."""
    return json.dumps([definition(f"alike-{n}", UNREACHED, labels={"a": TEXT}) for n in MANY])


def shapes(name: str) -> str:
    """A thousand jobs of 4 KiB, each with a shape of its own."""
    body = [TEXT, *range(20), [[]] * 50]
    return json.dumps([definition(f"{name}-{n}", f"{UNREACHED}/{n}", body) for n in MANY])


def bodies(name: str) -> str:
    """4 MiB of small values within four jobs of one MiB."""
    return json.dumps([definition(f"{name}-{n}", UNREACHED, list(range(140_000))) for n in range(4)])


def brackets(_: str) -> str:
    """4 MiB of empty objects: too many jobs."""
    return "[" + "{}," * (MIB + MIB // 4) + "{}]"


def refused(_: str) -> str:
    """4 MiB in two items, of which the first is no job."""
    return '[{"a":[' + "[]," * (MIB + MIB // 4) + '[]]},{"jobId":"a"}]'


def no_array(_: str) -> str:
    """4 MiB that are not an array."""
    return '{"a":[' + "[]," * (MIB + MIB // 4) + "[]]}"


ARRAYS: dict[str, Callable[[str], str]] = {
    "alike": alike,
    "shapes": shapes,
    "bodies": bodies,
    "brackets": brackets,
    "refused": refused,
    "no array": no_array,
}
"""Texts of many jobs, posted, or declared by a service; given is a word for the ids."""


def fill(before: str, one: Callable[[int], str], after: str) -> str:
    """`before` and `after` with as many pieces between them as fit a MiB."""
    pieces, room = [], MIB - 1_000
    for number in range(room):
        piece = one(number)
        room -= len(piece) + 1
        if room < 0:
            break
        pieces.append(piece)
    return before + ",".join(pieces) + after


def _step(number: int) -> str:
    name = '"${a}"' if number < 300 else "[]"
    return f'{{"url":"{UNREACHED}/{number}","body":[{name},{"[]," * 600}[]]}}'


MEMBERS: dict[str, Callable[[], str]] = {
    "steps": lambda: fill('"request":[', _step, "]"),
    "headers": lambda: fill(f'"request":[{{"url":"{UNREACHED}","headers":{{', lambda n: f'"a{n}":"1"', "}}]"),
    "labels": lambda: fill('"labels":{', lambda n: f'"a{n}":"1"', "}"),
    "codes": lambda: fill('"retry":[{"errorEquals":[', lambda n: f'"{n}"', "]}]"),
    "timer": lambda: '"timer":"{' + " " * (MIB - 1_000) + '}"',
    "schema": lambda: fill('"paramsSchema":{"enum":[', lambda _: "[]", "]}"),
    "unknown": lambda: fill("", lambda n: f'"respEnvNam{n}":{n}', ""),
    "malformed": lambda: fill('"labels":[', lambda _: "[]", ",x]"),
}
"""Members of a definition, of a MiB each, by a word for the job."""
BODIES: dict[str, Callable[[], str]] = {
    "numbers": lambda: fill("[", lambda n: str(n % 10), "]"),
    "lists": lambda: fill("[", lambda _: "[]", "]"),
    "objects": lambda: fill("[", lambda n: f'{{"a{n}":1}}', "]"),
    "texts": lambda: fill("[", lambda n: f'"${{a{n}}}{n}"' if n < 400 else '"abcdef"', "]"),
    "accents": lambda: '["' + "ä" * (MIB // 2 - 500) + '"]',
}
"""Bodies of a step, of a MiB each."""


def send(probe: Probe, method: str, path: str, text: str) -> httpx.Response:
    """One request with this JSON."""
    return probe.client.request(method, path, content=text, headers={"content-type": "application/json"})


def post_array(probe: Probe, name: str) -> httpx.Response:
    """Many jobs at once."""
    return send(probe, "POST", "/jobs", ARRAYS[name](f"array-{name}"))


def register(probe: Probe, name: str, place: str = "") -> httpx.Response:
    """A service, or an instance of it, that declares as many."""
    path = f"/services/{name.replace(' ', '-')}{place}"
    timers = ARRAYS[name](f"register-{name}{place[-3:]}")
    return send(probe, "PUT", path, f'{{"address":"{UNREACHED}","timers":{timers}}}')


def post_one(probe: Probe, name: str, members: str) -> httpx.Response:
    """One job with members of a MiB."""
    base = {member: value for member, value in definition(name, UNREACHED).items() if member != "request"}
    return send(probe, "POST", f"/jobs/{name}", f"{json.dumps(base)[:-1]},{members}}}")


def post_body(probe: Probe, name: str) -> httpx.Response:
    """One job whose step has a body of a MiB."""
    return post_one(probe, name, f'"request":[{{"url":"{UNREACHED}","body":{BODIES[name]()}}}]')


INPUTS: dict[str, Callable[[Probe], httpx.Response]] = {
    **{f"array {name}": partial(post_array, name=name) for name in ARRAYS},
    **{f"register {name}": partial(register, name=name) for name in ARRAYS},
    "register shapes again": partial(register, name="shapes"),
    "register instance": partial(register, name="shapes", place="/instances/one"),
    "register instance again": partial(register, name="shapes", place="/instances/one"),
    **{f"body {name}": partial(post_body, name=name) for name in BODIES},
    **{
        f"definition {name}": lambda probe, name=name, make=make: post_one(probe, name, make())
        for name, make in MEMBERS.items()
    },
}


def main(*words: str) -> None:
    """Prints a line for each input; a word with `=` is a setting of the service."""
    options = [word for word in words if "=" in word]
    names = [word for word in words if "=" not in word and word != "alone"]
    chosen = {name: one for name, one in INPUTS.items() if not names or any(word in name for word in names)}
    for group in [{name: one} for name, one in chosen.items()] if "alone" in words else [chosen]:
        with probing("services.declared_bytes=1000000000", *options) as probe:
            time.sleep(2)
            for name, one in group.items():
                show(f"{name:24}", _measure(probe, one))


def _measure(probe: Probe, one: Callable[[Probe], httpx.Response]) -> dict[str, Any]:
    time.sleep(0.3)
    probe.tick()
    since, began = time.time(), time.perf_counter()
    answer = one(probe)
    took = time.perf_counter() - began
    time.sleep(1)
    share, late = probe.tick(), probe.lateness(since)
    return {
        **{f"{name}_ms": round(value, 1) for name, value in zip(share._fields[:4], share[:4], strict=True)},
        "late_p99_ms": round(late[math.ceil(len(late) * 0.99) - 1], 1) if late else None,
        "took_ms": round(took * 1000),
        "memory_mib": round(probe.memory()),
        "peak_mib": round(probe.peak()),
        "status": answer.status_code,
        "threads": share.threads,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
