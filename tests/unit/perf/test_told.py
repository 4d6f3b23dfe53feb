"""Outlooks that are told again because nothing has changed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner
from muster.perf.learnt.step_report import StepReport
from tests.builders import job

JOBS = [
    job("a", 1, number=1, most=8, application="net", batch=64),
    job("b", 1, number=2, most=4, application="net", batch=64),
    job("c", 2, number=3, most=2, application="other", batch=32),
    job("d", 1, number=4, most=4),
]
NODES = {"A": 4, "B": 4}
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
        self.learner = Learner(NODES)
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

    def outlook(self, who: int, each: Job) -> Outlook:
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


@settings(max_examples=40, deadline=None)
@given(st.lists(acts, max_size=20))
def test_what_most_reports_confirm_is_what_a_learner_believes_that_keeps_no_answers(
    story: list[tuple[str, int, int, float]],
) -> None:
    kept, forgetful = Story(), Story()
    for act in story:
        kept.act(*act)
        forgetful.act(*act)
        forgetful.learner.follow({})
        forgetful.learner.follow(NODES)  # other nodes: all answers are worked out again
        for who, each in enumerate(JOBS):
            one, other = kept.outlook(who, each), forgetful.outlook(who, each)
            assert numbers(one) == pytest.approx(numbers(other))
            assert one.untried == other.untried


def numbers(outlook: Outlook) -> list[float]:
    rates = [outlook.speed.rate(kind, count) for kind in NODES for count in (1, 2, 4, 5, 8)]
    return [outlook.left, outlook.spread, outlook.here or -1.0, outlook.start or -1.0, *rates]


def test_a_job_that_waits_is_told_the_same_until_something_is_heard() -> None:
    story = Story()
    first = story.outlook(0, JOBS[0])
    assert story.outlook(0, JOBS[0]) is first
    story.act("move", 1, 1, 0.0)
    story.act("report", 1, 0, 2.0)
    assert story.outlook(0, JOBS[0]) is not first


def test_a_report_that_confirms_what_is_believed_changes_no_speed() -> None:
    story = Story()
    for place in (1, 2):
        story.act("move", 0, place, 0.0)
        for _ in range(4):
            story.act("report", 0, 0, 2.0)
    story.act("move", 1, 2, 0.0)
    before = story.outlook(1, JOBS[1])
    story.act("report", 0, 0, 2.0)
    assert story.outlook(1, JOBS[1]).speed is before.speed
    story.act("report", 0, 0, 9.0)
    assert story.outlook(1, JOBS[1]).speed != before.speed
