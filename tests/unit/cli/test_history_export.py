"""The past as a trace that simulations take."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.cli.history.export import trace_of
from muster.sim.trace.open_trace import open_trace
from muster.wire.api.history_records import SpanRecord
from muster.wire.api.job_relations import ParentRecord
from muster.wire.api.records import JobRecord

DAY = 86_400.0
NOW = 1.7e9


def _job(number: int, asked: str = "2", user: str = "ada", **more: object) -> JobRecord:
    about = {"status": "succeeded", "asked": asked, "submitted": NOW + number, "priority": number}
    command = ("python", "src/train.py", "--secret", "x")
    return JobRecord(number, "train", user, "default", command=command, **(about | more))  # type: ignore[arg-type]


def _span(number: int, began: float, ended: float | None, devices: int, workers: int) -> SpanRecord:
    held = {"n0": tuple(range(devices))}
    return SpanRecord(NOW + began, ended and NOW + ended, "running", workers, 0, held, number=number)


def test_an_exported_trace_is_read_by_the_simulator(tmp_path: Path) -> None:
    jobs = [
        _job(2, "1..4", after=(ParentRecord(1, "train", "ok"),)),
        _job(1),
        _job(3, status="running"),
    ]
    spans = [
        _span(1, 0, 100, 2, 2),
        _span(2, 100, 200, 1, 1),
        _span(2, 200, 300, 4, 4),
        _span(3, 0, None, 1, 1),
    ]
    found = trace_of(jobs, spans)
    assert (found.jobs, found.left_out) == (2, 1)
    path = tmp_path / "month.csv"
    path.write_text(found.text)
    first, second = open_trace(str(path))
    assert first.truth is not None and second.truth is not None
    assert (first.at, first.job.workers.gang, first.truth.work) == (0.0, 2, 100.0)
    # 100 s on one device and 100 s on four: 500 s on one.
    assert (second.job.workers.gang, second.job.workers.most) == (1, 4)
    assert second.truth.work == pytest.approx(500.0)
    assert first.job.application == "train.py" and second.job.after[0].job == first.job.name


def test_devices_of_a_worker_count() -> None:
    found = trace_of([_job(1, "2")], [_span(1, 0, 10, 8, 2)])
    assert found.text.splitlines()[1].split(",")[1:3] == ["8", "10.000"]


def test_devices_of_workers_that_are_still_to_join_make_no_worker_wider() -> None:
    grows = replace(_span(1, 100, 110, 3, 1), status="resizing")
    found = trace_of([_job(1, "1..4")], [_span(1, 0, 100, 1, 1), grows, _span(1, 110, 200, 3, 3)])
    assert found.text.splitlines()[1].split(",")[1:3] == ["1..4", "400.000"]


def test_a_start_costs_in_the_trace_what_starts_took(tmp_path: Path) -> None:
    """Two starts of 3 s and 5 s. What a plain program still loads once it runs is unknown, and of the
    last job no start was seen: they have the default."""
    starts = [(1, 0, 3), (1, 50, 55), (2, 0, 0.1)]
    ran = [(1, 3, 50), (1, 55, 100), (2, 0.1, 10), (3, 0, 10)]
    spans = [_span(*each, 2, 2) for each in ran]
    spans += [replace(_span(*each, 2, 2), status="starting") for each in starts]
    path = tmp_path / "month.csv"
    path.write_text(trace_of([_job(1, live=True), _job(2), _job(3, live=True)], spans).text)
    found = list(open_trace(str(path)))
    assert [each.job.pause for each in found] == [4.0, 30.0, 30.0]
    assert found[0].truth is not None and found[0].truth.work == 92.0


def test_an_anonymous_trace_names_nobody() -> None:
    jobs = [_job(1), _job(2, user="bob")]
    found = trace_of(jobs, [_span(n, 0, 10, 2, 2) for n in (1, 2)], anonymous=True)
    assert not any(word in found.text for word in ("ada", "bob", "train", "secret"))
    assert [line.split(",")[3:5] for line in found.text.splitlines()[1:]] == [
        ["j1", "u1"],
        ["j2", "u2"],
    ]
