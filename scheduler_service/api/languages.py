"""The language in which an answer has its words, where it has words for people."""

from scheduler_service.timing.languages import LANGUAGES


def preferred(header: str | None) -> str:
    """The one of `LANGUAGES` that `header`, an `Accept-Language`, likes best; its first where none fits.

    RFC 9110, section 12.5.4. Never raises: what is not understood counts for nothing.
    """
    best, liked = next(iter(LANGUAGES)), 0.0
    for item in (header or "").split(","):
        tag, _, parameters = item.partition(";")
        language = tag.strip().lower().partition("-")[0]
        quality = _quality(parameters)
        if language in LANGUAGES and quality > liked:
            best, liked = language, quality
    return best


def _quality(parameters: str) -> float:
    name, _, value = parameters.partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
