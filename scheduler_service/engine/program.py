"""A compiled definition: what `decide` needs of it, checked once by `engine.compile`; and what it weighs."""

from collections.abc import Callable, Iterator

import msgspec

from client_sdk.models.fields import JitterKind
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.job_key import DEFAULT_TENANT, write_job_key
from scheduler_service.domain.step_parts import QueueOptions
from scheduler_service.domain.tracing import Sampling
from scheduler_service.domain.wire import Headers
from scheduler_service.language.compiled import JsonTemplate, TextTemplate, UrlTemplate
from scheduler_service.language.jsonpath import Path
from scheduler_service.timing.calendar_days import Calendar
from scheduler_service.timing.timer import Timer

USUAL_BYTES = 6_144
"""What any definition or state may take: it is not counted, as the number of jobs is bounded."""
GROUP_BYTES = 16 << 20
"""What definitions that are compiled at once may weigh: 16 MiB of brackets take 350 MiB."""
SHORT_BYTES = 1_024
"""Of a text of so many bytes all marks count alike."""
MARK_BYTES = 80
"""What a mark takes by the figures of `weigh`, on the average of those in a definition with one step."""
_MARKS = b'[{":,'


class Surroundings(msgspec.Struct, frozen=True):
    """The settings of the core; `app` builds them, `compile` binds them to the definition. Times in ms.

    `internal_url`, `external_url`: bases of feedback URLs. `open_executions`: how many a job may have at once
    under `allow`, `params_bytes`: how long the parameters of all of them may be, as each of its turns goes
    through all. `follow`: origins that a whole URL from a
    response may lead to. `queues`: instances can claim here, `topics`: notifications can be published.
    `http_timeout` is both the default and the maximum of a call's time. `judge_target` says why
    no request to the host of an `http(s)` URL is ever let through, or None; without it no host is judged when
    a definition is posted. `unreachable`: a base of feedback URLs that targets on other machines cannot
    reach. `sampling`: which traces are recorded; None: nobody records any. `judge_secret` says why a tenant's
    secret of that name cannot sign, or None; without it no name is judged. `has_secret`: whether a tenant
    has one of that name now; without it that is not known. `find_calendar`: the calendar of a tenant with
    that name as it is now; without it there is none. `is_hidden`: whether the value of the variable of that
    name is shown nowhere; without it all are shown.
    """

    internal_url: str = "http://127.0.0.1:8000"
    external_url: str = "http://127.0.0.1:8000"
    environment: dict[str, str] = {}
    default_zone: str = "UTC"
    http_timeout: int = 60_000
    response_bytes: int = 1 << 20
    follow: frozenset[str] = frozenset()
    gateway: str | None = None
    pending_triggers: int = 1_000
    open_executions: int = 5_000
    params_bytes: int = 4 << 20
    hold_recurring: bool = False
    hold_triggered: bool = False
    tenant: str = DEFAULT_TENANT
    queues: bool = True
    topics: bool = False
    judge_target: Callable[[str], str | None] | None = None
    unreachable: str | None = None
    sampling: Sampling | None = None
    judge_secret: Callable[[str, str], str | None] | None = None
    has_secret: Callable[[str, str], bool] | None = None
    find_calendar: Callable[[str, str], Calendar | None] | None = None
    is_hidden: Callable[[str], bool] | None = None


class Policy(msgspec.Struct, frozen=True):
    """One retry policy (SPEC section 6). Waits in ms; `ceiling` None: no limit."""

    errors: frozenset[str]
    interval: int = 1_000
    attempts: int = 2
    rate: float = 2.0
    ceiling: int | None = None
    jitter: JitterKind = "none"


class Prerendered(msgspec.Struct, frozen=True):
    """URL and headers of a target that has no template in either: the same in every request."""

    url: str
    headers: Headers
    brings_key: bool


class AnswerRule(msgspec.Struct, frozen=True):
    """What the body of an answer says: `successWhen`, `errorFrom` and `messageFrom` (SPEC section 4)."""

    condition: Path | None = None
    error: Path | None = None
    message: Path | None = None


class Target(msgspec.Struct, frozen=True, gc=False):
    """What a step, a check, a notification and cancelUrl have in common. `timeout` in ms.

    `inside`: the target is a service, so that feedback URLs take their internal form. `fixed`: its URL and
    headers if they are constant. `variables` and `members`: the system variables and the members of the root
    that its templates name, `secrets` the secrets. `has_own_limit`: `timeout` is its own, not that of the
    setting. `refused`: why no request of it can be made as settings are now, though it was accepted; empty:
    it can. `sign`: the secret that signs its requests; empty: none. `rule`: how the bodies of its answers
    count; None: they do not.
    """

    method: str
    url: UrlTemplate
    headers: tuple[tuple[str, TextTemplate], ...] = ()
    body: JsonTemplate | None = None
    service_name: TextTemplate | None = None
    inside: bool = False
    timeout: int = 60_000
    redirects: int = 0
    fixed: Prerendered | None = None
    variables: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    has_own_limit: bool = False
    refused: str = ""
    sign: str = ""
    rule: AnswerRule | None = None


