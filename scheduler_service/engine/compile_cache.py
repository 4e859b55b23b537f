"""Reuses compiled definitions: many differ in names, timers and constant bodies only.

The cache keeps the program of a compiled definition under its shape: all its members byte by byte, except
those that can be checked on their own (`jobId`, the texts in `compile.OWN`, the timer, bodies without
templates). Of the timer the shape has whether it starts executions: warnings of other members depend on it.
A definition of a cached shape gets exactly the program and the warnings that compiling it would give. Any
other definition, and any doubtful one, goes to the compiler, which also reports what is wrong with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError

from client_sdk.models import JOB_ID_FORM, JobDefinition, ModelError, parse_model
from client_sdk.models import Timer as TimerModel
from client_sdk.models.definition import PlainLabel
from client_sdk.models.fields import FilledName, Lines, PlainText, Text
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.job_key import DEFAULT_TENANT, SYSTEM_IDS, TRIALS
from scheduler_service.engine.compile import (
    Compiled,
    below_timer,
    bind_timer,
    compile_posted_timer,
    digest_timer,
    encode_sorted,
    join,
)
from scheduler_service.engine.definition_checks import find_too_long
from scheduler_service.engine.program import Program, Step
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.json_scan import NO_COLONS, find_repeated_name
from scheduler_service.language.json_values import as_json
from scheduler_service.language.template import constant_json
from scheduler_service.timing.schedule import warnings_at
from scheduler_service.timing.timer import Timer, TimerKind

Members = Mapping[str, msgspec.Raw]
Key = tuple[object, ...]
Value = TypeVar("Value")

OUTSIDE_SHAPE = frozenset({"jobId", "timer", "jobName", "jobDescription", "objectId", "labels"})
SHAPES_MAX, TIMERS_MAX = 256, 4_096
BYTES_MAX = 16_384
"""A longer definition or timer is not cached."""
KEPT_BYTES = 1 << 20
"""All cached shapes, and all cached timers, have so many at most; compiled they take up to sixty times it."""
LOOKED_UP_MAX = 32_768
"""A definition longer than this is not looked up either: it is compiled beside the loop."""
BRACKETS_MAX = 60
"""An object with at most this many brackets is never nested too deep."""

SERVICE_OPTIONS = b'"serviceOptions"'

_NULL = b"null"
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STEPS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()
_UNREADABLE = (
    KeyError, RecursionError, UnicodeDecodeError, msgspec.DecodeError, ModelError, DefinitionError,
    ValidationError,
)  # fmt: skip


def read_members(text: bytes) -> dict[str, msgspec.Raw] | None:
    """The undecoded members of a JSON object (the last one of a repeated name); None: it is not an object."""
    try:
        return _MEMBERS.decode(text)
    except (RecursionError, UnicodeDecodeError, msgspec.DecodeError):
        return None


def with_service_options(text: bytes, options: bytes) -> bytes:
    """The definition with the options of its service, a JSON object; empty: with none of them."""
    if not options and SERVICE_OPTIONS not in text:
        return text
    members = read_members(text)
    if members is None:
        return text
    members.pop("serviceOptions", None)
    if options:
        members["serviceOptions"] = msgspec.Raw(options)
    return msgspec.json.encode(members)


def read_options(text: bytes) -> object:
    """What a definition has of its service's options; None: nothing."""
    return _ANY.decode((read_members(text) or {}).get("serviceOptions", _NULL))


def read_active(text: bytes) -> bool:
    """`active` of a definition that was accepted; True where it does not say."""
    return bool(_ANY.decode((read_members(text) or {}).get("active", b"true")))


def posted_active(definition: JobDefinition) -> bool | None:
    """`active` if it was posted, else None."""
    return definition.active if "active" in definition.model_fields_set else None


class CachedDefinition(msgspec.Struct, frozen=True, gc=False):
    """What compiling a definition gives. `active` None: it was not posted."""

    program: Program
    warnings: tuple[Problem, ...]
    active: bool | None


