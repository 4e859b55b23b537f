"""Texts that come from outside, and can be stored."""

LONGEST_MESSAGE = 200


def scrub(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be encoded in UTF-8.

    JSON may have one as an escape (RFC 8259, section 8.2); no store, no request and no log can.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shorten_message(message: str | None) -> str | None:
    """A message of a failure for a list or an event: 200 characters at most."""
    if message is None or len(message) <= LONGEST_MESSAGE:
        return message
    return message[: LONGEST_MESSAGE - 1] + "…"