class Routing(msgspec.Struct, frozen=True):
    """How a step finds its instance; `route` None: as the service is set (SPEC section 13)."""

    route: str | None = None
    tags: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, gc=False):
    """One step of the chain. `success` holds codes and classes as ranges of statuses.

    `keeps`: a later template may read its response; `needed`: a later step or the check may.
    `per_attempt`: the Idempotency-Key contains the attempt, because the step's own templates do.
    `dispatch`: it goes to instances of a service, or into a queue; None: it is sent directly.
    """

    index: int
    target: Target
    resp_env_name: str | None = None
    success: tuple[tuple[int, int], ...] = ((200, 299),)
    from_step: bool = False
    keeps: bool = False
    needed: bool = False
    per_attempt: bool = False
    dispatch: Routing | QueueOptions | None = None


class Notification(msgspec.Struct, frozen=True):
    """One entry of `notification`. `keys` empty: every event. `robot` names the alert of a chat robot."""

    target: Target
    name: str = ""
    keys: frozenset[str] = frozenset()
    on_change: bool = False
    outbox: bool = False
    robot: str = ""


class Targets(msgspec.Struct, frozen=True):
    """All requests of one definition; `check` only if the job is asynchronous."""

    steps: tuple[Step, ...]
    check: Target | None
    cancel: Target | None
    notifications: tuple[Notification, ...]


class Program(msgspec.Struct, frozen=True, gc=False):
    """A whole definition, ready to run. Times in ms; `fingerprint` is equal for equal definitions.

    `short_bytes`: where an execution has more of parameters and responses, rendering its requests takes long;
    negative: it always does. `pause_after`: so many failures in a row pause the job. `keeps_result`: what
    an execution that succeeds was answered last is kept whole. `secrets`: the names of
    all that its requests have, `signs` of those that sign them. `problems`: what of a stored definition can
    not be done as settings are now.
    """

    job_id: str
    surroundings: Surroundings
    fingerprint: bytes
    timer: Timer
    steps: tuple[Step, ...]
    check: Target | None
    cancel: Target | None
    notifications: tuple[Notification, ...]
    policies: tuple[Policy, ...]
    max_retries: int
    asynchronous: bool
    check_rate: int
    timeout: int
    qos: int
    max_concurrency: int
    overlap: str
    queue_limit: int
    lead: int
    starts_paused: bool
    active: bool
    disabled: bool
    pause_after: int | None
    keeps_result: bool
    job_name: str
    object_id: str | None
    creator: str
    labels: dict[str, str]
    parent_job: str | None
    parent_execution: int | None
    history_detail: str | None
    params_schema: object
    system: bool
    short_bytes: int
    secrets: tuple[str, ...]
    signs: frozenset[str]
    problems: tuple[Problem, ...] = ()

    @property
    def key(self) -> str:
        """The key of the job in its tenant."""
        return write_job_key(self.surroundings.tenant, self.job_id)


def targets_of(requests: Targets | Program) -> Iterator[tuple[str, Target]]:
    """Each request of a definition with its pointer, those of the steps first."""
    for step in requests.steps:
        yield f"/request/{step.index}", step.target
    if requests.check is not None:
        yield "/checkUrl", requests.check
    if requests.cancel is not None:
        yield "/cancelUrl", requests.cancel
    for index, entry in enumerate(requests.notifications):
        yield f"/notification/{index}", entry.target


def weigh(text: bytes) -> int:
    """About how many bytes more than the usual a definition takes once it is compiled, by its JSON.

    The figures are those of `tracemalloc`: a header takes 600 bytes, an empty list 64, an item that is a text
    80. What comes out is at most three times of what there is, or a third of it; of a short text that is a
    list of numbers, ten times.
    """
    if len(text) <= SHORT_BYTES:  # in one pass: each creation comes here
        marks = len(text) - len(text.translate(None, _MARKS))
        return max(2 * len(text) + MARK_BYTES * marks - USUAL_BYTES, 0)
    brackets = text.count(b"[") + text.count(b"{")
    strings = 40 * text.count(b'"') + 300 * text.count(b":") + 16 * text.count(b",")
    return max(2 * len(text) + 60 * brackets + strings - USUAL_BYTES, 0)
