"""What the one writer writes: turns, and what is asked of the store beside them."""

import msgspec

from scheduler_service.persistence.sqlite.queues import Step
from scheduler_service.ports.state import Commit, Remembered, Settlement


class Settle(msgspec.Struct, frozen=True, gc=False):
    """What became of some deliveries."""

    settlements: tuple[Settlement, ...]


class Written(msgspec.Struct, frozen=True, gc=False):
    """The history has these batches."""

    keys: tuple[tuple[str, int], ...]


class Forget(msgspec.Struct, frozen=True, gc=False):
    """The last traces of a destroyed job go; a living one stays. The verdict says whether there was one."""

    job_id: str


class Keep(msgspec.Struct, frozen=True, gc=False):
    """A number of the store's own."""

    key: str
    value: int


class Fold(msgspec.Struct, frozen=True, gc=False):
    """Turns of the journal go into the table: `count` jobs, or all of them with all records."""

    count: int = 256
    is_whole: bool = False


Write = Commit | Settle | Remembered | Written | Forget | Keep | Step | Fold
