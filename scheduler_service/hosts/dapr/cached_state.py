"""What the actor store of a node keeps of its jobs between two turns."""

from collections import OrderedDict

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.actor_document import FORMAT, ActorDocument, pack_batches
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered

FRESH_FOR_MS = SECOND
MESSAGES = 8
MESSAGE_MS = 30 * SECOND
"""How long the answer to a message is kept: longer than daprd and whoever asks it go on with that message."""
CACHED_STATES = 50_000


class CachedState:
    """`raw` is the state in the store as of `checked_at` (steady ms), `sequence` the one of its turn.

    `found` is another state that was read since, until it is loaded. `began` is the start of the present
    turn, `period` the liveness period of that moment, `is_compared` whether it goes on from a state that was
    compared with the store's within the second; a state of an older `generation` always is. `batches` are
    those that the history has not confirmed, `deliveries` and `answers` those that SQL does not have yet.
    Until `copies_until` (steady ms) a node that counts as dead may write over the state. `qos` is that of the
    job after the turn (`Commit.qos`). While it `is_unsaved`, the state lies with its claim alone, the actor
    store has an older one or none, and `raw` is the state that lies with the claim. `messages` are the
    answers to the latest messages, each with the steady moment since when it is known here.
    """

    __slots__ = (
        "answers",
        "batches",
        "began",
        "checked_at",
        "copies_until",
        "deliveries",
        "found",
        "generation",
        "is_compared",
        "is_unsaved",
        "messages",
        "period",
        "qos",
        "raw",
        "sequence",
    )

    def __init__(self, *, raw: bytes, began: int, period: int, generation: int) -> None:
        self.raw = raw
        self.began = self.checked_at = began
        self.period = period
        self.generation = generation
        self.found: bytes | None = None
        self.is_compared = True
        self.is_unsaved = False
        self.qos = 1
        self.copies_until = 0
        self.sequence = 0
        self.batches: dict[tuple[str, int], Batch] = {}
        self.deliveries: list[Delivery] = []
        self.answers: list[Remembered] = []
        self.messages: tuple[tuple[int, Remembered], ...] = ()

    def is_to_compare(self, now: int, generation: int, *, will_commit: bool) -> bool:
        """Whether the turn that begins has to compare it; a claim over an older one is to be exact."""
        is_fresh, is_trusted = now - self.checked_at < FRESH_FOR_MS, self.generation == generation
        self.is_compared = is_fresh or not (is_trusted and will_commit)
        return not is_trusted or (not is_fresh and not will_commit)

    @property
    def needs_copy(self) -> bool:
        """Whether the claim of the present turn is to be its commit, and has a copy of its state."""
        return self.is_unsaved or self.began < self.copies_until

    def answer_to(self, asked: Remembered) -> Remembered | None:
        """What was answered to a message that has come before; None: it is new.

        Under an Idempotency-Key: what SQL does not have yet.
        """
        known = (one for _, one in self.messages) if asked.is_of_message else self.answers
        return next((one for one in known if (one.scope, one.key) == (asked.scope, asked.key)), None)

    def messages_after(self, commit: Commit) -> tuple[tuple[int, Remembered], ...]:
        """`messages` as they are once the turn is committed."""
        message = commit.remembered
        if message is not None and message.is_of_message:
            return (*self._lately(), (self.began, message))[-MESSAGES:]
        return self._lately() if self.messages else ()

    def _lately(self) -> tuple[tuple[int, Remembered], ...]:
        return tuple(one for one in self.messages if self.began - one[0] < MESSAGE_MS)

    def document_of(
        self, commit: Commit, writer: Holder, messages: tuple[tuple[int, Remembered], ...]
    ) -> ActorDocument:
        """The document of a turn, with all that the history and SQL may not have yet."""
        own = () if commit.batch is None else (commit.batch,)
        answer = commit.remembered
        answers = () if answer is None or answer.is_of_message else (answer,)
        return ActorDocument(
            format=FORMAT,
            sequence=commit.sequence,
            writer=writer,
            entry=commit.entry,
            due=commit.due,
            document=commit.document,
            batches=pack_batches((*self.batches.values(), *own)),
            deliveries=(*self.deliveries, *commit.deliveries),
            remembered=(*self.answers, *answers),
            queued=commit.queued,
            qos=commit.qos,
            messages=tuple(message for _, message in messages),
        )

    def inherit(self, before: "CachedState", document: ActorDocument) -> bool:
        """Takes over from `before` what is pending, where this process wrote `document` itself.

        A batch that is not in `document` belongs to a save that did not happen. True: a save whose result was
        unknown did happen, and SQL does not have its deliveries and answers yet.
        """
        written = {(batch.uid, batch.sequence) for batch in document.batches}
        self.batches = {key: batch for key, batch in before.batches.items() if key in written}
        self.deliveries, self.answers = before.deliveries, before.answers
        has_more = bool(document.deliveries or document.remembered)
        return has_more and document.sequence > before.sequence


class CachedStates:
    """The states of the jobs that were used last, at most `size`."""

    def __init__(self, *, size: int = CACHED_STATES) -> None:
        self._size = size
        self._states: OrderedDict[str, CachedState] = OrderedDict()
        self._job_ids: dict[tuple[str, int], str] = {}

    def get(self, job_id: str) -> CachedState | None:
        """The state of a job, if it is here."""
        return self._states.get(job_id)

    def use(self, job_id: str) -> CachedState | None:
        """As `get`; the job's turn begins."""
        state = self._states.get(job_id)
        if state is not None:
            self._states.move_to_end(job_id)
        return state

    def put(self, job_id: str, state: CachedState) -> None:
        """Replaces the state of a job; the one that was used least recently may go."""
        self._states[job_id] = state
        self._states.move_to_end(job_id)
        while len(self._states) > self._size:
            _, oldest = self._states.popitem(last=False)
            for key in oldest.batches:
                self._job_ids.pop(key, None)

    def drop(self, job_id: str) -> None:
        """The next turn of the job has to load it."""
        self._states.pop(job_id, None)

    def await_history(self, state: CachedState, batch: Batch | None) -> None:
        """All states of the job have `batch` until `forget_batch`."""
        if batch is None:
            return
        key = (batch.uid, batch.sequence)
        state.batches[key] = batch
        self._job_ids[key] = batch.job_id

    def forget_batch(self, key: tuple[str, int]) -> None:
        """No later state has it: it is in the history, or its turn was not written."""
        state = self._states.get(self._job_ids.pop(key, ""))
        if state is not None:
            state.batches.pop(key, None)
