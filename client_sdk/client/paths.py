"""Paths of the API with names in them: a name is checked before it is put into a path."""

import re
from urllib.parse import quote

from client_sdk.names import INSTANCE_ID, JOB_ID, SERVICE_NAME

LONGEST_SHOWN = 140
_OF_ID = "use 1 to 128 of letters, digits, '.', '_', ':' and '-', the first a letter or digit"
_OF_NAME = "use 1 to 128 of letters, digits, '.', '_' and '-', the first a letter or digit"
_OF_GIVEN = "use the id that the scheduler gave"
_GIVEN_ID = r"^(?!\.{1,2}$)[!\"$&-.0->@-~]{1,256}$"
"""Printable ASCII without what ends or changes a segment: `/`, `?`, `#` and `%`."""

FORMS = {
    "job": ("job_id", JOB_ID, _OF_ID),
    "execution": ("execution", _GIVEN_ID, _OF_GIVEN),
    "delivery": ("delivery", _GIVEN_ID, _OF_GIVEN),
    "operation": ("operation", _GIVEN_ID, _OF_GIVEN),
    "lease": ("lease", _GIVEN_ID, _OF_GIVEN),
    "queue": ("name", SERVICE_NAME, _OF_NAME),
    "service": ("name", SERVICE_NAME, _OF_NAME),
    "instance": ("instance_id", INSTANCE_ID, _OF_ID),
}
"""Of each kind: the argument that names one, its pattern, and the pattern in words."""
_PATTERNS = {kind: re.compile(pattern[1:-1]) for kind, (_, pattern, _) in FORMS.items()}


def quote_name(kind: str, name: object) -> str:
    """`name` as a segment of a path; `kind` is one of FORMS.

    Raises TypeError if it is no text, ValueError if nothing of this kind can have it.
    """
    argument, _, form = FORMS[kind]
    if not isinstance(name, str):
        raise TypeError(f"{argument} is of type {type(name).__name__}, not the text that names {_a(kind)}")
    if _PATTERNS[kind].fullmatch(name) is None:
        what = "name" if argument == "name" else "id"
        raise ValueError(f"{argument} {name[:LONGEST_SHOWN]!r} is no {what} of {_a(kind)}; {form}")
    return quote(name, safe=":")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "eio" else f"a {kind}"
