"""Why a store does not open.

StoreError (ports)
└── StoreRefused         the store does not open; the message names the file and the remedy
    ├── StoreLocked      another service uses the folder
    ├── FolderUnusable   the folder cannot be made, written or read
    ├── StoreDamaged     the file is no database of ours, or broken
    └── StoreTooNew      a newer program wrote the file
"""

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