class CompileCache:
    """The shapes compiled last, at most 256; `default_zone` is the zone of timers that name none."""

    def __init__(self, *, default_zone: str) -> None:
        self._zone = default_zone
        self._shapes: _Recent[_CachedShape] = _Recent(SHAPES_MAX)
        self._timers: _Recent[_CachedTimer] = _Recent(TIMERS_MAX)
        self._own = OwnMembers()

    def find(
        self, members: Members, tenant: str = DEFAULT_TENANT, *, colons: int | None = None
    ) -> CachedDefinition | None:
        """The definition of a tenant with these members, compiled; None: it must be compiled.

        `colons`: as `count_colons` has them; then it is found only where no name of its text is given twice.
        """
        try:
            posted, timer = _split(members, tenant), self._timer(bytes(members.get("timer", _NULL)))
            shape = self._shapes.get((timer.has_firings, posted.key))
            return None if shape is None else self._fill(shape, posted, timer, members, colons)
        except _UNREADABLE:
            return None

    def add(
        self, members: Members, compiled: Compiled, *, active: bool | None, colons: int | None = None
    ) -> None:
        """Caches the shape of a compiled definition, unless it is a trial's; `active` as it was posted.

        `colons`, as for `find`: no name of its text is given twice.
        """
        if compiled.program.parent_job == TRIALS:  # who posts such a one is refused, wherever it is looked up
            return
        try:
            posted = _split(members, compiled.program.surroundings.tenant)
            timer = self._timer(bytes(members.get("timer", _NULL)))
            rest = encode_sorted((self._own.read(members), _read_bodies(posted)))
            own = len(members) + _TEXT.decode(members["jobId"]).count(":") + timer.colons + rest.count(b":")
        except _UNREADABLE:
            return
        size = _size(posted.key) + _size(posted.bodies)
        if size > BYTES_MAX:
            return
        program = compiled.program
        warnings = compiled.warnings[len(program.timer.warnings) :]
        shape = _CachedShape(program, warnings, active, compiled.shape, posted.bodies)
        if colons is not None and colons >= 0:
            shape = msgspec.structs.replace(shape, colons=colons - own)
        self._shapes.put((timer.has_firings, posted.key), shape, size)

    def timer(self, raw: bytes) -> Timer:
        """The timer of a stored definition, compiled; `raw` is its member `timer` as posted, or `null`.

        Without the days of its calendar. Raises DefinitionError, ModelError or msgspec.DecodeError where it
        is not a timer any more.
        """
        return self._timer(raw).timer

    def _fill(
        self,
        shape: "_CachedShape",
        posted: "_SplitDefinition",
        timer: "_CachedTimer",
        members: Members,
        colons: int | None,
    ) -> CachedDefinition | None:
        job_id = _TEXT.decode(members["jobId"])
        if JOB_ID_FORM.fullmatch(job_id) is None or job_id in SYSTEM_IDS:
            return None
        own, bodies = self._own.read(members), _read_bodies(posted)
        rest = encode_sorted((own, bodies))
        if colons is not None:
            colons -= len(members) + job_id.count(":") + timer.colons + rest.count(b":")
            if colons != shape.colons:
                return None
        program = msgspec.structs.replace(
            shape.program,
            job_id=job_id,
            fingerprint=join(shape.digest, timer.digest, rest),
            timer=bind_timer(timer.timer, shape.program.surroundings),
            steps=_fill_steps(shape, posted, bodies),
            job_name=own["jobName"],
            object_id=own["objectId"],
            labels=own["labels"],
        )
        return CachedDefinition(program, (*timer.warnings, *shape.warnings), shape.active)

    def _timer(self, raw: bytes) -> "_CachedTimer":
        cached = self._timers.get(raw)
        if cached is not None:
            return cached
        value = _ANY.decode(raw)
        model = None if value is None else parse_model(TimerModel, value)
        timer = compile_posted_timer(model, default_zone=self._zone)
        held = value.encode() if isinstance(value, str) else b"null"
        colons = NO_COLONS if find_repeated_name(held) else as_json(value).count(b":")
        has_firings = timer.kind is not TimerKind.EXTERNAL
        warnings = tuple(below_timer(timer.warnings))
        cached = _CachedTimer(timer, warnings, digest_timer(model), colons, has_firings)
        if len(raw) <= BYTES_MAX:
            self._timers.put(raw, cached, len(raw))
        return cached


