"""Checks the options of `@job`, with a remedy for each refused one (SPEC section 16)."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from client_sdk.errors import DeclarationError
from client_sdk.models.step import QUEUE_MEMBERS, ROUTING_MEMBERS, SENT_MEMBERS

REMEDIES: Mapping[str, str] = {
    "request": "its one step calls the function; further members of that step are given as step={…}",
    "active": "give start_policy='manual' for a job that a person starts",
    "check_url": "how far it is, and its end, are reported by the function: give asynchronous=True",
    "check_rate_seconds": "the function reports its end; there are no checks",
    "cancel_url": "an asynchronous job has one already, which stops the function",
}
STEP_REMEDIES: Mapping[str, str] = {
    "url": "it is the function's own; work for a queue is declared with queue=… and done by a Worker",
    "serviceName": "it is the service that has the function",
    "method": "functions are called by POST",
    "body": "give body=… beside step",
}


def check_options(name: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises DeclarationError for options of function `name` that do not exist or have no effect."""
    names = list(known)
    for given in options:
        if given not in names:
            raise DeclarationError(f"{name}: @job takes no {given}: {_remedy(given, names)}")
    queue, step = options.get("queue"), options.get("step") or {}
    for member in step:
        if member in STEP_REMEDIES:
            raise DeclarationError(f"{name}: step takes no {member}: {STEP_REMEDIES[member]}")
        if queue is None and member in QUEUE_MEMBERS:
            text = "it is for work that is claimed; declare it with queue=…, or by a Worker"
            raise DeclarationError(f"{name}: {member} of step has no effect: {text}")
        if queue is not None and member in ROUTING_MEMBERS:
            text = "it chooses the instance to call; work from a queue is claimed"
            raise DeclarationError(f"{name}: {member} of step has no effect: {text}")
        if queue is not None and member in SENT_MEMBERS:
            text = "it is for calls; work from a queue is claimed, and timeout_seconds limits it"
            raise DeclarationError(f"{name}: {member} of step has no effect: {text}")


def _remedy(given: str, names: list[str]) -> str:
    if given in REMEDIES:
        return REMEDIES[given]
    spelt = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in given)
    near = difflib.get_close_matches(spelt, names, n=1)
    return f"did you mean {near[0]}?" if near else "remove it or check its spelling"
