"""Who held which devices when, and why: derived from facts as they happen."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.loop.fold import Turn
from muster.daemon.loop.state import State
from muster.daemon.timeline.span_keeper import SpanKeeper
from muster.model.event import (
    Ended,
    NodeLost,
    Outcome,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.task import Decided, Fact
from muster.store.batch import Span
from tests.builders import cluster, job, placement, view

ONE, TWO = placement(("n0", 0b01)), placement(("n0", 0b01), ("n1", 0b10))
JOB = job("a", 1, most=2)
NUMBER = JOB.number


class Story:
    """Turns of facts, and the spans that are stored."""

    def __init__(self) -> None:
        self.state = State(view(cluster(2)), {}, "fifo").after([Submitted(JOB, 0.0)])
        self.keeper = SpanKeeper()
        self.stored: dict[float, Span] = {}

    def tell(self, *facts: Fact) -> None:
        self.state = replace(self.state.after(facts), gangs={})  # tasks are not in the story
        self.store(self.keeper.changes(Turn(self.state, {}, facts=list(facts))))

    def store(self, spans: Iterable[Span]) -> None:
        made = list(spans)
        self.stored |= {span.began: span for span in made}
        self.keeper.adopt(made)

    @property
    def told(self) -> list[tuple[float, float | None, str, int]]:
        spans = self.stored.values()
        return [(s.began, s.ended, s.status, sum(map(len, s.devices.values()))) for s in spans]


def decided(kind: str, why: str, at: float) -> Decided:
    return Decided(NUMBER, kind, f"{kind}.code", why, at)


def test_the_life_of_a_job() -> None:
    story = Story()
    story.tell(StartBegun(NUMBER, 1, ONE, 1.0), decided("start", "it fits", 1.0))
    story.tell(Started(NUMBER, 1, 3.0))
    story.tell(ResizeBegun(NUMBER, 2, TWO, 9.0), decided("resize", "idle devices", 9.0))
    story.tell(Resized(NUMBER, 2, 10.0))
    story.tell(PreemptBegun(NUMBER, 2, 20.0), decided("preempt", "reclaimed", 20.0))
    story.tell(Preempted(NUMBER, 2, 21.0))
    story.tell(StartBegun(NUMBER, 3, ONE, 30.0), decided("start", "again", 30.0))
    story.tell(Ended(NUMBER, 3, Outcome.SUCCEEDED, 40.0))
    assert story.told == [
        (1.0, 3.0, "starting", 1),
        (3.0, 9.0, "running", 1),
        (9.0, 10.0, "resizing", 2),
        (10.0, 20.0, "running", 2),
        (20.0, 21.0, "preempting", 2),
        (30.0, 40.0, "starting", 1),
    ]
    why = {span.began: (span.code, span.reason) for span in story.stored.values()}
    assert why[3.0] == why[1.0] == ("start.code", "it fits"), "what was decided takes its course"
    assert why[10.0] == why[9.0] == ("resize.code", "idle devices")
    assert why[20.0] == ("preempt.code", "reclaimed")
    assert story.stored[9.0].devices == {"n0": (0,), "n1": (1,)}


def test_a_lost_node_takes_its_devices_out_of_all_spans() -> None:
    story = Story()
    story.tell(StartBegun(NUMBER, 1, TWO, 1.0))
    story.tell(Started(NUMBER, 1, 2.0))
    story.tell(NodeLost("n1", 5.0, "no heartbeat"))
    last = [span for span in story.stored.values() if span.began >= 5.0]
    assert all("n1" not in span.devices for span in last)
    assert story.stored[2.0].ended == 5.0
    assert all(span.reason == "node n1 lost: no heartbeat" for span in last)


def test_what_could_not_be_written_is_told_again() -> None:
    story = Story()
    before, facts = story.state, [StartBegun(NUMBER, 1, ONE, 1.0)]
    lost = story.keeper.changes(Turn(before.after(facts), {}, facts=list(facts)))
    assert lost
    story.tell(*facts)
    assert story.told == [(1.0, None, "starting", 1)]


def test_a_new_daemon_goes_on_where_the_last_one_was_and_fills_in_what_is_missing() -> None:
    story = Story()
    story.tell(StartBegun(NUMBER, 1, ONE, 1.0))
    gone = Span(99, 0.5, "running", {"n1": (0,)})
    story.keeper = SpanKeeper()
    story.keeper.restore([story.stored[1.0], gone], story.state, 7.0)
    story.tell(Started(NUMBER, 1, 8.0))
    assert story.stored[0.5].ended == 7.0, "its job holds nothing any more"
    assert story.told[0] == (1.0, 8.0, "starting", 1)
    old = Story()
    old.state = story.state
    old.keeper.restore([], story.state, 9.0)
    old.tell(Ended(NUMBER, 1, Outcome.SUCCEEDED, 12.0))
    ((began, ended, status, _),) = old.told
    assert (ended, status) == (12.0, "running"), "of a store from before there were spans"
    assert began == 1.0


@given(st.lists(st.sampled_from(["grow", "shrink", "preempt", "start", "end"]), max_size=12))
def test_spans_of_a_job_never_overlap_and_the_last_is_what_it_holds(acts: list[str]) -> None:
    story, at, generation = Story(), 0.0, 0
    for act in acts:
        at += 1.0
        state = story.state.view.jobs.get(NUMBER)
        if state is None:
            break
        waits = state.placement is None
        if act == "start" and waits:
            generation += 1
            story.tell(StartBegun(NUMBER, generation, ONE, at))
            story.tell(Started(NUMBER, generation, at + 0.5))
        elif act in ("grow", "shrink") and not waits:
            generation += 1
            target = TWO if act == "grow" else ONE
            story.tell(ResizeBegun(NUMBER, generation, target, at))
            story.tell(Resized(NUMBER, generation, at + 0.5))
        elif act == "preempt" and not waits:
            story.tell(PreemptBegun(NUMBER, generation, at), Preempted(NUMBER, generation, at))
        elif act == "end" and not waits:
            story.tell(Ended(NUMBER, generation, Outcome.SUCCEEDED, at))
    spans = sorted(story.stored.values(), key=lambda span: span.began)
    for one, after in pairwise(spans):
        assert one.ended is not None and one.began <= one.ended <= after.began
    state = story.state.view.jobs.get(NUMBER)
    holds = state is not None and state.placement is not None
    assert (bool(spans) and spans[-1].ended is None) == holds
