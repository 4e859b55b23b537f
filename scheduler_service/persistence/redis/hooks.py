"""Who is told what becomes of a store while it is open."""

from collections.abc import Callable

import msgspec


class Hooks(msgspec.Struct, frozen=True):
    """Each is called on the event loop and must not raise.

    `on_lost`: this process may not write any more, in words; `on_trouble`: the server cannot be reached, and
    None when it can be again; `on_doubt`: what the server may not keep.
    """

    on_lost: Callable[[str], None]
    on_trouble: Callable[[str | None], None]
    on_doubt: Callable[[str], None]


def _ignore(_: object) -> None:
    return


SILENT = Hooks(on_lost=_ignore, on_trouble=_ignore, on_doubt=_ignore)
