"""`muster logs`, `stop`, `resize`, `wait`, and what commands say when the daemon refuses."""

import json
import re

import msgspec
import pytest

from muster.api.problem import problem
from muster.cli.connect import report
from muster.client import Client
from muster.client.errors import problem_of
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import PRINTED, Lab, an_ended_job


def test_logs_are_printed_as_they_come(lab: Lab) -> None:
    assert muster("logs", "resnet50").stdout.splitlines() == sorted(PRINTED)
    lab.service.plays = lambda number: lab.service.end(number)
    assert muster("logs", "-f", "12", "2/worker-1").stdout == "step 1\n"


def test_only_the_last_lines_of_each_task_are_printed(lab: Lab) -> None:
    assert muster("logs", "12", "-n", "1").stdout.splitlines() == [PRINTED[3], PRINTED[1]]
    assert muster("logs", "12", "2/worker-0", "-n", "2").stdout == "step 2\nstep 3\n"
    assert muster("logs", "12", "-n", "0").stdout == ""


def test_leaving_logs_leaves_the_job_running(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "logs", interrupted)
    assert "detached; the job keeps running" in muster("logs", "-f", "12").stderr


def test_jobs_are_stopped_by_number_or_name(lab: Lab) -> None:
    assert muster("stop", "12", "bert", "-y").stdout.splitlines() == [
        "job 12 (resnet50): cancelled",
        "job 13 (bert): cancelled",
    ]


def test_a_job_that_is_over_stays_as_it_is(lab: Lab) -> None:
    assert muster("stop", "10", "-y").stdout == "job 10 (cnn): succeeded\n"


def test_stopping_asks_with_what_would_be_lost(lab: Lab, answering: None) -> None:
    result = muster("stop", "12", "bert", code=1, input="n\n")
    assert re.match(
        r"Stop 2 jobs: 12 \(resnet50, running for (59m\d\ds|1h00m)\), 13 \(bert, waiting for 1h00m\)\?",
        result.stderr,
    )
    assert not lab.paths("DELETE")


def test_one_that_cannot_be_stopped_does_not_keep_the_others(lab: Lab) -> None:
    result = muster("stop", "99", "12", "-y", code=102)
    assert result.stdout == "job 12 (resnet50): cancelled\n"
    assert "you have no job '99'" in result.stderr


@pytest.mark.parametrize(("text", "asked"), [("4", (4, 4)), ("2..6", (2, 6))])
def test_a_job_is_resized_to_a_number_or_a_range(text: str, asked: tuple[int, int], lab: Lab) -> None:
    told = muster("resize", "resnet50", text).stdout
    least, most = asked
    assert told == f"job 12 (resnet50) now asks for {least}..{most} workers; it has 3\n"
    body = {"least": least, "most": most, "servers": None}
    assert lab.requests == [("POST", "/v1/jobs/resnet50/resize", body)]


@pytest.mark.parametrize(
    ("text", "problem"), [("4-6", "did you mean '4..6'?"), ("0", "to end the job: muster stop 12")]
)
def test_a_size_that_is_none_is_refused(text: str, problem: str, lab: Lab) -> None:
    result = muster("resize", "12", text, code=1)
    assert problem in str(result.exception)
    assert not lab.requests


def test_waiting_ends_as_the_first_job_that_did_not_succeed(lab: Lab) -> None:
    ended = [an_ended_job(10, "cnn", "succeeded"), an_ended_job(11, "vgg16", "failed")]
    lab.put(*ended, an_ended_job(9, "old", "cancelled"))
    result = muster("wait", "10", "old", "11", code=103)
    assert [line.split(" after")[0] for line in result.stderr.splitlines() if " after" in line] == [
        "job 10 (cnn) succeeded",
        "job 9 (old) cancelled",
        "job 11 (vgg16) failed",
    ]
    assert muster("wait", "10").exit_code == 0


def test_waiting_sees_the_end_when_it_comes(lab: Lab) -> None:
    lab.service.plays = lambda number: lab.service.end(number)
    (told,) = json.loads(muster("wait", "12", "-o", "json").stdout)
    assert told["status"] == "succeeded"


def test_waiting_gives_up_in_time(lab: Lab) -> None:
    result = muster("wait", "12", "--timeout", "0", code=101)
    assert result.stderr == "job 12 (resnet50) is still running\n"


REFUSALS = {
    "nobody answers": (0, "connection refused", 104, "start one"),
    "no token": (401, "a token is required", 105, "muster token create"),
    "not theirs": (403, "job 12 is not yours", 105, "ask an administrator"),
    "not there": (404, "no job '12'", 102, "muster ps -a"),
    "not there, and what to type": (404, "no job '12'; see: muster ps -a", 102, ""),
    "not now": (409, "job 12 is over", 1, ""),
    "never": (422, "asks for more than there is", 2, ""),
    "disk full": (503, "the journal cannot be written", 1, "retry"),
}


def test_no_right_helps_against_a_name_that_is_not_the_daemons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report(problem_of(msgspec.json.encode(problem(403, "the header Host is 'x'"))))
    assert capsys.readouterr().err == "muster: the header Host is 'x'\n"


@pytest.mark.parametrize(("status", "detail", "code", "remedy"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_are_one_line_a_remedy_and_their_exit_code(
    status: int, detail: str, code: int, remedy: str, lab: Lab
) -> None:
    lab.refusal = status, detail
    for words in (("ps",), ("show", "12"), ("stop", "12", "-y"), ("top", "--once"), ("policy", "show")):
        result = muster(*words, code=code)
        first, *rest = result.stderr.splitlines()
        assert first.startswith("muster: ") and first.endswith(detail)
        assert len(rest) == bool(remedy)
        assert remedy in "".join(rest)
        assert result.stdout == ""
