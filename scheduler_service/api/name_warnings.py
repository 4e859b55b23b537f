"""Warnings about host names that lead to a refused address today (SPEC section 9)."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from client_sdk.models import ModelError, parse_definition, point_to_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.domain.errors import Problem
from scheduler_service.engine.posting import literal_targets

# A quick look at the posted text: most definitions name services, addresses or this machine.
# It begins with letters, which are found faster than a quotation mark.
_NAMED = re.compile(
    rb'rl"\s*:\s*"[hH][tT]{2}[pP][sS]?:\\?/\\?/(?![0-9.]+[:/?#"\\])'
    rb'([A-Za-z0-9_-][A-Za-z0-9._-]*)(?=[:/?#"\\])'
)
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")
_OWN = ("localhost", ".localhost")


async def find_refused_names(deps: ApiDependencies, raw: bytes) -> Mapping[str, str]:
    """The host names of the URLs in `raw`, definitions as JSON, that are refused today, with the reason.

    Costs next to nothing where there is no name, and at most a moment where there is one.
    """
    if deps.check_names is None:
        return {}
    names = dict.fromkeys(found[1].decode().lower().removesuffix(".") for found in _NAMED.finditer(raw))
    asked = [name for name in names if not (_NUMERIC.fullmatch(name) or name.endswith(_OWN))]
    return await deps.check_names(asked) if asked else {}


def warn_of_names(raw: bytes, refused: Mapping[str, str]) -> tuple[Problem, ...]:
    """A warning for each URL of the definition `raw` with one of the `refused` names."""
    if not refused:
        return ()
    value = msgspec.json.decode(raw)
    try:
        definition = parse_definition({"jobId": "job", **value})
    except ModelError:
        return ()
    found = []
    for pointer, url in literal_targets(definition):
        host = (urlsplit(url).hostname or "").removesuffix(".")
        if host in refused:
            text = f"{host} cannot be reached today: {refused[host]}; requests to it fail with egress"
            found.append(Problem(point_to_posted(pointer, value), "egress_today", text))
    return tuple(found)