class OwnMembers:
    """Reads the members that `compile.OWN` names by the rules of the model, those of the last one once.

    In an array they are often the same, and reading them is an eighth of a creation from the cache.
    """

    def __init__(self) -> None:
        strict = ConfigDict(strict=True)
        self._filled = TypeAdapter[str](FilledName, config=strict).validator.validate_python
        self._text = TypeAdapter[str](Text, config=strict).validator.validate_python
        self._lines = TypeAdapter[str](Lines, config=strict).validator.validate_python
        self._labels = TypeAdapter[dict[str, str]](dict[PlainLabel, PlainText], config=strict).validator
        self._key: tuple[msgspec.Raw | None, ...] = ()
        self._latest: Mapping[str, Any] = {}

    def read(self, members: Mapping[str, msgspec.Raw]) -> Mapping[str, Any]:
        """By name; not to be changed.

        Raises KeyError, msgspec.DecodeError, pydantic.ValidationError, and DefinitionError for what
        `definition_checks` refuses.
        """
        get = members.get
        key = get("jobName"), get("jobDescription"), get("objectId"), get("labels")
        if key != self._key:
            self._latest = self._read(members)
            # Copies: what is not decoded yet holds the whole text of its definition.
            self._key = tuple(None if one is None else one.copy() for one in key)
        return self._latest

    def _read(self, members: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        posted = _read_any(members, "labels")
        labels = {} if posted is None else self._labels.validate_python(posted)
        name = self._filled(_TEXT.decode(members["jobName"]))
        if refused := tuple(find_too_long(name, labels)):
            raise DefinitionError(refused)
        return {
            "jobName": name,
            "jobDescription": self._read_text(members, "jobDescription", self._lines),
            "objectId": self._read_text(members, "objectId", self._text),
            "labels": labels,
        }

    def _read_text(
        self, members: Mapping[str, msgspec.Raw], name: str, check: Callable[[Any], str]
    ) -> object:
        value = _read_any(members, name)
        return None if value is None else check(value)


def _read_any(members: Mapping[str, msgspec.Raw], name: str) -> object:
    return _ANY.decode(members[name]) if name in members else None


class _CachedShape(msgspec.Struct, frozen=True):
    """`program` and `bodies` are those of the definition that was compiled.

    `colons`: those of its text that all texts of the shape have, unless a name is given twice; None: unknown.
    """

    program: Program
    warnings: tuple[Problem, ...]
    active: bool | None
    digest: bytes
    bodies: tuple[bytes | None, ...]
    colons: int | None = None


class _CachedTimer(msgspec.Struct, frozen=True):
    """`colons` of its value, written anew with each name once; of a text with a name twice none that fits."""

    timer: Timer
    warnings: tuple[Problem, ...]
    digest: bytes
    colons: int
    has_firings: bool


class _SplitDefinition(msgspec.Struct, frozen=True, gc=False):
    """A definition split into `key`, tenant and shape, and the body of each step."""

    key: Key
    bodies: tuple[bytes | None, ...]


class _Recent(Generic[Value]):
    """At most `most` values, of KEPT_BYTES together; the oldest one is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._values: dict[object, tuple[Value, int]] = {}

    def get(self, key: object) -> Value | None:
        kept = self._values.get(key)
        return None if kept is None else kept[0]

    def put(self, key: object, value: Value, size: int) -> None:
        known = self._values.get(key)
        self._values[key] = value, size
        self._bytes += size if known is None else size - known[1]
        while len(self._values) > self._most or self._bytes > KEPT_BYTES:
            self._bytes -= self._values.pop(next(iter(self._values)))[1]


def _split(members: Members, tenant: str) -> _SplitDefinition:
    """Raises msgspec.DecodeError if it is not a definition, RecursionError if it may be nested too deep."""
    whole = b"".join(members.values())
    if len(whole) > LOOKED_UP_MAX or whole.count(b"[") + whole.count(b"{") > BRACKETS_MAX:
        raise RecursionError
    key: list[object] = [tenant]
    bodies: list[bytes | None] = []
    for name, member in members.items():
        if name == "request":
            # In a tuple of its own: a member after the request must not look like one of its last step.
            key.append(_split_steps(member, bodies))
        elif name not in OUTSIDE_SHAPE:
            key += (name, bytes(member))
    return _SplitDefinition(tuple(key), tuple(bodies))


def _split_steps(request: msgspec.Raw, bodies: list[bytes | None]) -> Key:
    key: list[object] = []
    for step in _STEPS.decode(request):
        found = step.pop("body", None)
        body = None if found is None else bytes(found)
        bodies.append(body)
        # Each step begins with None (no body), True (a constant body) or the body with its templates.
        key.append(body if body is None or not _is_constant(body) else True)
        for name, member in step.items():
            key += (name, bytes(member))
    return tuple(key)


def _read_bodies(posted: _SplitDefinition) -> list[list[Any]]:
    return [[] if raw is None else [decode_json(raw)] for raw in posted.bodies]


def _size(key: Sequence[object]) -> int:
    """The length in bytes, names not counted."""
    return sum(
        _size(part) if isinstance(part, tuple) else len(part)
        for part in key
        if isinstance(part, bytes | tuple)
    )


def _is_constant(body: bytes) -> bool:
    """Whether no string in it contains a template, ours or another tool's, plainly or with an escape."""
    return b"${" not in body and b"\\u" not in body and b"{{" not in body and b"{%" not in body


def _fill_steps(shape: _CachedShape, posted: _SplitDefinition, bodies: list[list[Any]]) -> tuple[Step, ...]:
    """The steps with the bodies of this definition; equal steps are shared."""
    steps = shape.program.steps
    if posted.bodies == shape.bodies:
        return steps
    filled = list(steps)
    for index, body in enumerate(bodies):
        if body and posted.bodies[index] != shape.bodies[index]:
            filled[index] = _with_body(steps[index], body[0])
    return tuple(filled)


def _with_body(step: Step, body: object) -> Step:
    target = msgspec.structs.replace(step.target, body=constant_json(body))
    return msgspec.structs.replace(step, target=target)


class BatchLookup:
    """Looks up definitions of `tenant` in `cache` as of `now` (wall ms).

    Each timer's warnings are computed once.
    """

    def __init__(self, *, cache: CompileCache, now: int, tenant: str = DEFAULT_TENANT) -> None:
        self._cache = cache
        self._tenant = tenant
        self._now = now
        # By identity: definitions with one timer share it, and comparing it costs more than its warnings.
        self._warnings: dict[int, tuple[Timer, tuple[Problem, ...]]] = {}

    def find(self, members: Members, colons: int) -> CachedDefinition | None:
        """As `CompileCache.find`, with all warnings."""
        found = self._cache.find(members, self._tenant, colons=colons)
        return None if found is None else self.complete(found)

    def complete(self, found: CachedDefinition) -> CachedDefinition:
        """`found`, which was compiled without a moment, with the warnings that need one."""
        late = self._warn(found.program.timer)
        return msgspec.structs.replace(found, warnings=(*found.warnings, *late)) if late else found

    def _warn(self, timer: Timer) -> tuple[Problem, ...]:
        known = self._warnings.get(id(timer))
        if known is None:
            known = self._warnings[id(timer)] = (timer, tuple(below_timer(warnings_at(timer, self._now))))
        return known[1]
