"""A job's story, from the facts of its journal."""

from muster.daemon.story.condense import DOZEN, condensed
from muster.daemon.story.from_spans import lines_of
from muster.daemon.story.lines import StoryTeller
from muster.model import event as e
from muster.model.task import Decided, Fact, RunBroken
from muster.store.batch import Span
from muster.wire.api.records import JobRecord
from muster.wire.api.story_records import StoryLine
from tests.builders import job, placement


def told(*facts: Fact) -> list[StoryLine]:
    teller = StoryTeller()
    teller.tell(facts)
    return teller.lines


ONE, TWO = placement(("n0", 1)), placement(("n0", 1), ("n0", 2))
ASKED = e.Submitted(job("j", number=12, user="ann", most=2), 0.0)


def life() -> list[Fact]:
    """Waits, starts, grows, makes way, starts again and ends."""
    return [
        ASKED,
        Decided(12, "wait", "waiting.devices", "too few; held by x", 0.1),
        Decided(12, "wait", "waiting.policy", "others first", 5.0),
        e.StartBegun(12, 1, ONE, 60.0),
        Decided(12, "start", "started.fits", "it fits", 60.0),
        e.Started(12, 1, 61.0),
        e.ResizeBegun(12, 2, TWO, 100.0),
        Decided(12, "resize", "resized.grown", "devices are free", 100.0, cost=3.0, speed=1.8),
        e.Resized(12, 2, 101.0),
        e.PreemptBegun(12, 2, 161.0),
        Decided(12, "preempt", "preempted.policy", "for y", 161.0, served=13, given=2, cost=40.0),
        e.Preempted(12, 2, 162.0),
        e.StartBegun(12, 3, ONE, 162.5),
        Decided(12, "start", "started.fits", "it fits", 162.5),
        e.Started(12, 3, 163.0),
        e.Ended(12, 3, e.Outcome.SUCCEEDED, 200.0),
    ]


def test_a_story_goes_from_the_submission_to_the_end() -> None:
    lines = told(*life())
    assert [line.what for line in lines] == [
        "submitted",
        "waited",
        "started",
        "grew",
        "preempted",
        "started",
        "ended",
    ]
    assert lines[0].text == "submitted by ann to pool default, asks for 1..2 workers"
    assert lines[3].text == "1 to 2 workers on n0[0-1]: devices are free"
    assert lines[-1].text == "succeeded"


def test_what_ended_a_job_is_told_once() -> None:
    """The loss of its only run says the same as its end."""
    why = "worker-0 ended with exit code 1: ValueError: no such file"
    lines = told(
        ASKED,
        e.StartBegun(12, 1, ONE, 0.5),
        Decided(12, "start", "started.fits", "it fits", 0.5),
        e.Started(12, 1, 1.0),
        RunBroken(12, 5.0, why),
        e.Ended(12, 1, e.Outcome.FAILED, 5.0, error=f"{why}\nTraceback ..."),
    )
    assert [line.what for line in lines] == ["submitted", "started", "ended"]
    assert lines[-1].text == f"failed: {why}"


def test_a_wait_tells_what_kept_the_job_longest_and_for_how_long() -> None:
    waited = told(*life())[1]
    assert (waited.at, waited.seconds, waited.code) == (0.0, 60.0, "waiting.policy")
    assert waited.text == "others first (also waiting.devices)"


def test_a_change_keeps_its_figures_and_who_got_the_devices() -> None:
    grew, preempted = told(*life())[3:5]
    assert (grew.speed, grew.cost, grew.workers) == (1.8, 3.0, 2)
    assert (preempted.served, preempted.given, preempted.cost) == (13, 2, 40.0)


def test_the_time_a_job_ran_does_not_count_its_waits() -> None:
    assert told(*life())[-1].seconds == (162.0 - 61.0) + (200.0 - 163.0)


def test_a_job_that_still_waits_says_so() -> None:
    teller = StoryTeller()
    teller.tell(life()[:3])
    teller.waiting(30.0)
    assert (teller.lines[-1].what, teller.lines[-1].seconds) == ("waits", 30.0)


def test_a_restless_job_is_told_in_a_dozen_lines() -> None:
    facts = life()
    for i in range(40):
        at = 170.0 + i / 10
        facts[-1:-1] = [
            e.ResizeBegun(12, 4 + i, TWO if i % 2 else ONE, at),
            Decided(12, "resize", "resized.policy", "share", at, cost=1.0),
        ]
    lines = told(*facts)
    short = condensed(lines)
    assert len(lines) > DOZEN >= len(short)
    (changes,) = [line for line in short if line.what == "changed"]
    assert changes.times == 40 and changes.cost == 40.0
    assert changes.text.startswith("40 changes, 1 to 2 workers, costing 40 device-seconds; the last:")
    assert (short[0].what, short[-1].what) == ("submitted", "ended")


def test_a_job_that_is_preempted_again_and_again_keeps_its_beginning_and_its_end() -> None:
    facts = life()
    for i in range(30):
        facts[-1:-1] = [Decided(12, "preempt", "preempted.policy", f"for {i}", 170.0 + i)]
    short = condensed(told(*facts))
    assert len(short) == DOZEN
    assert (short[0].what, short[2].what, short[-1].what) == ("submitted", "started", "ended")
    assert sum(line.times for line in short) == len(told(*facts))


def test_a_story_whose_facts_are_gone_is_told_by_what_the_job_held() -> None:
    record = JobRecord(
        12, "j", "ann", "default", "succeeded", asked="1..2", submitted=0.0, started=60.0, ended=200.0
    )
    spans = [
        Span(12, 60.0, "starting", {"n0": (0,)}, 1, 0, "started.fits", "it fits", 61.0),
        Span(12, 61.0, "running", {"n0": (0,)}, 1, 0, "started.fits", "it fits", 100.0),
        Span(12, 100.0, "running", {"n0": (0, 1)}, 2, 0, "resized.grown", "devices are free", 150.0),
        Span(12, 170.0, "running", {"n0": (0,)}, 1, 0, "started.fits", "it fits", 200.0),
    ]
    lines = list(lines_of(record, spans))
    assert [line.what for line in lines] == [
        "submitted",
        "waited",
        "started",
        "changed",
        "waited",
        "started",
        "ended",
    ]
    assert lines[4].seconds == 20.0
