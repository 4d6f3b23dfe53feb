"""The decider decides as a cycle in the daemon would, and tells only what is new."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.planners.delta import delta
from muster.core.state.begin import begun
from muster.core.state.evolve import evolve
from muster.daemon.decider.decider import Decider, DeciderQuestion
from muster.daemon.decider.news import News
from muster.daemon.planners.pickles import dumps, loads
from muster.model.decision import Decision, Kind, Promise
from muster.model.reason import Code, Reason
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, view
from tests.world import World


@dataclass
class Apart:
    """A decider that is asked through bytes, as its process is, and what its daemon knows."""

    decider: Decider
    waits: dict[int, Decision] = field(default_factory=dict)
    """Why jobs wait, as far as the journal says."""
    seen: View | None = None
    sent: tuple[Decision, ...] = ()

    def decide(
        self, asked: View, now: float, *, adopted: bool, promises: tuple[Promise, ...] = ()
    ) -> Decisions:
        if adopted:
            self.waits |= {each.job: each for each in self.sent if each.kind is Kind.WAIT}
        change = loads(dumps(delta(self.seen, asked)))
        answer = self.decider.decide(change, DeciderQuestion(now, adopted, promises=promises))
        found: Decisions = loads(dumps(answer))
        self.seen, self.sent = asked, found.decisions
        return replace(found, decisions=tuple(self._whole(asked, found)))

    def _whole(self, asked: View, found: Decisions) -> Iterator[Decision]:
        yield from found.decisions
        told = {each.job for each in found.decisions}
        for number, state in asked.jobs.items():
            if state.phase is Phase.WAITING and number not in told:
                yield self.waits[number]


WAITS = Reason(Code.WAITING_DEVICES)


def by_job(decided: Decisions) -> dict[int, Decision]:
    assert len({each.job for each in decided.decisions}) == len(decided.decisions)
    return {each.job: each for each in decided.decisions}


ACTS = st.lists(st.tuples(st.sampled_from(["submit", "end", "pass"]), st.integers(1, 5)), max_size=8)


@given(ACTS, st.sampled_from(["muster", "fifo", "tiresias"]), st.lists(st.booleans(), min_size=9))
@settings(max_examples=25)
def test_it_decides_as_the_daemon_would_whatever_happens_and_is_written(
    acts: list[tuple[str, int]], policy: str, written: list[bool]
) -> None:
    here, memory = Cycle(POLICIES[policy]), Memory()
    there, adopted = Apart(Decider(policy)), False
    world = World(view(cluster(2), [job("first", 2, most=4), job("second", 8)]))
    for turn, (act, count) in enumerate([("pass", 1), *acts]):
        if act == "submit":
            world.submit(*(job(f"j{turn}-{i}", i % 4 + 1, most=4) for i in range(count)))
        elif act == "end":
            held = [s.job.name for s in world.view.jobs.values() if s.placement is not None]
            for name in held[:count]:
                world.end(name)
        one = here.decide(world.view, world.now, memory)
        other = there.decide(world.view, world.now, adopted=adopted, promises=memory.promises)
        assert by_job(one) == by_job(other)
        assert (one.entitlements, one.order) == (other.entitlements, other.order)
        assert one.again == other.again
        adopted = written[turn % len(written)]
        if adopted:
            memory = one.memory
            world.view = evolve(world.view, begun(one, world.now))
            world.complete()
        world.now += 60.0


def test_only_what_is_new_is_told() -> None:
    there = Apart(Decider("fifo"))
    asked = view(cluster(1), [job("big", 99), job("other", 99)])
    there.decide(asked, 0.0, adopted=False)
    assert {each.kind for each in there.sent} == {Kind.WAIT}
    first = there.sent
    there.decide(asked, 1.0, adopted=True)
    assert there.sent == ()
    there.decide(asked, 2.0, adopted=False)
    assert there.sent == first, "what was not written is told again"


def test_of_five_thousand_jobs_that_wait_one_that_is_new_is_told() -> None:
    waits = [Decision(Kind.WAIT, number, 0, WAITS) for number in range(5_000)]
    news = News()
    assert len(news.of(waits, adopted=False)) == 5_000
    new = Decision(Kind.WAIT, 5_000, 0, WAITS)
    assert news.of([*waits, new], adopted=True) == (new,)
