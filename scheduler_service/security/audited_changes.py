"""What the audit keeps of a difference: masked, each value short, all of it bounded (SPEC section 14)."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from scheduler_service.domain.differences import find_differences
from scheduler_service.domain.feedback_tokens import MARK
from scheduler_service.security.concealment import Concealment
from scheduler_service.security.secret_masks import SecretMask

MOST_CHANGES = 50
VALUE_BYTES = 512
"""A longer value is shown by its first letters."""
HEADERS = "headers"
_encode = msgspec.json.Encoder().encode


class MaskedChanges:
    """The places where two definitions differ, as the audit shows them.

    Every value of a header is `***`, whatever its name: that it changed is what counts. Members that
    `history.mask` names are, too, and what addresses have of secrets. `mask` hides values of secrets before a
    part of one is hidden, or a long text is cut, as the rest would stay; whoever writes the line hides all
    others.
    """

    def __init__(self, *, conceal: Concealment) -> None:
        self._conceal = conceal

    def __call__(self, before: object, after: object, mask: SecretMask) -> dict[str, object]:
        """`difference`, a list of `{pointer, before, after}`; `truncated` where there is more."""
        found = list(islice(self._changes(before, after, mask), MOST_CHANGES + 1))
        shown: dict[str, object] = {"difference": found[:MOST_CHANGES]}
        if len(found) > MOST_CHANGES:
            shown["truncated"] = True
        return shown

    def _changes(self, before: object, after: object, mask: SecretMask) -> Iterator[dict[str, object]]:
        for one in find_differences(before, after):
            names = one.pointer.split("/")[1:]
            yield {
                "pointer": one.pointer,
                "before": self._show(names, one.declared, mask),
                "after": self._show(names, one.stored, mask),
            }

    def _show(self, names: list[str], value: object, mask: SecretMask) -> object:
        masked = self._mask(names, value, mask)
        text = _encode(masked)
        if len(text) <= VALUE_BYTES:
            return masked
        return mask.hide_at(text, VALUE_BYTES)[:VALUE_BYTES].decode(errors="ignore") + "…"

    def _mask(self, names: list[str], value: object, mask: SecretMask) -> object:
        if value is None:
            return None
        # What a header is worth stands below `headers`, also where the whole of it is new or gone.
        if HEADERS in names[:-1] or any(self._is_secret(name) for name in names):
            return MARK
        match value:
            case dict():
                return {
                    str(name): self._mask([*names, str(name)], member, mask) for name, member in value.items()
                }
            case list():
                return [self._mask([*names, str(index)], member, mask) for index, member in enumerate(value)]
            case str():
                return self._mask_text(names, mask.text(value))
        return value

    def _mask_text(self, names: list[str], value: str) -> str:
        if names and names[-1].lower().endswith("url"):
            return self._conceal.url(value)
        if value.lstrip()[:1] in ("{", "["):  # JSON in a text
            return self._conceal.body(value.encode()).decode()
        return self._conceal.text(value)

    def _is_secret(self, name: str) -> bool:
        return self._conceal.is_secret_member(name)
