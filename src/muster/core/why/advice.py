"""What would start a waiting job, or enlarge a running one: changes tried by deciding again.

A change is advised only if the cycle, asked again with it, gives that very job what is said: at once,
or once those that make way for it have done so. A job takes fewer workers or another priority as it is;
anything else asks for another submission, and is tried as one, at the end of the queue.

Every try is a cycle, so this is worked out when somebody asks, not for every job all the time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.cycle.sections import Sections, allocate
from muster.core.cycle.standing import Standing
from muster.core.quotas.pools import entitle
from muster.core.state.begin import begun
from muster.core.state.evolve import evolve
from muster.core.why.rivals import Rivals
from muster.core.why.variants import largest, leaner, thinner, wider, with_spread
from muster.model.decision import Decision, Kind
from muster.model.event import Event, Migrated, Preempted, Resized, Started
from muster.model.job import Job, Role
from muster.model.reason import QueueRank, RequestChange
from muster.model.view import JobState, Phase, View
from muster.policy.base import Policy

ROUNDS = 3
"""Cycles until a job has what a change brings it: others stop or shrink, it starts, and it grows."""
STEPS = (1, 2, 4, 8)
"""Steps of priority that are tried: each doubles a job's weight under the default policy."""
MOST_TRIES = 32
"""Most changes tried for one answer: each is a cycle over all live jobs."""

_COMPLETES: dict[Phase, type[Started | Resized | Migrated | Preempted]] = {
    Phase.STARTING: Started,
    Phase.RESIZING: Resized,
    Phase.MIGRATING: Migrated,
    Phase.PREEMPTING: Preempted,
}


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that gives a job more than it has, and what it then gets."""

    change: RequestChange
    workers: int
    devices: int
    at_once: bool
    """False: once others have made way."""
    again: bool = False
    """Whether it has to be submitted again: nothing else changes this of a job."""


@dataclass(frozen=True, slots=True)
class AdviceQuestion:
    """What the daemon would decide on now, and the job in question."""

    view: View
    now: float
    memory: Memory
    job: int
    pools: tuple[str, ...] = ()
    """Other leaf pools that its user may submit to."""
    highest: int = 0
    """The highest priority that its user may give it."""


@dataclass(slots=True)
class _Trier:
    """Decides again and again about one job, changed."""

    cycle: Cycle
    asked: AdviceQuestion
    tries: int = field(default=0)

    def gets(self, job: Job, *, again: bool) -> tuple[Decision, bool] | None:
        """Return the decision that gives the job more than it has now, and whether at once."""
        if self.tries >= MOST_TRIES:
            return None
        self.tries += 1
        state, view = self.asked.view.jobs[self.asked.job], self.asked.view
        number = max(view.jobs) + 1 if again else state.number
        jobs = {**view.jobs}
        if again:
            del jobs[state.number]
            state = JobState(replace(job, number=number), Phase.WAITING, self.asked.now)
        else:
            state = replace(state, job=job, reshaped=state.reshaped or job.roles != state.job.roles)
        jobs[number] = state
        believed = view.outlooks.get(self.asked.job)
        outlooks = view.outlooks if believed is None else {**view.outlooks, number: believed}
        return self._play(replace(view, jobs=jobs, outlooks=outlooks, names={}), number)

    def _play(self, view: View, number: int) -> tuple[Decision, bool] | None:
        """Decide until the job is given more, or nobody makes way any more."""
        had, memory, now = _workers(view.jobs[number]), self.asked.memory, self.asked.now
        for turn in range(ROUNDS):
            decided = self.cycle.decide(view, now, memory)
            own = next((each for each in decided.decisions if each.job == number), None)
            placed = own.placement if own is not None else None
            if own is not None and placed is not None and placed.count(Role.WORKER) > had:
                return own, turn == 0
            if not _makes_way(decided):
                return None
            view, memory = _completed(view, decided, now), decided.memory
        return None


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a job competes with, and what would give it more."""

    rank: QueueRank | None
    advice: tuple[Advice, ...]


def inquire(policy: Policy, asked: AdviceQuestion) -> Inquiry:
    """Answer why a job has no more than it has, and what would change that."""
    return Inquiry(rank_of(policy, asked), advise(policy, asked))


