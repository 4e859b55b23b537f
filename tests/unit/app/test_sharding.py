"""Which services may have worker processes, and their configuration."""

import time

import pytest

from scheduler_service.app.sharding import check_workers, shard_of, worker_configs
from scheduler_service.app.surroundings import make_surroundings
from scheduler_service.app.system_jobs import NAMES
from scheduler_service.settings import Loaded, Settings, SettingsError
from tests.manual_clock import ManualClock
from tests.rows import each_row


@each_row(
    ("members", "said"),
    [
        ({"store": {"data": ":memory:"}}, "name a folder in store.data"),
        ({"database": {"url": "sqlite://"}}, "leave database.url out"),
    ],
)
def test_one_process_alone_may_use_what_it_cannot_share(members: dict[str, object], said: str) -> None:
    """The message names the number, and what to do instead (SPEC section 16)."""
    check_workers(Settings.model_validate(members))
    with pytest.raises(SettingsError, match=r"server\.workers = 2") as refused:
        check_workers(Settings.model_validate({**members, "server": {"workers": 2}}))
    assert said in str(refused.value)


def test_system_jobs_live_where_their_functions_are() -> None:
    """In the service's own process, however many there are (SPEC section 11)."""
    assert {shard_of(shards)(name) for shards in (1, 2, 5, 32) for name in NAMES} == {0}


def test_a_worker_process_has_all_settings_and_the_steady_line_of_its_service() -> None:
    """Whatever their kind; and though the wall clock was set since the service started."""
    members = {
        "server": {"workers": 3, "key": "a key of some length"},
        "store": {"data": "elsewhere", "durability": "process"},
        "egress": {"allow": ["10.0.0.0/8"], "follow": ["https://a.test"]},
        "services": {"static": {"shop": ["http://a", "http://b"]}},
        "env": {"default": {"HOST": "h"}},
        "history": {"mask": ["secret"]},
    }
    settings = Settings.model_validate(members)
    loaded = Loaded(settings, {"server.workers": "command line"}, has_file=True)
    clock = ManualClock(wall=1_000, skew=400)
    before = round(time.time() * 1_000)
    surroundings = make_surroundings(settings, "http://here")
    config = worker_configs(loaded, surroundings, "http://here", "node-1", clock)(2)
    assert Settings.model_validate_json(config.settings) == settings
    assert (config.shard, config.node, config.served, config.has_file) == (2, "node-1", "http://here", True)
    assert (config.sources, config.environment) == (loaded.sources, {"HOST": "h"})
    assert before - 600 <= config.skew <= round(time.time() * 1_000) - 600
