"""`@job(...)`: a function or class as a declared job (SPEC sections 11, 16)."""

import inspect
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import FunctionType, MethodType
from typing import Any, Generic, Literal, Never, ParamSpec, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from pydantic import BaseModel

from client_sdk.errors import DeclarationError
from client_sdk.models import JOB_ID_FORM, ModelError, Notification, RetryPolicy, Timer, parse_definition
from client_sdk.models.fields import LARGEST
from client_sdk.models.step import DELAY_SECONDS, LEASE_SECONDS, RETRIES, RequestStep
from client_sdk.target.options import check_options, refuse_misplaced, spell_as_member
from client_sdk.target.parameters import Parameters

Provide = Callable[[type[Any]], Any]
"""Makes the object of a class: returns it, an awaitable of it, or a context manager that yields it."""
ENTRIES = ("run", "__call__")
VARIOUS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
P = ParamSpec("P")
R = TypeVar("R")
ON_TRIGGER = {"period": "external"}
TRIGGER = "${trigger}|json"
FEEDBACK_HEADER, SHARD_INDEX_HEADER, SHARD_TOTAL_HEADER = "Feedback-Url", "Shard-Index", "Shard-Total"
SPREAD = frozenset({"broadcast", "shard"})
OWN_STEP = ("body", "step", "queue", "sign", "cancel_url")
NOT_FROM_A_QUEUE = {
    "asynchronous": "work from a queue ends with its completion",
    "sign": "what a worker claims is not signed, as it asks for it",
}
USUAL_SECONDS = 60.0
"""The default of `timeoutSeconds`."""


class JobOptions(TypedDict, total=False):
    """The members of a definition (SPEC section 2) that `@job` takes, in Python's spelling.

    `timer` absent: the job fires when it is triggered. `body`: a template for the function's arguments,
    instead of the trigger's parameters. `queue`: workers claim the work from this pull queue; no instance is
    called, and `timeout_seconds` is by default what `time_for_retries` says. `sign`: the name of the
    scheduler's secret that signs calls. `cancel_url` True: the SDK's own, which stops the function in the
    instance that it reaches (the default of an asynchronous job); else an address or a request. `step`:
    further members of the request step (SPEC sections 4, 13), as `{"route": "shard"}`.
    """

    job_id: str
    job_name: str
    job_description: str
    object_id: str
    creator: str
    creator_name: str
    timer: Timer | Mapping[str, Any]
    asynchronous: bool
    timeout_seconds: float
    retry: Sequence[RetryPolicy | Mapping[str, Any]]
    max_retries: int
    qos: Literal[0, 1]
    max_concurrency: int
    overlap_policy: Literal["skip", "queue", "cancel_running", "allow"]
    queue_limit: int
    lead_seconds: float
    start_policy: Literal["auto", "manual"]
    disabled: bool
    pause_after_failures: int
    keep_result: bool
    history_detail: Literal["all", "failures", "none"]
    labels: Mapping[str, str]
    notification: Sequence[Notification | Mapping[str, Any]]
    params_schema: Mapping[str, Any] | bool
    cancel_url: bool | str | Mapping[str, Any]
    body: Any
    queue: str
    sign: str
    step: Mapping[str, Any]


