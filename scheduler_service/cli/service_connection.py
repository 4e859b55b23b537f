"""The command line's connection to a service: the SDK's, with its errors as messages and exit codes."""

import os
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from client_sdk.errors import Flaw
from scheduler_service.cli.errors import AbsentError, CommandError, Exit

if TYPE_CHECKING:
    from types import TracebackType

    from client_sdk.client.call_retries import Patience
    from client_sdk.client.connection import Connection
    from client_sdk.client.http_answers import Envelope
    from client_sdk.errors import Problem, Unreachable
    from client_sdk.models.answers import Event
    from scheduler_service.cli.documents import DefinitionFile

OPTIONS = {
    "/Last-Event-ID": "--after",
    "/action": "ACTION",
    "/calendarName": "NAME",
    "/count": "--count",
    "/creator": "--creator",
    "/cursor": "--cursor",
    "/delaySeconds": "--delay",
    "/deliveryId": "DELIVERY_ID",
    "/drain": "--drain",
    "/error": "--error",
    "/event": "--event",
    "/executionId": "EXECUTION_ID",
    "/expiresAt": "--expires",
    "/from": "--since",
    "/fromStep": "--from-step",
    "/jobId": "JOB_ID",
    "/kind": "--kind",
    "/label": "--label",
    "/labels": "--put",
    "/lastOutcome": "--last-outcome",
    "/limit": "--limit",
    "/misfire": "--misfire",
    "/name": "NAME",
    "/operation": "--operation",
    "/operationId": "OPERATION_ID",
    "/outcome": "--outcome",
    "/perJob": "--per-job",
    "/params": "NAME=VALUE",
    "/place": "--place",
    "/reason": "--reason",
    "/role": "--role",
    "/root": "--root",
    "/state": "--state",
    "/template": "TEMPLATE",
    "/text": "--text",
    "/timer": "PERIOD",
    "/timer/dueTime": "--due-time",
    "/timer/period": "PERIOD",
    "/timer/timezone": "--timezone",
    "/to": "--until",
}
"""Parameters and members of bodies that commands send, by their pointers in the API."""

COMMANDS = {"POST /jobs/{jobId}/update": "'punctual jobs apply'"}
"""Remedies that messages name by their route."""

UNAUTHORIZED = 401


class SentPart(NamedTuple):
    """What is sent of a file: what stands at `pointer` in the file is at `posted` in the request."""

    document: "DefinitionFile"
    posted: str = ""
    pointer: str = ""


def describe(problem: "Problem", part: SentPart | None = None, options: Mapping[str, str] = OPTIONS) -> str:
    """Each error of a problem once, with the option or the place in the file that it is about."""
    if problem.status == UNAUTHORIZED:
        return f"{problem.detail}; give a key with --key or PUNCTUAL_KEY"
    lines = describe_flaws(problem.errors, part, options) or [problem.detail]
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} errors:", *(f"  {line}" for line in lines)])


def read_flaws(given: Iterable[Mapping[str, Any]]) -> list[Flaw]:
    """The errors or warnings of an answer."""
    return [Flaw(*(str(one.get(name) or "") for name in Flaw._fields)) for one in given]


def describe_flaws(
    flaws: Iterable[Flaw], part: SentPart | None = None, options: Mapping[str, str] = OPTIONS
) -> list[str]:
    """A line per error or warning."""
    return [_describe_one(flaw, part, options) for flaw in flaws]


def are_options(flaws: Collection[Flaw]) -> bool:
    """Whether each error is about an option of the command line."""
    return bool(flaws) and all(OPTIONS.get(flaw.pointer, "").startswith("--") for flaw in flaws)


def _describe_one(flaw: Flaw, part: SentPart | None, options: Mapping[str, str]) -> str:
    message = _translate(flaw.message)
    if part is not None and flaw.pointer.startswith(part.posted):
        own = part.pointer + flaw.pointer.removeprefix(part.posted)
        if own in part.document.places or flaw.pointer not in OPTIONS:
            place = f"{part.document.name}:{part.document.place_of(own)}"
            return f"{place}: {own or '/'}: {message} [{flaw.code}]"
    option = options.get(flaw.pointer) or OPTIONS.get(flaw.pointer)
    if option is None:
        return f"{flaw.pointer}: {message}" if flaw.pointer else message
    return _name(option, flaw.pointer[1:], message)


