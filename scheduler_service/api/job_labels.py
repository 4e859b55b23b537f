"""Changes labels of a job; its definition is otherwise the same, and its schedule stays as it is."""

from collections.abc import Mapping

import msgspec

from scheduler_service.api.definitions import check_posted
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import find_job, read_definition
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ENCODER
from scheduler_service.domain.events import Updated
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.trials import TRIALS
from scheduler_service.engine.compile_cache import read_members
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered

_LABELS = msgspec.json.Decoder(dict[str, str] | None)


async def relabel(
    request: ApiRequest, job_key: str, labels: Mapping[str, str | None], remembered: Remembered
) -> None:
    """Sets the labels that have a value, and removes those with None; a job that has them so stays as it is.

    Under `remembered` it is done once. The definition gets a new revision.
    Raises ApiProblem (404, 412: it was changed meanwhile), StoreError.
    """
    entry = await find_job(request, job_key)
    members = read_members(await read_definition(request, entry)) or {}
    before = _LABELS.decode(members.get("labels", b"null")) or {}
    after = {name: value for name, value in {**before, **labels}.items() if value is not None}
    if after == before:
        return
    text = ENCODER.encode(members | {"labels": msgspec.Raw(ENCODER.encode(after))})
    by, is_trial = request.creator, entry.parent_job == TRIALS
    checked = await check_posted(request.deps, text, read_job_key(job_key)[1], by, is_trial=is_trial)
    event = Updated(revision=0, if_match=frozenset({entry.revision}), keeps_schedule=True)
    await run_command(request, job_key, Command(event, checked.definition, remembered))
