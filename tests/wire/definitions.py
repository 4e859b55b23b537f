"""Definitions by chance: such that should hold, such that are a little off, and such that are nothing."""

import copy
from typing import Any

from hypothesis import strategies as st

CODES = st.sampled_from(["500", "404", "4xx", "5xx", "*", "timeout", "error1", "check", "template"])
SECONDS = st.one_of(st.integers(0, 5), st.floats(0, 1e9), st.just(1_000_000_000))
# Names take neither control characters nor those that turn the direction.
UNSHOWN = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TEXT = st.text(st.characters(exclude_characters="$" + UNSHOWN, exclude_categories=("Cs", "Cc")), max_size=20)
FILLED = TEXT.filter(lambda text: bool(text.strip()))
TEMPLATES = st.one_of(
    TEXT,
    st.sampled_from(
        [
            "${schedulingJobId}",
            "a${schedulingExecuteNumber}b${schedulingFireTime}",
            "${$.a.b[0]}",
            "${$.responses}|json",
            "${responses[0].a}",
            "${trigger.n}|json",
            "$${not}",
            "${jobId}",
            "${$..*}|json",
            "${$[?match(@.a, 'x.*')]}|json",
            "",
        ]
    ),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, width=32)
    | TEMPLATES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PLACES = st.sampled_from(["", "/", "/run", "/a/${schedulingJobId}?n=${schedulingExecuteNumber}", "/ü?q=a b"])
BASES = st.sampled_from(["service://jobswork", "service://jobsclient", "http://127.0.0.1:9"])
URLS = st.builds(lambda base, place: base + place, BASES, PLACES)
HEADERS = st.dictionaries(
    st.sampled_from(["X-One", "X-Two", "Accept", "Cookie", "Content-Type"]),
    st.sampled_from(["application/json", "a b", "ü", "${schedulingJobId}", "text/plain; charset=utf-8"]),
    max_size=2,
)
PERIODS = st.sampled_from(
    [
        *("0s", "5m", "1d2h0m2s", "500ms", "R4/PT3S", "PT2H30M", "P1M", "external", "", "@daily"),
        *("0 0/5 * * * ?", "5 4 * * 1-5", "0 0 12 L * ?", "0 15 10 ? * 6#3", "1 0 9 1 10 ? 2023"),
        "0 0 0 29 2 ? *",
    ]
)
MOMENTS = st.sampled_from(
    ["0s", "2s", "1h", "", "2023-10-01 09:00:01", "2027-10-1 09:00:01", "2027-03-28T02:30:00+02:00", "P1DT1H"]
)