class Declaration(Generic[P, R]):
    """A function or class with the definition of its job; it can still be called.

    A class does the work in its method `entry`, `run` or `__call__`, whose parameters are those of the job;
    its constructor takes what the application injects. For a function `job_class` is None and `entry` empty.
    Raises DeclarationError for options that do not exist or would have no effect.
    """

    def __init__(self, function: Callable[P, R], options: JobOptions) -> None:
        if not hasattr(function, "__qualname__"):
            text = "a job is a function or a class; write one that calls it"
            raise DeclarationError(f"{function!r} is of type {type(function).__name__}: {text}")
        check_options(function.__qualname__, options, JobOptions.__annotations__)
        self.function = function
        self.options = options
        self.job_class = function if isinstance(function, type) else None
        self.entry = "" if self.job_class is None else find_entry(self.job_class)
        source = function if self.job_class is None else signature_source(self.job_class, self.entry)
        self.parameters = Parameters(source, function.__name__)
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def check_constructor(self, provide: Provide | None) -> None:
        """Raises DeclarationError for a class whose constructor takes what nothing provides."""
        if self.job_class is not None and provide is None:
            check_constructor(self.job_class)

    @property
    def is_asynchronous(self) -> bool:
        """Whether the outcome is reported by feedback."""
        return bool(self.options.get("asynchronous"))

    @property
    def is_blocking(self) -> bool:
        """Whether the function is no coroutine function, and so runs in a thread."""
        function = self.function if self.job_class is None else getattr(self.job_class, self.entry)
        return not inspect.iscoroutinefunction(function)

    @property
    def most_at_once(self) -> float:
        """How many executions may run at once, as far as the declaration says it."""
        is_limited = self.options.get("overlap_policy") != "allow"
        return self.options.get("max_concurrency", 1) if is_limited else math.inf

    @property
    def queue(self) -> str | None:
        """The pull queue of its work; None: the service is called."""
        return self.options.get("queue")

    def job_id(self, service: str) -> str:
        """The given id, else `service.module.qualname`. Raises DeclarationError if it is not a valid id."""
        name = self.function.__qualname__.replace("<locals>.", "")
        job_id = self.options.get("job_id") or f"{service}.{self.function.__module__}.{name}"
        if not JOB_ID_FORM.fullmatch(job_id):
            raise DeclarationError(
                f"{job_id!r} is not a valid jobId: give job_id, of letters, digits and '._:-'"
            )
        return job_id

    def define(self, service: str, *, prefix: str = "", sign: str | None = None) -> dict[str, Any]:
        """The definition as `service` registers it; `sign` names the signing secret if the job names none.

        Raises DeclarationError with all errors.
        """
        signed = {"sign": self.options.get("sign", sign)} if self.options.get("sign", sign) else {}
        job_id = self.job_id(service)
        definition: dict[str, Any] = {
            "jobId": job_id,
            "jobName": self.function.__name__,
            "creator": service,
            "creatorName": service,
            "timer": ON_TRIGGER,
            **self._describe(),
            **self._describe_parameters(job_id),
            **{_alias(name): _plain(value) for name, value in self._own().items()},
            "request": [self._step(service, f"{prefix}/jobs/{quote(job_id, safe=':')}", signed)],
        }
        cancel = self.options.get("cancel_url", self.is_asynchronous)
        if cancel is True:
            cancel = {"url": f"service://{service}{prefix}/jobs/{quote(job_id, safe=':')}/cancel", **signed}
        if cancel:
            definition["cancelUrl"] = {"url": cancel} if isinstance(cancel, str) else _plain(cancel)
        try:
            parsed = parse_definition(definition)
        except ModelError as error:
            raise DeclarationError(f"job {job_id}: {error}") from error
        if self.queue is not None and "timeout_seconds" not in self.options:
            definition |= time_for_retries(parsed.request[0])
        return definition

    def _own(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if name not in OWN_STEP}

    def _describe(self) -> dict[str, Any]:
        text = inspect.getdoc(self.function) if self.function.__doc__ else None
        is_generated = text is not None and text.startswith(f"{self.__name__}(")  # of a dataclass
        if self.job_class is not None and (text is None or is_generated):
            text = inspect.getdoc(getattr(self.job_class, self.entry))
        return {"jobDescription": text} if text else {}

    def _describe_parameters(self, job_id: str) -> dict[str, Any]:
        """`paramsSchema`, which refuses invalid triggers; with a timer all parameters need defaults."""
        if "body" in self.options:
            return {}
        if self.parameters.required and _plain(self.options.get("timer", ON_TRIGGER)) != ON_TRIGGER:
            names = ", ".join(self.parameters.required)
            raise DeclarationError(
                f"job {job_id} fires by itself, but {names} has no default; give it one, or body"
            )
        return {"paramsSchema": self.parameters.schema}

    def _step(self, service: str, path: str, signed: dict[str, Any]) -> dict[str, Any]:
        further = dict(self.options.get("step", {}))
        for option, why in NOT_FROM_A_QUEUE.items():
            if self.queue is not None and self.options.get(option):
                raise DeclarationError(f"{self.function.__qualname__}: {why}; leave out {option}")
        url = f"service://{service}{path}" if self.queue is None else f"queue://{self.queue}"
        step = {
            "url": url,
            "body": self.options.get("body", TRIGGER),
            **({} if self.queue else signed),
            **further,
        }
        headers = dict(further.get("headers", {}))
        if self.is_asynchronous:
            headers[FEEDBACK_HEADER] = "${schedulingFeedbackUrl}"
        if further.get("route") in SPREAD:
            headers[SHARD_INDEX_HEADER] = "${schedulingShardIndex}"
            headers[SHARD_TOTAL_HEADER] = "${schedulingShardTotal}"
        return {**step, "headers": headers} if headers else step


