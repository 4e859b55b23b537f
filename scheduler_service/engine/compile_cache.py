"""Compiles once what many definitions share: they differ in names, moments and constant bodies alone.

A mould is what was compiled of one definition. Another one fits it when all its members are equal byte by
byte, but for those that can be checked for themselves: `jobId`, the texts of its own (`fingerprint.OWN`),
the timer, and bodies without templates. What fits becomes what compiling it would give; what does not fit,
or is doubtful in any way, is left to the compiler, which also says what is wrong with it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError

from client_sdk.models import JOB_ID_FORM, JobDefinition, ModelError, parse_model
from client_sdk.models import Timer as TimerModel
from client_sdk.models.definition import LabelName
from client_sdk.models.fields import FilledText, Text
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.engine.compile import RESERVED_IDS, Compiled, below_timer, compile_posted_timer
from scheduler_service.engine.fingerprint import digest_timer, join
from scheduler_service.engine.program import Program, Step
from scheduler_service.language.template import constant_json
from scheduler_service.timing.firings import warnings_at
from scheduler_service.timing.timer import Timer

Members = Mapping[str, msgspec.Raw]
Key = tuple[object, ...]
Value = TypeVar("Value")

APART = frozenset({"jobId", "timer", "jobName", "jobDescription", "objectId", "labels"})
MOULDS, TIMERS = 256, 4_096
LARGEST = 16_384
"""In bytes: what is longer is not kept, so that the moulds stay small."""
MOST_BRACKETS = 60
"""An object with so few brackets is not nested too deep, wherever it stands."""

_NULL = b"null"
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STEPS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()
_DOUBTS = (
    KeyError, RecursionError, UnicodeDecodeError, msgspec.DecodeError, ModelError, DefinitionError,
    ValidationError,
)  # fmt: skip


def read_members(text: bytes) -> dict[str, msgspec.Raw] | None:
    """The members of a JSON object, not read yet; None: it is none. Where a name is given twice, the last."""
    try:
        return _MEMBERS.decode(text)
    except (RecursionError, UnicodeDecodeError, msgspec.DecodeError):
        return None


def posted_active(definition: JobDefinition) -> bool | None:
    """`active` where it was posted, else None."""
    return definition.active if "active" in definition.model_fields_set else None


class CachedDefinition(msgspec.Struct, frozen=True, gc=False):
    """A definition that fitted: what compiling it gives. `active` None: that was not posted."""

    program: Program
    warnings: tuple[Problem, ...]
    active: bool | None


class CompileCache:
    """The moulds of the definitions compiled last, a bounded number; `default_zone` is their timers'."""

    def __init__(self, *, default_zone: str) -> None:
        self._zone = default_zone
        self._moulds: _Recent[_CachedShape] = _Recent(MOULDS)
        self._moments: _Recent[_Moment] = _Recent(TIMERS)
        strict = ConfigDict(strict=True)
        self._filled = TypeAdapter[str](FilledText, config=strict).validator.validate_python
        self._text = TypeAdapter[str](Text, config=strict).validator.validate_python
        self._labels = TypeAdapter[dict[str, str]](dict[LabelName, Text], config=strict)

    def cast(self, members: Members) -> CachedDefinition | None:
        """The definition with these members, compiled; None: the compiler has to look at it."""
        try:
            pressed = _press(members)
            mould = self._moulds.get(pressed.key)
            return None if mould is None else self._pour(mould, pressed, members)
        except _DOUBTS:
            return None

    def keep(self, members: Members, compiled: Compiled, *, active: bool | None) -> None:
        """Makes a mould of a definition that was compiled; `active` as it was posted."""
        try:
            pressed = _press(members)
        except _DOUBTS:
            return
        if _size(pressed.key) + _size(pressed.bodies) > LARGEST:
            return
        program = compiled.program
        warnings = compiled.warnings[len(program.timer.warnings) :]
        self._moulds.put(pressed.key, _CachedShape(program, warnings, active, compiled.shape, pressed.bodies))

    def _pour(self, mould: "_CachedShape", pressed: "_Pressed", members: Members) -> CachedDefinition | None:
        job_id = _TEXT.decode(members["jobId"])
        if JOB_ID_FORM.fullmatch(job_id) is None or job_id in RESERVED_IDS:
            return None
        moment = self._moment(bytes(members.get("timer", _NULL)))
        own = self._read_own(members)
        bodies = [[] if raw is None else [_ANY.decode(raw)] for raw in pressed.bodies]
        program = msgspec.structs.replace(
            mould.program,
            job_id=job_id,
            fingerprint=join(mould.shape, moment.digest, own, bodies),
            timer=moment.timer,
            steps=_fill(mould, pressed, bodies),
            job_name=own["jobName"],
            object_id=own["objectId"],
            labels=own["labels"],
        )
        return CachedDefinition(program, (*moment.warnings, *mould.warnings), mould.active)

    def _read_own(self, members: Members) -> dict[str, Any]:
        """The members that `fingerprint.OWN` names, by the rules of the model."""
        labels = _read(members, "labels")
        return {
            "jobName": self._filled(_TEXT.decode(members["jobName"])),
            "jobDescription": self._read_text(members, "jobDescription"),
            "objectId": self._read_text(members, "objectId"),
            "labels": {} if labels is None else self._labels.validate_python(labels),
        }

    def _read_text(self, members: Members, name: str) -> object:
        value = _read(members, name)
        return None if value is None else self._text(value)

    def _moment(self, raw: bytes) -> "_Moment":
        known = self._moments.get(raw)
        if known is not None:
            return known
        value = _ANY.decode(raw)
        model = None if value is None else parse_model(TimerModel, value)
        timer = compile_posted_timer(model, default_zone=self._zone)
        moment = _Moment(timer, tuple(below_timer(timer.warnings)), digest_timer(model))
        if len(raw) <= LARGEST:
            self._moments.put(raw, moment)
        return moment


