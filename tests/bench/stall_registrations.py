"""What services may register at the most, for `tests.bench.stalls`."""

import json
from collections.abc import Callable
from functools import partial

import httpx

from tests.bench.stall_probe import MIB, Probe, definition

TEXT = "x" * 3_000
MANY = range(1_000)


def alike(probe: Probe) -> str:
    """A thousand jobs of 4 KiB, alike."""
    return json.dumps([definition(f"alike-{n}", probe.target, labels={"a": TEXT}) for n in MANY])


def shapes(probe: Probe, name: str) -> str:
    """A thousand jobs of 4 KiB, each with a shape of its own."""
    body = [TEXT, *range(20), [[]] * 50]
    return json.dumps(
        [
            definition(f"{name}-{n}", probe.target, request=[{"url": f"{probe.target}/{n}", "body": body}])
            for n in MANY
        ]
    )


def bodies(probe: Probe) -> str:
    """4 MiB of small values within four jobs of one MiB."""
    request = [{"url": f"{probe.target}/run", "body": list(range(140_000))}]
    return json.dumps([definition(f"bodies-{n}", probe.target, request=request) for n in range(4)])


def brackets(_: Probe) -> str:
    """Millions of empty objects: too many."""
    return "[" + "{}," * (MIB + MIB // 4) + "{}]"


def no_array(_: Probe) -> str:
    """Something else than an array, as large as it may be."""
    return '{"a":[' + "[]," * (MIB + MIB // 4) + "[]]}"


def no_jobs(_: Probe) -> str:
    """A few items that are no definitions, of millions of values."""
    return "[" + ",".join(['{"a":[' + "[]," * 300_000 + "[]]}"] * 4) + "]"


def register(probe: Probe, make: Callable[[Probe], str], path: str) -> httpx.Response:
    """One registration with these timers."""
    text = f'{{"address":"{probe.target}","timers":{make(probe)}}}'
    return probe.client.put(f"/services/{path}", content=text, headers={"content-type": "application/json"})


REGISTRATIONS: dict[str, Callable[[Probe], httpx.Response]] = {
    "register alike": partial(register, make=alike, path="ra"),
    "register shapes": partial(register, make=partial(shapes, name="rs"), path="rs"),
    "register shapes again": partial(register, make=partial(shapes, name="rs"), path="rs"),
    "register instance": partial(register, make=partial(shapes, name="is"), path="is/instances/one"),
    "register instance again": partial(register, make=partial(shapes, name="is"), path="is/instances/one"),
    "register bodies": partial(register, make=bodies, path="rm"),
    "register brackets": partial(register, make=brackets, path="rb"),
    "register no array": partial(register, make=no_array, path="rn"),
    "register no jobs": partial(register, make=no_jobs, path="rj"),
}