def job(*misplaced: Never, **options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Declaration[P, R]]:
    """Declares a function or class as a job, to be added to a `Service` or a `Worker`.

    Defaults: `jobId` is `service.module.qualname`, `jobName` the function's name, `jobDescription` its
    docstring, `creator` the service; the job fires when it is triggered. Raises DeclarationError for
    arguments without a name, as where `@job` has no parentheses.
    """
    refuse_misplaced("job", misplaced)

    def declare(function: Callable[P, R]) -> Declaration[P, R]:
        return Declaration(function, options)

    return declare


def _alias(name: str) -> str:
    if name == "asynchronous":
        return "async"
    return spell_as_member(name)


def _plain(value: Any) -> Any:
    """Models and mappings as JSON values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def time_for_retries(step: RequestStep) -> dict[str, float]:
    """The `timeoutSeconds` in which a `queue://` step can lose as many leases as it may, and still end.

    A lease for each claim and the delays between them, with the defaults 270 s; empty where the usual limit
    is enough, or where nothing is given out again.
    """
    lease = LEASE_SECONDS if step.lease_seconds is None else step.lease_seconds
    delay = step.unexpected_retry_delay_seconds
    delay = DELAY_SECONDS if delay is None else delay
    retries = RETRIES if step.max_unexpected_retries is None else step.max_unexpected_retries
    needed = min(lease * (1 + retries) + delay * retries, LARGEST)
    return {"timeoutSeconds": needed} if retries and needed > USUAL_SECONDS else {}


def find_entry(declared: type[Any]) -> str:
    """The method that does the work: `run`, else `__call__`. Raises DeclarationError if there is neither."""
    for name in ENTRIES:
        if any(name in vars(base) for base in declared.__mro__):
            return name
    raise DeclarationError(f"{declared.__qualname__}: a class is a job by its method run; write one")


def signature_source(declared: type[Any], entry: str) -> Callable[..., Any]:
    """A function with the parameters of the method `entry`, without `self`."""
    method: Any = getattr(declared, entry)
    return MethodType(method, object()) if isinstance(method, FunctionType) else method


def check_constructor(declared: type[Any]) -> None:
    """Raises DeclarationError if objects of the class cannot be made without arguments."""
    needed = [
        name
        for name, one in inspect.signature(declared).parameters.items()
        if one.default is one.empty and one.kind not in VARIOUS
    ]
    if needed:
        text = f"its constructor takes {', '.join(needed)}, and nothing provides that"
        raise DeclarationError(f"{declared.__qualname__}: {text}; give provide=… beside the jobs")


@asynccontextmanager
async def provided(declared: type[Any], provide: Provide | None) -> AsyncIterator[Any]:
    """The object for one execution. Raises TypeError if `provide` returns something else."""
    made = declared() if provide is None else provide(declared)
    if inspect.isawaitable(made) and not isinstance(made, declared):
        made = await made
    if isinstance(made, declared):
        yield made
    elif hasattr(made, "__aenter__"):
        async with made as one:
            yield one
    elif hasattr(made, "__enter__"):
        with made as one:
            yield one
    else:
        raise TypeError(f"provide returned {type(made).__name__} for {declared.__qualname__}")
