"""What a definition takes in memory once it is compiled, by its text."""

USUAL_BYTES = 6_144
"""What any definition or state may take: it is not counted, as the number of jobs is bounded."""
GROUP_BYTES = 16 << 20
"""What definitions that are compiled at once may weigh: 16 MiB of brackets take 350 MiB."""
SHORT_BYTES = 1_024
"""Of a text of so many bytes all marks count alike."""
MARK_BYTES = 80
"""What a mark takes by the figures of `weigh`, on the average of those in a definition with one step."""
_MARKS = b'[{":,'


def weigh(text: bytes) -> int:
    """About how many bytes more than the usual a definition takes once it is compiled, by its JSON.

    The figures are those of `tracemalloc`: a header takes 600 bytes, an empty list 64, an item that is a text
    80. What comes out is at most three times of what there is, or a third of it; of a short text that is a
    list of numbers, ten times.
    """
    if len(text) <= SHORT_BYTES:  # in one pass: each creation comes here
        marks = len(text) - len(text.translate(None, _MARKS))
        return max(2 * len(text) + MARK_BYTES * marks - USUAL_BYTES, 0)
    brackets = text.count(b"[") + text.count(b"{")
    strings = 40 * text.count(b'"') + 300 * text.count(b":") + 16 * text.count(b",")
    return max(2 * len(text) + 60 * brackets + strings - USUAL_BYTES, 0)
