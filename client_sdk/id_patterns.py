"""Ids and names on the wire: their forms as patterns, and as segments of paths (SPEC sections 2, 11)."""

import re
from urllib.parse import quote

JOB_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
INSTANCE_ID = JOB_ID
SERVICE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
"""Of services, queues and calendars."""
OF_SECRETS = r"^[A-Za-z_][A-Za-z0-9_-]{0,127}$"
_GIVEN_ID = r"^(?!\.{1,2}$)[!\"$&-.0->@-~]{1,256}$"
"""Printable ASCII without what ends or changes a segment: `/`, `?`, `#` and `%`."""
_EXECUTION = r"^(?!\.{1,2}$)[!-$&-.0->@-~]{1,256}$"
"""With `#`, as in `nightly#7` and `nightly#last`."""
FORM_OF_ID = "use 1 to 128 of letters, digits, '.', '_', ':' and '-', the first a letter or digit"
_OF_NAME = "use 1 to 128 of letters, digits, '.', '_' and '-', the first a letter or digit"
_OF_GIVEN = "use the id that the scheduler gave"
_OF_EXECUTION = f"{_OF_GIVEN}, or JOB#NUMBER or JOB#last"
_LIKE_A_VARIABLE = "use 1 to 128 of letters, digits, '_' and '-', the first a letter or '_'"
FORMS = {
    "job": ("job_id", JOB_ID, FORM_OF_ID),
    "execution": ("execution", _EXECUTION, _OF_EXECUTION),
    "delivery": ("delivery", _GIVEN_ID, _OF_GIVEN),
    "operation": ("operation", _GIVEN_ID, _OF_GIVEN),
    "key": ("key_id", _GIVEN_ID, _OF_GIVEN),
    "calendar": ("name", SERVICE_NAME, _OF_NAME),
    "secret": ("name", OF_SECRETS, _LIKE_A_VARIABLE),
    "lease": ("lease", _GIVEN_ID, _OF_GIVEN),
    "queue": ("name", SERVICE_NAME, _OF_NAME),
    "service": ("name", SERVICE_NAME, _OF_NAME),
    "instance": ("instance_id", INSTANCE_ID, FORM_OF_ID),
}
"""Of each kind: the argument that names one, its pattern, and the pattern in words."""
_PATTERNS = {kind: re.compile(pattern[1:-1]) for kind, (_, pattern, _) in FORMS.items()}
LONGEST_SHOWN = 140


def quote_name(kind: str, name: object) -> str:
    """`name` as a segment of a path; `kind` is one of FORMS.

    Raises TypeError if it is no text, ValueError if nothing of this kind can have it.
    """
    argument = FORMS[kind][0]
    if not isinstance(name, str):
        raise TypeError(f"{argument} is of type {type(name).__name__}, not the text that names {_a(kind)}")
    _check(kind, name, argument)
    return quote(name, safe=":")


def check_name(name: object, *, kind: str) -> None:
    """Raises ValueError unless `name` is one of a service or a queue, as `kind` says."""
    _check(kind, name, kind)


def _check(kind: str, name: object, argument: str) -> None:
    if not isinstance(name, str) or _PATTERNS[kind].fullmatch(name) is None:
        shown = name[:LONGEST_SHOWN] if isinstance(name, str) else name
        what = "name" if FORMS[kind][0] == "name" else "id"
        raise ValueError(f"{argument} {shown!r} is no {what} of {_a(kind)}; {FORMS[kind][2]}")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "eio" else f"a {kind}"
