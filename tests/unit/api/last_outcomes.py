"""What the newest execution of a job came to, read from its entry in the catalogue."""

import msgspec

from scheduler_service.domain.document import Latest
from scheduler_service.ports.catalogue import LAST_OUTCOMES, LastOutcome

_decode = msgspec.json.Decoder(Latest | None).decode


def read_last_outcome(latest: bytes) -> LastOutcome:
    """The outcome; NONE also for bytes that nothing can be read from."""
    try:
        found = _decode(latest)
    except msgspec.MsgspecError:
        return LastOutcome.NONE
    return LastOutcome.NONE if found is None else LAST_OUTCOMES[found.state]
