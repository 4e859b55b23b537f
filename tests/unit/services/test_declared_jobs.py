"""What is to be done about declared jobs, as a function of all that is known (SPEC section 11)."""

from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.registered_services import Applied, Service
from scheduler_service.services.declared_jobs import (
    Action,
    Case,
    DeclaredJob,
    DriftKind,
    ExistingJob,
    Verdict,
    judge,
    must_compare,
)
from tests.rows import each_row

GRACE = 1_000
SERVICE = Service(tenant="default", name="billing", grace=GRACE)
KEEPING = msgspec.structs.replace(SERVICE, keeps=True)
DECLARED = DeclaredJob("job", b"one")
OFF = DeclaredJob("job", b"one", active=False)
DONE = Applied("default", "billing", "job", b"one", "uid", 1)
ACTIVE, PAUSED, FINISHED = JobState.ACTIVE, JobState.PAUSED, JobState.FINISHED
STORED = ExistingJob("uid", 1, ACTIVE, "billing")
EDITED = ExistingJob("uid", 2, ACTIVE, "billing", equal=False)
CHANGED = DeclaredJob("job", b"two")
GONE = msgspec.structs.replace(DONE, removed_at=100, paused=True)


def verdict(
    declared: DeclaredJob | None,
    applied: Applied | None,
    stored: ExistingJob | None,
    *,
    service: Service = SERVICE,
    now: int = 100,
    force: bool = False,
) -> Verdict:
    return judge(Case(service, "job", declared, applied, stored, now, force))


@each_row(
    ("declared", "applied", "stored", "kind", "action"),
    [
        (DECLARED, None, None, DriftKind.MISSING, Action.CREATE),
        (DECLARED, DONE, None, DriftKind.LOST, Action.CREATE),
        (DECLARED, DONE, STORED, DriftKind.SAME, Action.NONE),
        (DECLARED, None, STORED, DriftKind.SAME, Action.NONE),
        (CHANGED, DONE, msgspec.structs.replace(STORED, equal=False), DriftKind.CHANGED, Action.UPDATE),
        (CHANGED, DONE, STORED, DriftKind.SAME, Action.NONE),
        (DECLARED, DONE, EDITED, DriftKind.OVERRIDDEN, Action.NONE),
        (DECLARED, DONE, msgspec.structs.replace(EDITED, equal=True), DriftKind.SAME, Action.NONE),
        (CHANGED, DONE, EDITED, DriftKind.CHANGED, Action.UPDATE),
        (DECLARED, None, EDITED, DriftKind.CHANGED, Action.UPDATE),
        (DECLARED, DONE, msgspec.structs.replace(STORED, state=PAUSED), DriftKind.PAUSED, Action.NONE),
        (OFF, DONE, STORED, DriftKind.STARTED, Action.NONE),
        (OFF, DONE, msgspec.structs.replace(STORED, state=PAUSED), DriftKind.SAME, Action.NONE),
        (OFF, DONE, msgspec.structs.replace(STORED, state=FINISHED), DriftKind.SAME, Action.NONE),
        (DECLARED, None, ExistingJob("other", 1, ACTIVE, ""), DriftKind.FOREIGN, Action.NONE),
        (DECLARED, DONE, ExistingJob("other", 1, ACTIVE, "shop"), DriftKind.FOREIGN, Action.NONE),
        (None, DONE, STORED, DriftKind.REMOVED, Action.PAUSE),
        (None, DONE, msgspec.structs.replace(STORED, state=PAUSED), DriftKind.REMOVED, Action.NONE),
        (None, GONE, STORED, DriftKind.REMOVED, Action.NONE),
        (None, DONE, None, DriftKind.SAME, Action.NONE),
        (None, DONE, ExistingJob("other", 1, ACTIVE, ""), DriftKind.SAME, Action.NONE),
    ],
)
def test_each_case_has_its_verdict(
    declared: DeclaredJob | None,
    applied: Applied | None,
    stored: ExistingJob | None,
    kind: DriftKind,
    action: Action,
) -> None:
    """Created, updated, kept as an override, paused, left alone (SPEC section 11)."""
    found = verdict(declared, applied, stored)
    assert (found.kind, found.action) == (kind, action)


def test_a_removed_job_is_destroyed_when_its_grace_is_over() -> None:
    """Removed ones are paused, then destroyed after a grace period (SPEC section 11)."""
    paused = msgspec.structs.replace(STORED, state=PAUSED)
    assert verdict(None, GONE, paused, now=100 + GRACE - 1).action is Action.NONE
    ended = verdict(None, GONE, paused, now=100 + GRACE)
    assert (ended.kind, ended.action, ended.noted) == (DriftKind.EXPIRED, Action.DESTROY, None)
    # Declared again within its grace, it is started by whoever paused it (SPEC section 11)
    paused = msgspec.structs.replace(STORED, state=PAUSED)
    assert verdict(DECLARED, GONE, paused).action is Action.ACTIVATE
    by_person = msgspec.structs.replace(GONE, paused=False)
    assert verdict(DECLARED, by_person, paused).action is Action.NONE
    changed = verdict(CHANGED, GONE, msgspec.structs.replace(EDITED, state=PAUSED))
    assert (changed.action, changed.active) == (Action.UPDATE, True)
    stays = verdict(DeclaredJob("job", b"two", active=False), GONE, paused)
    assert stays.action is Action.NONE


