"""What settings say to the core."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from client_sdk.models import JobDefinition
from client_sdk.models.definition import JobOptions, ServiceOptions
from scheduler_service.api.authentication import is_loopback
from scheduler_service.app.egress import judge_of
from scheduler_service.app.listener import is_wildcard
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.secret_places import speaks_of_secret
from scheduler_service.domain.tracing import sampling_of
from scheduler_service.engine.compile import Compiled, compile_definition, compile_stored
from scheduler_service.engine.compile_cache import CompileCache, posted_active, read_members
from scheduler_service.engine.definition_checks import UNKNOWN_SECRET, find_refused, read_stored
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.security.secrets import (
    GivenSecrets,
    SecretFiles,
    SecretSources,
    Source,
)
from scheduler_service.security.signing import RequestSigner
from scheduler_service.settings import LoadedSettings, Settings, SettingsError
from scheduler_service.settings.model import OptionSettings
from scheduler_service.settings.sources import read_env_file, read_seal_keys
from scheduler_service.system_jobs import alert_jobs

FAILS_WHEN_SENT = ("egress", UNKNOWN_SECRET)
"""Codes of what is refused when it is posted, and fails by name where a stored definition has it."""


def make_surroundings(loaded: LoadedSettings, served: str, *, topics: bool = False) -> Surroundings:
    """The frozen value that every program carries; `served` is the base address of this service.

    `topics`: jobs may send to topics. Raises SettingsError for an env_file that cannot be read.
    """
    settings = loaded.settings
    feedback, traces = settings.feedback, settings.traces
    external = feedback.external_url or settings.server.external_url or served
    environment = dict(read_env_file(Path(settings.env_file))) if settings.env_file else {}
    return Surroundings(
        internal_url=feedback.internal_url or served,
        external_url=external,
        environment=environment | settings.env.get(DEFAULT_TENANT, {}),
        default_zone=settings.defaults.timezone,
        http_timeout=round(settings.defaults.http_timeout_seconds * SECOND),
        response_bytes=settings.limits.response_bytes,
        follow=frozenset(settings.egress.follow if settings.egress else ()),
        gateway=settings.services.gateway,
        pending_triggers=settings.limits.pending_triggers,
        hold_recurring=settings.debug.hold_recurring,
        hold_triggered=settings.debug.hold_triggered,
        tenant=DEFAULT_TENANT,
        judge_target=judge_of(loaded, is_node=topics),
        topics=topics,
        is_hidden=speaks_of_secret,
        unreachable=served if _is_only_here(settings, served) else None,
        sampling=sampling_of(traces.sampler, traces.sampler_ratio) if traces.is_on else None,
    )


def given_secrets(settings: Settings) -> list[Source]:
    """The secrets in settings, then those in files. Raises SettingsError where `secrets_dir` is no folder."""
    given = GivenSecrets(settings.secrets)
    if settings.secrets_dir is None:
        return [given]
    folder = Path(settings.secrets_dir)
    if not folder.is_dir():
        raise SettingsError(f"secrets_dir = {str(folder)!r} is no folder; make it, or leave it out")
    return [given, SecretFiles(folder)]


def make_signer(settings: Settings, secrets: Source, clock: Callable[[], float]) -> RequestSigner:
    """Signs with `secrets`; those that only sign come first. `clock` counts seconds since 1970."""
    signing = settings.signing
    return RequestSigner(
        secrets=SecretSources([GivenSecrets(signing.secrets), secrets]),
        md5_secret=signing.md5_secret if signing.md5_enabled else None,
        clock=clock,
    )


def examined_surroundings(loaded: LoadedSettings, *, topics: bool = False) -> Surroundings:
    """As `make_surroundings`, where no service runs: secrets that it has stored are not read there.

    So what is signed or names a secret is judged only where it has none. Raises SettingsError.
    """
    around = make_surroundings(loaded, "http://127.0.0.1", topics=topics)
    if read_seal_keys(loaded.settings):
        return around
    sources = SecretSources(given_secrets(loaded.settings))
    signer = make_signer(loaded.settings, sources, time.time)
    return msgspec.structs.replace(
        around, judge_secret=signer.judge, has_secret=lambda *secret: bool(sources.find(*secret))
    )


def _is_only_here(settings: Settings, served: str) -> bool:
    """Whether no address was found by which others reach a service that listens to them."""
    name = urlsplit(served).hostname or ""
    return settings.server.external_url is None and is_wildcard(settings.server.host) and is_loopback(name)


OPTIONS = tuple(JobOptions.model_fields)


class DefinitionCompiler:
    """Compiles definitions, posted or stored, under the defaults of the platform and of their tenant.

    The stored definitions of alerts, which are shown, have names of headers alone and addresses without
    queries: what these lack is in `settings`.
    """

    def __init__(self, *, settings: Settings, surroundings: Surroundings) -> None:
        self._defaults, self._history = settings.defaults, settings.history
        self._headers, self._urls = alert_jobs.headers_of(settings), alert_jobs.urls_of(settings)
        self._chats = alert_jobs.chats_of(settings)
        self._platform = _options_of(self._defaults, OptionSettings.model_fields)
        self._tenants = {name: one.defaults for name, one in settings.tenants.items()}
        self._values = {
            name: self._platform | _options_of(own, own.model_fields_set)
            for name, own in self._tenants.items()
        }
        self._surroundings = surroundings
        self._env, self._by_tenant = settings.env, {DEFAULT_TENANT: surroundings}
        self.compile_cache = CompileCache(default_zone=surroundings.default_zone)

    def around(self, tenant: str) -> Surroundings:
        """What a definition of this tenant is compiled with: an environment of its own."""
        known = self._by_tenant.get(tenant)
        if known is None:
            environment = dict(self._env.get(tenant, {}))
            known = msgspec.structs.replace(self._surroundings, tenant=tenant, environment=environment)
            self._by_tenant[tenant] = known
        return known

    def posted(self, definition: JobDefinition, tenant: str) -> Compiled:
        """A definition on its way in. Raises DefinitionError."""
        return compile_definition(self._fill(definition, tenant), self.around(tenant))

    async def stored(self, text: bytes, tenant: str) -> Program:
        """A definition of a tenant from the store, perhaps of an earlier version; a large one apart.

        It is never refused: `Program.problems` says what of it cannot be done.
        """
        if len(text) > LARGE_BYTES:
            return await work_apart(lambda: self._compile_stored(text, tenant)[1].program)
        members = read_members(text) or {}
        cached = self.compile_cache.find(members, tenant)
        if cached is not None:
            return cached.program
        definition, compiled = self._compile_stored(text, tenant)
        if not (compiled.program.system or compiled.refused):
            self.compile_cache.add(members, compiled, active=posted_active(definition))
        return compiled.program

    def _compile_stored(self, text: bytes, tenant: str) -> tuple[JobDefinition, Compiled]:
        definition, left_out = read_stored(decode_json(text))
        system = any(step.url.startswith("system://") for step in definition.request)
        if system:
            definition = self._reveal(definition)
        filled, around = self._fill(definition, tenant), self.around(tenant)
        compiled = compile_stored(filled, around, system=system, left_out=left_out)
        if system and definition.job_id in self._chats:
            robot = self._chats[definition.job_id]
            program = compiled.program
            entries = tuple(msgspec.structs.replace(one, robot=robot) for one in program.notifications)
            program = msgspec.structs.replace(program, notifications=entries)
            compiled = msgspec.structs.replace(compiled, program=program)
        refused = () if system else tuple(find_refused(definition, around))
        if not refused:
            return definition, compiled
        unsent = (one for one in refused if one.code in FAILS_WHEN_SENT)
        program = msgspec.structs.replace(compiled.program, problems=(*compiled.program.problems, *unsent))
        return definition, msgspec.structs.replace(
            compiled, program=program, refused=(*compiled.refused, *refused)
        )

    def _reveal(self, definition: JobDefinition) -> JobDefinition:
        job_id = definition.job_id or ""
        changed: dict[str, object] = {}
        if job_id in self._urls:
            changed["url"] = self._urls[job_id]
        headers = self._headers.get(job_id, {})
        if not changed and not headers:
            return definition
        entries = []
        for one in definition.notification:
            own = {name: headers.get(name, hidden) for name, hidden in one.headers.items()}
            entries.append(one.model_copy(update={**changed, "headers": own}))
        return definition.model_copy(update={"notification": entries})

    def options(self, tenant: str) -> dict[str, object]:
        """The effective defaults by their names on the wire, each with its `value` and its `source`."""
        fields, dumped, given = JobDefinition.model_fields, self._defaults.model_dump(), self._defaults
        own = {name: _option(dumped[name], name in given.model_fields_set) for name in self._platform}
        own["history_detail"] = _option(self._history.detail, "detail" in self._history.model_fields_set)
        if tenant in self._tenants:
            of_tenant = self._tenants[tenant].model_dump()
            own |= {name: {"value": value, "source": "tenant"} for name, value in of_tenant.items()}
        return {fields[name].alias or name: option for name, option in own.items()}

    def _fill(self, definition: JobDefinition, tenant: str) -> JobDefinition:
        values = self._values.get(tenant, self._platform)
        if definition.service_options is not None:
            values = values | _given_by_service(definition.service_options)
        absent = {name: value for name, value in values.items() if self._is_absent(definition, name)}
        if not absent.get("lead_seconds"):
            absent.pop("lead_seconds", None)  # a step to a queue has a lead of its own
        return definition.model_copy(update=absent) if absent else definition

    @staticmethod
    def _is_absent(definition: JobDefinition, name: str) -> bool:
        return name not in definition.model_fields_set or getattr(definition, name) is None


def _options_of(given: OptionSettings, names: Iterable[str]) -> dict[str, object]:
    """These members as a definition has them."""
    found = {name: getattr(given, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _given_by_service(options: ServiceOptions) -> dict[str, object]:
    return {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}


def _option(value: object, is_set: bool) -> dict[str, object]:
    return {"value": value, "source": "platform" if is_set else "product"}
