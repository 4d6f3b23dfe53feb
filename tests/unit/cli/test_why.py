"""`muster why`, through the real client and API."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from muster.cli import connect
from muster.cli.render.story_page import advice_words, story_page
from muster.daemon.service.protocol import Caller
from muster.wire.api.story_records import AdviceRecord, JobStory, StoryLine
from tests.unit.api.harness import Api, running_api
from tests.unit.cli.invoke import muster

LINES = (
    StoryLine(0.0, "submitted", "submitted by ann to pool default, asks for 4 workers"),
    StoryLine(0.0, "waited", "too few free devices", 90.0, "waiting.devices"),
    StoryLine(90.0, "started", "4 workers on n0[0-3]: it fits", code="started.fits", workers=4),
    StoryLine(99.0, "preempted", "for bert", code="preempted.policy", served=13, given=4, cost=40.0),
    StoryLine(120.0, "ended", "succeeded", 9.0),
)
OVER = JobStory(12, "net", "ann", "succeeded", LINES)
ADVICE = (
    AdviceRecord("workers", "2", 2, 2, at_once=True, command="muster resize 12 2"),
    AdviceRecord("locality", "rack", 4, 4, at_once=True, again=True),
)
WAITS = JobStory(
    12,
    "net",
    "ann",
    "waiting",
    (LINES[0], StoryLine(0.0, "waits", "", 30.0)),
    code="waiting.devices",
    now="too few free devices",
    rank="next in pool default",
    start=40.0,
    finish=100.0,
    finish_low=80.0,
    finish_high=200.0,
    advice=ADVICE,
    advised=True,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, bool]]]:
    """A service with one story; what it was asked for."""
    found: list[tuple[bool, bool]] = []

    async def story(caller: Caller, which: str, advice: bool = True, every: bool = False) -> JobStory:
        found.append((advice, every))
        return OVER

    with running_api() as api:
        _serve(monkeypatch, api, story)
        yield found


def _serve(monkeypatch: pytest.MonkeyPatch, api: Api, story: object) -> None:
    monkeypatch.setattr(connect, "connect", lambda: api.client("root"))
    monkeypatch.setattr(api.service, "story", story, raising=False)


def test_a_job_that_is_over_is_told_from_its_submission_to_its_end(
    asked: list[tuple[bool, bool]],
) -> None:
    lines = muster("why", "12").stdout.splitlines()
    assert lines[0] == "net (12), succeeded"
    assert [line.split("  ", 2)[2] for line in lines[2:]] == [
        "submitted by ann to pool default, asks for 4 workers",
        "waited 1m30s: too few free devices",
        "started: 4 workers on n0[0-3]: it fits",
        "preempted: for bert",
        "succeeded, ran for 9s in all",
    ]
    assert asked == [(True, False)]


def test_all_of_it_is_told_on_request_and_advice_left_out(asked: list[tuple[bool, bool]]) -> None:
    muster("why", "12", "-a", "--no-advice")
    assert asked == [(False, True)]


@pytest.mark.parametrize("how", [("--json",), ("-o", "json")])
def test_the_figures_are_there_for_programs(
    asked: list[tuple[bool, bool]], how: tuple[str, ...]
) -> None:
    told = json.loads(muster("why", "12", *how).stdout)
    assert told["lines"][3]["served"] == 13 and told["lines"][3]["cost"] == 40.0


def test_a_live_job_is_told_what_keeps_it_what_is_expected_and_what_would_help() -> None:
    assert story_page(WAITS, 30.0).splitlines()[-6:] == [
        "",
        "  now        waiting.devices: too few free devices",
        "  competes   next in pool default",
        "  expected   to start in 10s, to finish in 1m10s (50s to 2m50s)",
        "  would help workers: 2 (muster resize 12 2): 2 workers at once",
        "             locality: rack, submitted again: 4 workers at once",
    ]


def test_what_takes_others_stopping_says_so() -> None:
    later = AdviceRecord("priority", "1", 4, 4, at_once=False, command="muster priority 12 1")
    assert advice_words(later) == (
        "priority: 1 (muster priority 12 1): 4 workers once others have made way"
    )


def test_of_a_job_that_runs_only_the_finish_may_be_unknown() -> None:
    runs = replace(WAITS, status="running", code="running.continues", start=None, finish=None)
    assert "finish unknown" in story_page(runs, 30.0)
    assert "start and" not in story_page(runs, 30.0)
    waits = replace(WAITS, start=None, finish=None)
    assert "start and finish unknown" in story_page(waits, 30.0)