def test_keep_lets_the_stored_definition_win() -> None:
    """`onChange: keep`, as 000 and 002 have it (SPEC section 11); what is lost is made again all the same."""
    found = verdict(CHANGED, DONE, EDITED, service=KEEPING)
    assert (found.kind, found.action) == (DriftKind.KEPT, Action.NONE)
    assert verdict(CHANGED, found.noted, EDITED, service=KEEPING) == found
    assert verdict(DECLARED, DONE, None, service=KEEPING).action is Action.CREATE
    assert verdict(None, DONE, STORED, service=KEEPING).action is Action.PAUSE
    assert verdict(CHANGED, DONE, EDITED, service=KEEPING, force=True).action is Action.UPDATE
    # An override stays until the declaration changes or `force` is given (SPEC section 11)
    assert verdict(DECLARED, DONE, EDITED, force=True).action is Action.UPDATE
    paused = msgspec.structs.replace(STORED, state=PAUSED)
    assert verdict(DECLARED, DONE, paused, force=True).action is Action.ACTIVATE
    foreign = ExistingJob("other", 7, ACTIVE, "shop", equal=False)
    taken = verdict(DECLARED, None, foreign, force=True)
    assert (taken.action, taken.noted and taken.noted.revision) == (Action.UPDATE, 7)
    assert verdict(OFF, None, STORED, force=True).action is Action.PAUSE
    manual = DeclaredJob("job", b"one", manual=True)
    assert verdict(manual, DONE, paused, force=True).action is Action.NONE
    # Unless it is declared anew or forced, it does not run a second time (SPEC section 11)
    finished = verdict(DECLARED, DONE, msgspec.structs.replace(STORED, state=FINISHED))
    assert (finished.kind, finished.action) == (DriftKind.SAME, Action.NONE)
    assert finished.noted is not None
    assert finished.noted.finished
    gone = verdict(DECLARED, finished.noted, None)
    assert (gone.kind, gone.action, gone.noted) == (DriftKind.FINISHED, Action.NONE, finished.noted)
    assert verdict(CHANGED, finished.noted, None).action is Action.CREATE
    assert verdict(DECLARED, finished.noted, None, force=True).action is Action.CREATE


@each_row(
    ("declared", "state", "action"),
    [
        (DeclaredJob("job", b"two", active=True), PAUSED, Action.ACTIVATE),
        (DeclaredJob("job", b"two", active=False), ACTIVE, Action.PAUSE),
        (DeclaredJob("job", b"two"), PAUSED, Action.NONE),
        (DeclaredJob("job", b"two", active=True, manual=True), PAUSED, Action.NONE),
        (DeclaredJob("job", b"two", active=False), PAUSED, Action.NONE),
    ],
)
def test_a_changed_declaration_switches_what_it_says_outright(
    declared: DeclaredJob, state: JobState, action: Action
) -> None:
    """`active` is no part of the definition's comparison (SPEC section 10), and not forgotten either."""
    assert verdict(declared, DONE, msgspec.structs.replace(STORED, state=state)).action is action
    same = msgspec.structs.replace(declared, digest=b"one")
    assert verdict(same, DONE, msgspec.structs.replace(STORED, state=state)).action is Action.NONE


def test_definitions_are_read_only_where_something_has_moved() -> None:
    """A scan over thousands of jobs that stand still reads no definition."""
    assert not must_compare(DECLARED, DONE, STORED)
    assert not must_compare(None, DONE, STORED)
    assert not must_compare(DECLARED, DONE, None)
    assert must_compare(CHANGED, DONE, STORED)
    assert must_compare(DECLARED, DONE, EDITED)
    assert must_compare(DECLARED, None, STORED)


