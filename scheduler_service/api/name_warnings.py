"""Warnings about host names that lead to a refused address today (SPEC section 9)."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from urllib.parse import urlsplit

from client_sdk.models import ModelError, parse_definition, point_to_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.domain.errors import Problem
from scheduler_service.engine.posting import literal_targets
from scheduler_service.hosts.large_work import work_by_size
from scheduler_service.language.json_pieces import decode_json

# A quick look at the posted text: most definitions name services, addresses or this machine.
# It begins with letters, which are found faster than a quotation mark.
_NAMED = re.compile(
    rb'rl"\s*:\s*"[hH][tT]{2}[pP][sS]?:\\?/\\?/(?![0-9.]+[:/?#"\\])'
    rb'([A-Za-z0-9_-][A-Za-z0-9._-]*)(?=[:/?#"\\])'
)
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")
MAX_FOUND = 10_000
"""How many URLs of one request are looked at: a thousand definitions have a few each."""
_OWN = ("localhost", ".localhost")


async def find_refused_names(deps: ApiDependencies, *raws: bytes) -> Mapping[str, str]:
    """The host names of the URLs in `raws`, definitions as JSON, that are refused today, with the reason.

    Costs next to nothing where there is no name, and at most a moment where there is one.
    """
    if deps.check_names is None:
        return {}
    asked = await work_by_size(sum(map(len, raws)), lambda: _names_in(raws))
    return await deps.check_names(asked) if asked else {}


async def warn_of_names(raw: bytes, refused: Mapping[str, str]) -> tuple[Problem, ...]:
    """A warning for each URL of the definition `raw` with one of the `refused` names."""
    return await work_by_size(len(raw), lambda: _warn(raw, refused)) if refused else ()


def _names_in(raws: Sequence[bytes]) -> list[str]:
    found = islice(chain.from_iterable(map(_NAMED.finditer, raws)), MAX_FOUND)
    names = dict.fromkeys(one[1].decode().lower().removesuffix(".") for one in found)
    return [name for name in names if not (_NUMERIC.fullmatch(name) or name.endswith(_OWN))]


def _warn(raw: bytes, refused: Mapping[str, str]) -> tuple[Problem, ...]:
    value = decode_json(raw)
    try:
        definition = parse_definition({"jobId": "job", **value}, is_json=True)
    except ModelError:
        return ()
    found = []
    for pointer, url in literal_targets(definition):
        host = (urlsplit(url).hostname or "").removesuffix(".")
        if host in refused:
            text = f"{host} cannot be reached today: {refused[host]}; requests to it fail with egress"
            found.append(Problem(point_to_posted(pointer, value), "egress_today", text))
    return tuple(found)