def rank_of(policy: Policy, asked: AdviceQuestion) -> QueueRank | None:
    """Return where a waiting or running job stands, by what holds now."""
    view, memory = asked.view, asked.memory
    standing = Standing(view)
    entitled = entitle(view.pools, standing.available, standing.demands(memory.promises))
    memories = {**memory.others, policy.name: memory.policy}
    shares = allocate(Sections(policy).of(view.pools), view, entitled, asked.now, memories)
    merits = [(share.merits(), share.steers) for share in shares if share.merits is not None]
    return Rivals(view, entitled, merits, JobState.held).rank(view.jobs[asked.job])


def advise(policy: Policy, asked: AdviceQuestion) -> tuple[Advice, ...]:
    """Return what would start a waiting job now, or enlarge one that runs; at most one of each kind."""
    state = asked.view.jobs[asked.job]
    trier = _Trier(Cycle(policy, explain=False), asked)
    if trier.gets(state.job, again=False) is not None:
        return ()  # it gets more as it is
    waits = state.phase is Phase.WAITING
    fresh = waits and not state.generation
    found = [_fewer(trier, state.job) if waits else _more(trier, state), _sooner(trier, state.job)]
    if fresh:
        found += _elsewhere(trier, state.job)
    return tuple(each for each in found if each is not None)


def _fewer(trier: _Trier, job: Job) -> Advice | None:
    """Return the most workers, fewer than it asks for, with which it starts."""
    gang, made = job.workers.gang, dict[int, Advice]()

    def starts(workers: int) -> bool:
        change = RequestChange("workers", _span(workers, job))
        found = _tried(trier, change, with_spread(job, workers), again=False)
        if found is not None:
            made[workers] = found
        return found is not None

    return made.get(largest(gang, starts))


def _span(workers: int, job: Job) -> str:
    most = job.workers.most
    return f"{workers}..{most}" if job.elastic and most > workers else str(workers)


def _more(trier: _Trier, state: JobState) -> Advice | None:
    """Return that a job which has all it asks for gets more if it asks for twice as many."""
    workers = state.job.workers
    if _workers(state) < workers.most:
        return None
    most = 2 * workers.most
    change = RequestChange("workers", f"{workers.least}..{most}")
    spec = replace(workers, gang=workers.least, most=most)
    roles = tuple(spec if each.role is Role.WORKER else each for each in state.job.roles)
    return _tried(trier, change, replace(state.job, roles=roles), again=False)


def _sooner(trier: _Trier, job: Job) -> Advice | None:
    """Return the lowest higher priority that helps."""
    for step in STEPS:
        value = job.priority + step
        if value > trier.asked.highest:
            return None
        change = RequestChange("priority", str(value))
        found = _tried(trier, change, replace(job, priority=value), again=False)
        if found is not None:
            return found
    return None


def _elsewhere(trier: _Trier, job: Job) -> Iterator[Advice | None]:
    """Yield what would start it if it were submitted again: the first of each field that would."""
    done: set[str] = set()
    others = ((RequestChange("pool", pool), replace(job, pool=pool)) for pool in trier.asked.pools)
    for change, changed in (*wider(job, trier.asked.view.cluster.device_types()), *others):
        if change.field not in done:
            found = _tried(trier, change, changed, again=True)
            if found is not None:
                done.add(change.field)
                yield found
    if not done:
        yield _smaller(trier, job)


def _smaller(trier: _Trier, job: Job) -> Advice | None:
    """Return a smaller need of each task with which it starts."""
    for change, changed in (*thinner(job), *leaner(job)):
        found = _tried(trier, change, changed, again=True)
        if found is not None:
            return found
    return None


def _tried(trier: _Trier, change: RequestChange, job: Job, *, again: bool) -> Advice | None:
    found = trier.gets(job, again=again)
    if found is None or found[0].placement is None:
        return None
    placed, at_once = found[0].placement, found[1]
    return Advice(change, placed.count(Role.WORKER), placed.devices, at_once, again)


def _workers(state: JobState) -> int:
    return state.placement.count(Role.WORKER) if state.placement is not None else 0


def _makes_way(decided: Decisions) -> bool:
    """Whether some job changes or stops: then the next cycle has more to give."""
    return any(each.kind not in (Kind.WAIT, Kind.REPLAN) for each in decided.decisions)


def _completed(view: View, decided: Decisions, now: float) -> View:
    """Return the view once all that was begun is done."""
    view = evolve(view, begun(decided, now))
    changing = (state for state in view.jobs.values() if state.phase in _COMPLETES)
    return evolve(view, [_completion(state, now) for state in changing])


def _completion(state: JobState, now: float) -> Event:
    return _COMPLETES[state.phase](state.number, state.generation, now)