@dataclass
class World:
    """One job id in a small world: what is declared, what is stored, what was noted; texts are numbers."""

    declared: int | None = None
    active: bool | None = None
    text: int = 0
    state: JobState | None = None
    owner: str = ""
    uid: int = 0
    revision: int = 0
    noted: Applied | None = None
    now: int = 0
    made: list[tuple[int, str]] = field(default_factory=list)
    updates: int = 0
    service: Service = SERVICE

    def case(self, *, force: bool = False) -> Case:
        declared = self.declaration()
        stored = None
        if self.state is not None:
            same = self.noted is not None and self.noted.uid == str(self.uid)
            stored = ExistingJob(str(self.uid), self.revision, self.state, "" if same else self.owner)
            if must_compare(declared, self.noted, stored):
                stored = msgspec.structs.replace(stored, equal=self.text == self.declared)
        return Case(self.service, "job", declared, self.noted, stored, self.now, force)

    def declaration(self) -> DeclaredJob | None:
        if self.declared is None:
            return None
        return DeclaredJob("job", f"{self.declared}{self.active}".encode(), self.active)

    def scan(self, *, force: bool = False, forgets: bool = False) -> Verdict:
        """One scan; `forgets`: the process dies between what is done and its note."""
        verdict = judge(self.case(force=force))
        noted = verdict.noted
        match verdict.action:
            case Action.CREATE:
                assert self.declared is not None
                self.create(self.declared, "billing", active=self.active is not False)
                assert noted is not None
                noted = msgspec.structs.replace(noted, uid=str(self.uid), revision=1)
            case Action.UPDATE:
                assert self.declared is not None
                assert noted is not None
                self.text, self.revision, self.owner = self.declared, self.revision + 1, "billing"
                self.updates += 1
                noted = msgspec.structs.replace(noted, revision=self.revision)
                if verdict.active is not None or self.state is FINISHED:
                    self.state = PAUSED if verdict.active is False else ACTIVE
            case Action.PAUSE:
                self.state = PAUSED
            case Action.ACTIVATE:
                self.state = ACTIVE
            case Action.DESTROY:
                self.state = None
        if not forgets:
            self.noted = noted
        return verdict

    def create(self, text: int, owner: str, *, active: bool = True) -> None:
        self.uid, self.revision, self.text, self.owner = self.uid + 1, 1, text, owner
        self.state = ACTIVE if active else PAUSED
        self.made.append((text, owner))


STEP = st.one_of(
    st.tuples(st.just("declare"), st.integers(1, 2), st.sampled_from([None, True, False])),
    st.tuples(
        st.sampled_from(["undeclare", "edit", "pause", "resume", "finish", "destroy", "steal", "wipe"])
    ),
    st.tuples(st.just("pass"), st.sampled_from([1, GRACE // 2, GRACE])),
    st.tuples(st.sampled_from(["scan", "die"])),
)


def take(world: World, step: tuple[object, ...]) -> None:
    match step:
        case ("declare", int(text), active):
            world.declared, world.active = text, active if isinstance(active, bool) else None
        case ("undeclare",):
            world.declared = None
        case ("edit",) if world.state is not None:
            world.text, world.revision = 9, world.revision + 1
        case ("pause",) if world.state is ACTIVE:
            world.state = PAUSED
        case ("resume",) if world.state is PAUSED:
            world.state = ACTIVE
        case ("finish",) if world.state is ACTIVE:
            world.state = FINISHED
        case ("destroy",):
            world.state = None
        case ("steal",) if world.state is None:
            world.create(9, "")
        case ("wipe",):
            world.state, world.noted = None, None
        case ("pass", int(passed)):
            world.now += passed
        case ("scan",):
            world.scan()
        case ("die",):
            world.scan(forgets=True)


@given(st.lists(STEP, max_size=30), st.booleans())
def test_whatever_happened_a_scan_settles(steps: list[tuple[object, ...]], keeps: bool) -> None:
    """Two scans in one moment: the second does nothing, wherever an earlier one died (SPEC section 11)."""
    world = World(service=KEEPING if keeps else SERVICE)
    for step in steps:
        take(world, step)
    world.scan()
    noted, updates = world.noted, world.updates
    again = world.scan()
    assert again.action is Action.NONE
    assert (world.noted, world.updates) == (noted, updates)
    if world.declared is not None and world.state is None:
        assert again.kind is DriftKind.FINISHED
    if world.declared is None and world.state is not None and world.owner == "billing":
        assert world.noted is None or world.noted.removed_at is not None


@given(st.lists(STEP, max_size=30))
def test_force_leaves_no_difference(steps: list[tuple[object, ...]]) -> None:
    """After `force` the job is there, with the declared definition, whatever was before (SPEC section 11)."""
    world = World()
    for step in steps:
        take(world, step)
    world.declared, world.active = 1, None
    world.scan(force=True)
    assert world.state is not None
    assert world.text == 1
    assert world.scan().kind in (DriftKind.SAME, DriftKind.PAUSED)


@given(st.lists(STEP, max_size=30))
def test_a_foreign_job_is_never_touched(steps: list[tuple[object, ...]]) -> None:
    """What a person made under a declared id stays theirs until somebody forces it."""
    world = World()
    for step in steps:
        take(world, step)
        if world.state is not None and world.owner == "":
            assert world.text == 9
            assert world.made[-1] == (9, "")


@given(st.lists(STEP.filter(lambda step: step[0] not in ("declare", "undeclare", "wipe")), max_size=20))
def test_an_edit_stays_while_the_declaration_does(steps: list[tuple[object, ...]]) -> None:
    """An override is kept until the declaration changes; a scan that dies updates nothing either."""
    world = World(declared=1)
    world.scan()
    for step in steps:
        edited = world.text == 9 and world.state is not None
        uid = world.uid
        take(world, step)
        if edited and world.state is not None and world.uid == uid:
            assert world.text == 9
    assert world.updates == 0
