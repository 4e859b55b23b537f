"""Acts: what callers and the service itself change, who does it and from where (SPEC section 14)."""

from enum import StrEnum
from unicodedata import category, normalize

import msgspec


class Via(StrEnum):
    """The way on which a change came."""

    API = "api"  # a request of a caller
    SYSTEM = "system"  # the service itself
    COMMAND = "command"  # a command on the data folder, without a server


class ActOutcome(StrEnum):
    """What became of a change. One that stays `asked` was under way when its process died."""

    ASKED = "asked"
    DONE = "done"
    REFUSED = "refused"  # nothing was changed
    UNKNOWN = "unknown"  # the store did not say whether it has the change


class ActKind(StrEnum):
    """What was changed."""

    JOB = "job"
    EXECUTION = "execution"
    JOBS = "jobs"  # several at once: the entry lists them
    SERVICE = "service"
    QUEUE = "queue"
    DELIVERY = "delivery"
    OPERATION = "operation"
    CALENDAR = "calendar"
    SESSION = "session"
    HISTORY = "history"
    NODE = "node"
    KEY = "key"
    SECRET = "secret"  # noqa: S105 - a word


SYSTEM = "system"
"""Who does what the service does by itself; nobody else is called so."""

START_KEY = "admin"
"""The name of the key in the settings."""


class OwnAct(StrEnum):
    """What is audited beside operations of the API: of the service, and of commands on the data folder."""

    START = "start"
    CHECK_TIMERS = "check-timers"
    PAUSE_OF_GONE = "pauseOfGone"  # a pause of a job by what became of an execution, as the next
    PAUSE_OF_FAILURES = "pauseAfterFailures"
    REPAIR = "repair"
    RESTORE = "restore"


def name_in_audit(name: str, *, is_start_key: bool = False) -> str:
    """A caller's name as the audit shows it: one that reads as somebody else's is marked."""
    return name if is_start_key or not is_reserved_name(name) else f"{name} (a caller)"


def is_reserved_name(name: str) -> bool:
    """Whether a name reads as that of the service itself, of its scan of declarations or of the start key."""
    return fold_name(name) in (SYSTEM, OwnAct.CHECK_TIMERS, START_KEY)


def fold_name(name: str) -> str:
    """A name as people read it: names that differ by case, width, or what has no width fold alike."""
    folded = normalize("NFKC", name).casefold()
    return " ".join("".join(letter for letter in folded if category(letter) != "Cf").split())


class Act(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Who changes something, by which operation.

    `operation` is the operation's name in the API, or an `OwnAct`. `who` is the name of the
    caller's key, or of the user of the machine. `detail` is a JSON object: what was given, and the
    difference, both masked. `execute_number`: the execution that is meant, where it is known before the turn.
    `service`: the one for which it is done.
    """

    operation: str
    who: str
    via: Via = Via.API
    key_id: str = ""
    address: str = ""
    detail: bytes = b""
    execute_number: int | None = None
    service: str = ""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit. `at` is wall ms; `status` that of the answer, None: there is none.

    `items` are the ids of the things, where one request changed several.
    """

    entry_id: str
    tenant: str
    at: int
    act: Act
    kind: ActKind
    subject: str
    job_id: str = ""
    outcome: ActOutcome = ActOutcome.ASKED
    status: int | None = None
    items: tuple[str, ...] = ()


def act_of_system(operation: OwnAct, *, service: str = "", **given: str) -> Act:
    """What the service does by itself; `given`: what of several things it does."""
    detail = msgspec.json.encode({"given": given}) if given else b""
    return Act(operation.value, SYSTEM, Via.SYSTEM, detail=detail, service=service)
