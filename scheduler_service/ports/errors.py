"""What a store may raise.

StoreError
├── StoreUnavailable     nothing was written
│   ├── StateUnreadable  the stored state of this one job is damaged
│   └── StoreStopping    the process stops: nothing is wrong with the store
├── StoreUncertain       whether it was written is unknown
├── StoreConflict        another writer was first; what was read is outdated
└── StoreRefused         the store does not open; the message names the place and the remedy
    ├── StoreLocked      another service uses the folder or the database
    ├── FolderUnusable   the folder cannot be made, written or read
    ├── StoreDamaged     the file is not a database of this product, or is broken
    └── StoreTooNew      a newer program wrote the file
"""

from scheduler_service.domain.errors import PunctualError


class StoreError(PunctualError):
    """The root of what a store may raise.

    `is_public`: the text is meant for callers, and names no place or database. The texts of a database and of
    the operating system never are: callers learn only that the store failed.
    """

    def __init__(self, *text: object, is_public: bool = False) -> None:
        super().__init__(*text)
        self.is_public = is_public


class StoreUnavailable(StoreError):
    """Nothing was written: the store is closed, full, locked or broken."""


class StateUnreadable(StoreUnavailable):
    """The stored state of one job is damaged, or a newer program wrote it: asking again soon is of no use."""


class StoreStopping(StoreUnavailable):
    """Nothing was done, since this process stops: no fault, so no line of the log. Its text is public.

    Asked again, another node answers, or this one after its start.
    """

    def __init__(self, *text: object, is_public: bool = True) -> None:
        super().__init__(*text, is_public=is_public)


class DeliveryUnreadable(StoreUnavailable):
    """One stored delivery is damaged, or a newer program wrote it: asking again soon is of no use.

    `place` is its id as it is stored, which may be no text; those behind it are asked for by `after`.
    """

    def __init__(self, place: bytes, reason: object) -> None:
        delivery_id = place.decode(errors="backslashreplace")
        text = (
            f"notification {delivery_id} in the store is damaged ({reason}); stop the service, and run "
            "'punctual db repair'"
        )
        super().__init__(text, is_public=True)
        self.delivery_id = delivery_id
        self.after = place.decode(errors="surrogateescape")


class StoreUncertain(StoreError):
    """Whether it was written is unknown; read before you write again."""


class StoreConflict(StoreError):
    """The job was changed by another writer, or the id was taken meanwhile."""


class StoreRefused(StoreError):
    """The store does not open."""


class StoreLocked(StoreRefused):
    """Another service uses the folder or the database."""


class FolderUnusable(StoreRefused):
    """The folder cannot be made, written or read."""


class StoreDamaged(StoreRefused):
    """The file is not a database of this product, or it is broken."""


class StoreTooNew(StoreRefused):
    """A newer program wrote the file."""


def store_closed(what: str = "it takes nothing more") -> StoreStopping:
    """What a caller hears while the service ends."""
    return StoreStopping(f"the service is stopping and its store is closed: {what}; ask again in a moment")


def explain(error: Exception) -> str:
    """A StoreError says what is the matter; of anything else the type is the better half."""
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