class _CachedShape(msgspec.Struct, frozen=True):
    program: Program
    warnings: tuple[Problem, ...]
    active: bool | None
    shape: bytes
    bodies: tuple[bytes | None, ...]


class _Moment(msgspec.Struct, frozen=True):
    """A timer as many definitions have it."""

    timer: Timer
    warnings: tuple[Problem, ...]
    digest: bytes


class _Pressed(msgspec.Struct, frozen=True, gc=False):
    """What must be equal in another definition, and the body of each step."""

    key: Key
    bodies: tuple[bytes | None, ...]


class _Recent(Generic[Value]):
    """At most `most` values; the one put first goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[object, Value] = {}

    def get(self, key: object) -> Value | None:
        return self._values.get(key)

    def put(self, key: object, value: Value) -> None:
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]


def _press(members: Members) -> _Pressed:
    """Raises msgspec.DecodeError where it is no definition, RecursionError where it may be too deep."""
    whole = b"".join(members.values())
    if whole.count(b"[") + whole.count(b"{") > MOST_BRACKETS:
        raise RecursionError
    key: list[object] = []
    bodies: list[bytes | None] = []
    for name, member in members.items():
        if name == "request":
            # A tuple of its own: what stands beside the request must not pass for a part of its last step.
            key.append(_press_steps(member, bodies))
        elif name not in APART:
            key += (name, bytes(member))
    return _Pressed(tuple(key), tuple(bodies))


def _press_steps(request: msgspec.Raw, bodies: list[bytes | None]) -> Key:
    key: list[object] = []
    for step in _STEPS.decode(request):
        found = step.pop("body", None)
        body = None if found is None else bytes(found)
        bodies.append(body)
        # Each step begins with what is no name: whether it has a body, or a body with templates itself.
        key.append(body if body is None or not _is_constant(body) else True)
        for name, member in step.items():
            key += (name, bytes(member))
    return tuple(key)


def _size(key: Sequence[object]) -> int:
    """In bytes, without names."""
    return sum(
        _size(part) if isinstance(part, tuple) else len(part)
        for part in key
        if isinstance(part, bytes | tuple)
    )


def _is_constant(body: bytes) -> bool:
    """Whether no string in it holds a template, not by way of an escape either."""
    return b"${" not in body and b"\\u" not in body


def _read(members: Members, name: str) -> object:
    return _ANY.decode(members[name]) if name in members else None


def _fill(mould: _CachedShape, pressed: _Pressed, bodies: list[list[Any]]) -> tuple[Step, ...]:
    """The steps with the bodies of this definition; all that is equal is shared."""
    steps = mould.program.steps
    if pressed.bodies == mould.bodies:
        return steps
    filled = list(steps)
    for place, body in enumerate(bodies):
        if body and pressed.bodies[place] != mould.bodies[place]:
            filled[place] = _with_body(steps[place], body[0])
    return tuple(filled)


def _with_body(step: Step, body: object) -> Step:
    target = msgspec.structs.replace(step.target, body=constant_json(body))
    return msgspec.structs.replace(step, target=target)


class BatchLookup:
    """What `moulds` make of definitions at `now` (wall ms), each timer looked at once."""

    def __init__(self, *, moulds: CompileCache, now: int) -> None:
        self._moulds = moulds
        self._now = now
        # By identity: definitions with one timer share it, and comparing it costs more than looking at it.
        self._seen: dict[int, tuple[Timer, tuple[Problem, ...]]] = {}

    def recognize(self, members: Members) -> CachedDefinition | None:
        """As `CompileCache.cast`, with all warnings; None: the compiler has to look at it."""
        cast = self._moulds.cast(members)
        return None if cast is None else self.complete(cast)

    def complete(self, cast: CachedDefinition) -> CachedDefinition:
        """`cast`, which was compiled without a moment, with the warnings that need one."""
        late = self._warn(cast.program.timer)
        return msgspec.structs.replace(cast, warnings=(*cast.warnings, *late)) if late else cast

    def _warn(self, timer: Timer) -> tuple[Problem, ...]:
        seen = self._seen.get(id(timer))
        if seen is None:
            seen = self._seen[id(timer)] = (timer, tuple(below_timer(warnings_at(timer, self._now))))
        return seen[1]
