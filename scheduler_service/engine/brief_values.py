"""Values whose `repr` is brief: a library that repeats a value in each message takes a MiB for each."""

from itertools import islice

SHOWN_ITEMS = 20


class _BriefList(list[object]):
    def __repr__(self) -> str:
        more = ", …" if len(self) > SHOWN_ITEMS else ""
        return f"[{', '.join(map(repr, self[:SHOWN_ITEMS]))}{more}]"


class _BriefDict(dict[str, object]):
    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: {value!r}" for name, value in islice(self.items(), SHOWN_ITEMS))
        return f"{{{shown}{', …' if len(self) > SHOWN_ITEMS else ''}}}"


def shorten(value: object) -> object:
    """A JSON value equal to `value`, whose lists and objects show their first 20 items alone."""
    if type(value) is list:
        return _BriefList(map(shorten, value))
    if type(value) is dict:
        return _BriefDict((name, shorten(item)) for name, item in value.items())
    return value
