"""Outlooks that are told again because nothing has changed."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Job
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner, StepReport
from tests.builders import job

JOBS = [
    job("a", 1, number=1, most=8, application="net", batch=64),
    job("b", 1, number=2, most=4, application="net", batch=64),
    job("c", 2, number=3, most=2, application="other", batch=32),
    job("d", 1, number=4, most=4),
]
PLACES = [None, Held("A", (1,)), Held("A", (2,)), Held("A", (4, 1)), Held("B", (1,))]

acts = st.tuples(
    st.sampled_from(["report", "pause", "go on", "move", "end", "nothing"]),
    st.sampled_from(range(len(JOBS))),
    st.sampled_from(range(len(PLACES))),
    st.floats(0.1, 50.0),
)


class Story:
    """A learner that is told of some jobs, and where they are."""

    def __init__(self) -> None:
        self.learner = Learner({"A": 4, "B": 4})
        self.done = dict.fromkeys(range(len(JOBS)), 0.0)
        self.held: dict[int, Held | None] = dict.fromkeys(range(len(JOBS)))

    def act(self, what: str, who: int, place: int, amount: float) -> None:
        each, held = JOBS[who], self.held[who]
        if what == "report" and held is not None:
            self.learner.watch(each, held, StepReport(amount), self.done[who])
        elif what == "pause":
            self.learner.paused(each, list(ChangeKind)[place % 2], amount)
        elif what == "go on":
            self.done[who] += amount
        elif what == "move":
            self.held[who] = PLACES[place]
        elif what == "end":
            self.learner.ended(each, amount)
            self.done[who], self.held[who] = 0.0, None

    def outlook(self, who: int, each: Job) -> object:
        return self.learner.outlook(each, self.held[who], self.done[who])


@settings(max_examples=40, deadline=None)
@given(st.lists(acts, max_size=20))
def test_what_is_told_again_is_what_would_be_worked_out(
    story: list[tuple[str, int, int, float]],
) -> None:
    kept, fresh = Story(), Story()
    for act in story:
        kept.act(*act)
        fresh.act(*act)
        for who, each in enumerate(JOBS):
            # An equal job that is another object has no last outlook.
            assert kept.outlook(who, each) == fresh.outlook(who, replace(each))


def test_a_job_that_waits_is_told_the_same_until_something_is_heard() -> None:
    story = Story()
    first = story.outlook(0, JOBS[0])
    assert story.outlook(0, JOBS[0]) is first
    story.act("move", 1, 1, 0.0)
    story.act("report", 1, 0, 2.0)
    assert story.outlook(0, JOBS[0]) is not first