def optional(members: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of `members`."""
    return st.fixed_dictionaries({}, optional=members)


TIMERS = optional(
    {
        "dueTime": MOMENTS,
        "period": PERIODS,
        "ttl": st.sampled_from(["5d3s", "1h", "2027-01-01 00:00:00"]),
        "timezone": st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "America/St_Johns"]),
        "startAt": st.sampled_from(["2026-06-01 00:00:00", "1h"]),
        "endAt": st.sampled_from(["2028-01-01T00:00:00Z"]),
        "misfire": optional(
            {
                "policy": st.sampled_from(["fire_once", "skip", "fire_all"]),
                "graceSeconds": SECONDS,
                "limit": st.integers(1, 1_000),
            }
        ),
        "jitterSeconds": SECONDS,
    }
)
STEPS = st.builds(
    lambda url, rest: {"url": url, **rest},
    URLS,
    optional(
        {
            "method": st.sampled_from(["GET", "POST", "put", "DELETE", "PATCH", "HEAD"]),
            "headers": HEADERS,
            "body": JSON,
            "successCodes": st.lists(st.sampled_from(["2xx", "3XX", 404, 500]), min_size=1, max_size=3),
            "followRedirects": st.integers(0, 5),
            "retryFrom": st.sampled_from(["chain", "step"]),
            "timeoutSeconds": st.floats(0.1, 60),
        }
    ),
)
NOTIFICATIONS = st.builds(
    lambda url, rest: {"url": url, **rest},
    URLS,
    optional(
        {
            "name": TEXT,
            "method": st.sampled_from(["GET", "POST"]),
            "headers": HEADERS,
            "body": st.sampled_from(["${schedulingNotifyBody}|json", {"a": "${schedulingJobId}"}, None]),
            "stateEquals": st.one_of(CODES, st.lists(CODES, max_size=3)),
            "dedupe": st.sampled_from(["none", "onChange"]),
            "guarantee": st.sampled_from(["none", "outbox"]),
        }
    ),
)
POLICIES = st.builds(
    lambda codes, rest: {"errorEquals": codes, **rest},
    CODES | st.lists(CODES, min_size=1, max_size=2),
    optional(
        {
            "intervalSeconds": SECONDS,
            "maxAttempts": st.integers(0, 10),
            "backoffRate": st.floats(1, 10),
            "maxIntervalSeconds": SECONDS,
            "jitter": st.sampled_from(["none", "full"]),
        }
    ),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "creator": FILLED,
    "creatorName": FILLED,
    "objectId": TEXT,
    "jobDescription": TEXT,
    "notification": st.lists(NOTIFICATIONS, max_size=3),
    "active": st.sampled_from([0, 1, True, False]),
    "timer": TIMERS,
    "async": st.booleans(),
    "checkUrl": st.builds(lambda url, headers: {"url": url, "headers": headers}, URLS, HEADERS) | URLS,
    "checkRateSeconds": st.floats(0.1, 100),
    "timeoutSeconds": st.floats(0.01, 1e9),
    "cancelUrl": STEPS,
    "retry": st.lists(POLICIES, max_size=4),
    "maxRetries": st.integers(0, 100),
    "qos": st.sampled_from([0, 1]),
    "parentJob": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,20}", fullmatch=True),
    "parentJobExecution": st.integers(0, 1_000),
    "maxConcurrency": st.integers(1, 100),
    "overlapPolicy": st.sampled_from(["skip", "queue", "cancel_running", "allow"]),
    "queueLimit": st.integers(0, 1_000),
    "leadSeconds": st.floats(0, 60),
    "startPolicy": st.sampled_from(["auto", "manual"]),
    "disabled": st.booleans(),
    "historyDetail": st.sampled_from(["all", "failures", "none"]),
    "labels": st.dictionaries(FILLED.filter(lambda name: ":" not in name), TEXT, max_size=3),
    "paramsSchema": st.sampled_from([True, {"type": "object"}, {"properties": {"n": {"type": "integer"}}}]),
}
DEFINITIONS = st.builds(
    lambda base, rest: {**base, **rest},
    st.fixed_dictionaries(
        {
            "jobName": FILLED,
            "request": st.lists(STEPS, min_size=1, max_size=3),
        }
    ),
    optional(FIELDS),
)
JUNK = st.one_of(
    JSON,
    st.sampled_from(
        [
            -1,
            0,
            1e308,
            -0.0,
            2**63,
            2**64,
            10**30,
            "",
            " ",
            "\x00",
            "${",
            "${}",
            "${$.[}",
            "${a}|json${b}|json",
        ]
    ),
    st.sampled_from(
        ["system://clean", "http://u:p@t.test/", "file:///etc/passwd", "http://[", "javascript:1"]
    ),
    st.sampled_from(
        ["R0/PT1S", "61 * * * * ?", "0 0 0 30 2 ?", "9999999d", "PT", "1s1s", "2023-13-01 00:00:00"]
    ),
    st.sampled_from([[], {}, [[]], {"": {}}, {"$ref": "#"}, {"type": 7}, "Mars/Phobos", "x" * 5_000]),
).map(copy.deepcopy)  # what is drawn is changed afterwards, and must not be in two places


def paths_of(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every member and item."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, item in inner:
        found += [(*before, key), *paths_of(item, (*before, key))]
    return found


@st.composite
def near_definitions(draw: st.DrawFn) -> Any:
    """A definition of which one to three places are something else, missing, or too many."""
    value = copy.deepcopy(draw(DEFINITIONS))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths_of(value)))
        place = value
        for key in path[:-1]:
            place = place[key]
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "replace":
                place[path[-1]] = draw(JUNK)
            case "remove":
                del place[path[-1]]
            case _ if isinstance(place, dict):
                place[draw(st.sampled_from(["jobId", "period", "typo", "a/b~c", "", "async"]))] = draw(JUNK)
            case _:
                place.append(draw(JUNK))
        if not value:
            break
    return value