def _name(option: str, parameter: str, message: str) -> str:
    """The message with the option instead of the parameter; an argument is named by its value already."""
    for spelled in (parameter, f"the parameter {parameter!r}"):
        if message.startswith(f"{spelled} "):
            return f"{option} {message.removeprefix(spelled).lstrip()}"
    is_argument = option in OPTIONS.values() and not option.startswith("--")
    return message if is_argument else f"{option}: {message}"


def _translate(message: str) -> str:
    for route, command in COMMANDS.items():
        message = message.replace(route, command)
    return message


DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 30.0
PAGE = 500
"""So many items of a list are asked for at a time."""
LONGEST_REASON = 200
MISREAD = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""What reading an answer of another form ends with: members that are missing, of other types, or no moments,
numbers beyond all floats, lists in lists without end."""

COMMAND_LINE_OF_HTTPX = "httpx._main"
"""Imported by httpx where it can be: rich, click and pygments, a third of the time that a command needs. For
Python it is not installed."""
_open_connections: ContextVar[ExitStack] = ContextVar("open_connections")
_ca: ContextVar[str | None] = ContextVar("ca", default=None)


class ApiConnection:
    """One service, called once per request: every failure becomes a CommandError."""

    def __init__(self, connection: "Connection") -> None:
        import asyncio

        self._connection = connection
        self._runner = asyncio.Runner()
        self._next: asyncio.Future[Event] | None = None
        self._is_answered = False

    def get(self, path: str, **query: Any) -> Any:
        """The `data` of a GET; query members that are None are left out. Raises CommandError."""
        return self.exchange("GET", path, query=query).data

    def items(self, path: str, **query: Any) -> "Iterator[Any]":
        """The `items` of all pages of a list, read as they are consumed. Raises CommandError."""
        cursor = None
        while True:
            page = self.get(path, **query, limit=PAGE, cursor=cursor)
            yield from page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def send(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """The `data` of an answer. Raises CommandError."""
        return self.exchange(method, path, query=query, body=body).data

    def exchange(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        part: SentPart | None = None,
        options: Mapping[str, str] = OPTIONS,
        patience: "Patience | None" = None,
    ) -> "Envelope":
        """The `data` of an answer and its warnings; asked once, or as `patience` says.

        Raises CommandError, its cause that of the SDK.

        `part` says from which file the body is: its errors are shown with their places in it. `options` has
        the names of parameters that are others here than in `OPTIONS`.
        """
        from client_sdk.errors import Problem, Unreachable, Unreadable

        try:
            sending = self._connection.send(
                method, path, query=query, body=body, headers=headers, patience=patience
            )
            envelope = self._runner.run(sending)
        except Problem as problem:
            raise _refusal(problem, part, options) from problem
        except Unreachable as error:
            raise self._unreachable(error) from error
        except Unreadable as error:
            raise CommandError(str(error), Exit.UNREACHABLE) from error
        except ValueError as error:  # NaN or Infinity in the body
            raise CommandError(f"the request is not valid JSON: {error}", Exit.USAGE) from error
        self._is_answered = True
        return envelope

    def follow(self, query: dict[str, Any], after: str | None) -> "AsyncIterator[Event]":
        """The stream of events with these filters; nothing is asked before `wait_for`."""
        from client_sdk.client.events import EventStream

        return EventStream(connection=self._connection, query=query, after=after).events()

    def wait_for(self, events: "AsyncIterator[Event]", seconds: float) -> "tuple[Event | None, str | None]":
        """The next event, or None after `seconds`; and why there is no stream, if there is none.

        Raises CommandError.
        """
        from client_sdk.errors import Absent, Problem, Unreachable, Unreadable

        try:
            return self._runner.run(self._wait(events, seconds)), None
        except (Absent, Unreadable) as error:
            return None, str(error)
        except Problem as problem:
            raise _refusal(problem, None) from problem
        except Unreachable as error:
            raise self._unreachable(error) from error

    async def _wait(self, events: "AsyncIterator[Event]", seconds: float) -> "Event | None":
        import asyncio

        if self._next is None:
            self._next = asyncio.ensure_future(anext(events))
        await asyncio.wait({self._next}, timeout=seconds)
        if not self._next.done():
            return None
        found, self._next = self._next.result(), None
        return found

    def _unreachable(self, error: "Unreachable") -> CommandError:
        from client_sdk.trust import explain_tls

        insecure = explain_tls(error, ca="punctual --ca FILE, PUNCTUAL_CA")
        if error.was_sent:
            return CommandError(
                f"no whole answer came from {self._connection.url} ({_describe_cause(error)}); what was "
                "asked may have been done: look before you repeat it",
                Exit.UNREACHABLE,
            )
        if insecure is not None:
            text = f"the service at {self._connection.url} cannot be trusted: {insecure}"
            return CommandError(text, Exit.UNREACHABLE)
        return CommandError(
            f"no service answers at {self._connection.url} ({_describe_cause(error)}); start "
            "one with 'punctual serve', or name another with --url or PUNCTUAL_URL",
            Exit.UNREACHABLE,
        )

    def blame_answer(self, kind: object, error: BaseException | None, trace: "TracebackType | None") -> None:
        """Says that an answer is not made as commands read it: another program or version is there.

        What goes wrong before there is an answer to read is a defect, and stays one.
        """
        if self._is_answered and isinstance(error, MISREAD) and not isinstance(error, UnicodeError):
            raise CommandError(
                f"an answer of {self._connection.url} cannot be read ({type(error).__name__} at "
                f"{_place_of(trace)}: {str(error)[:LONGEST_REASON]}); see whether --url names a scheduler, "
                "and one of this version ('punctual version'); if it does, report this line: it is a defect",
                Exit.UNREACHABLE,
            ) from error

    def close(self) -> None:
        """Closes the connection and its event loop."""
        self._runner.run(self._connection.close())
        self._runner.close()


@contextmanager
def closing_connections() -> Iterator[None]:
    """Closes the connections that commands open inside."""
    with ExitStack() as stack:
        _open_connections.set(stack)
        yield


def connect(url: str | None, key: str | None) -> ApiConnection:
    """The service that `--url` and `--key`, else PUNCTUAL_URL and PUNCTUAL_KEY, name.

    `closing_connections` closes it. Raises CommandError.
    """
    sys.modules.setdefault(COMMAND_LINE_OF_HTTPX, None)  # type: ignore[arg-type]
    from client_sdk.client.call_retries import Patience
    from client_sdk.client.connection import Connection

    url, key = read_address(url, key)
    try:
        connection = Connection(
            url=url,
            key=key,
            timeout=TIMEOUT_SECONDS,
            patience=Patience(retries=0),
            transport=None,
            ca=read_ca(),
        )
    except ValueError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    api = ApiConnection(connection)
    _open_connections.get().callback(api.close)
    _open_connections.get().push(api.blame_answer)
    return api


def _place_of(trace: "TracebackType | None") -> str:
    """The innermost line of a command, as `top:81`: what it read is known then."""
    place = "?"
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.startswith(f"{__package__}."):
            place = f"{module.rpartition('.')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def read_address(url: str | None, key: str | None) -> tuple[str, str | None]:
    """Address and key from the options, else from the environment."""
    return (url or os.environ.get("PUNCTUAL_URL") or DEFAULT_URL, key or os.environ.get("PUNCTUAL_KEY"))


def trust(ca: str | None) -> None:
    """Notes the file of certificates that `--ca` names for this command; None: it is not given."""
    _ca.set(ca)


def read_ca() -> str | None:
    """The file of certificates that `--ca`, else PUNCTUAL_CA, names."""
    return _ca.get() or os.environ.get("PUNCTUAL_CA") or None


def _describe_cause(error: BaseException) -> str:
    """The first cause, in the words of the operating system where it has some."""
    from client_sdk.trust import explain_tls

    cause = _innermost(error)
    if (insecure := explain_tls(cause)) is not None:  # its numbers are not the operating system's
        return insecure
    number = cause.errno if isinstance(cause, OSError) else None
    if number is not None and number > 0:
        return os.strerror(number)
    return str(cause) or type(cause).__name__


def _innermost(error: BaseException) -> BaseException:
    """The first cause: the layers between say only that all attempts failed."""
    if isinstance(error, BaseExceptionGroup):
        return _innermost(error.exceptions[0])
    cause = error.__cause__ or error.__context__
    return error if cause is None else _innermost(cause)


def _refusal(problem: "Problem", part: SentPart | None, options: Mapping[str, str] = OPTIONS) -> CommandError:
    from client_sdk.errors import Absent, Invalid, Unavailable

    text = describe(problem, part, options)
    if isinstance(problem, Absent):
        return AbsentError(text)
    if isinstance(problem, Unavailable):
        return CommandError(text, Exit.UNREACHABLE)
    is_usage = isinstance(problem, Invalid) and part is None and are_options(problem.errors)
    return CommandError(text, Exit.USAGE if is_usage else Exit.REFUSED)
