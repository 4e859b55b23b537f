"""Why a store does not open, or a list cannot be read on.

StoreError (ports)
└── StoreRefused         the store does not open; the message names the file and the remedy
    ├── StoreLocked      another service uses the folder
    ├── FolderUnusable   the folder cannot be made, written or read
    ├── StoreDamaged     the file is no database of ours, or broken
    └── StoreTooNew      a newer program wrote the file
PunctualError
└── CursorError          a list's cursor that this list never gave out
"""

from scheduler_service.domain.errors import PunctualError
from scheduler_service.ports import StoreError


class StoreRefused(StoreError):
    """The store does not open."""


class StoreLocked(StoreRefused):
    """Another service uses the folder."""


class FolderUnusable(StoreRefused):
    """The folder cannot be made, written or read."""


class StoreDamaged(StoreRefused):
    """The file is no database of this product, or it is broken."""


class StoreTooNew(StoreRefused):
    """A newer program wrote the file."""


class CursorError(PunctualError):
    """A cursor that this list never gave out."""
