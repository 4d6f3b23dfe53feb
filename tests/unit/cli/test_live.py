"""`muster top`: the picture of a cluster at one moment."""

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console

from muster.cli.jobs.reading import top
from muster.cli.render.job_table import job_table
from muster.cli.render.live import MOST_JOBS, MOST_NODES, WIDTH, ClusterFrame, live
from muster.wire.api.records import ChangeRecord, PoolRecord, QuotaRecord
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab, a_job, a_node, a_task, a_waiting_job, an_ended_job


def drawn(frame: ClusterFrame, width: int = WIDTH) -> list[str]:
    """The picture as text."""
    console = Console(file=io.StringIO(), width=width)
    console.print(live(frame, time.time(), width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def frame_of(lab: Lab) -> ClusterFrame:
    return top.Gathering(lab.client()).frame()


def the_line(lines: list[str], start: str) -> str:
    return next(line for line in lines if line.startswith(start))


def test_a_device_shows_the_letter_of_the_job_that_holds_it(lab: Lab) -> None:
    """Job 12 is the twelfth letter."""
    lines = drawn(frame_of(lab))
    assert lines[0].startswith("lab · policy muster · 3 of 8 devices in use · 1 running, 1 waiting")
    assert the_line(lines, "n0").split() == ["n0", "up", "cpu", "LLL·····", "5"]
    assert the_line(lines, "L").split()[:4] == ["L", "12", "resnet50", "research"]


def test_devices_of_tasks_that_are_not_known_or_gone_are_told_apart(lab: Lab) -> None:
    lab.service.entries[12].tasks = [a_task(0, 0), a_task(1, 1, status="ended")]
    lab.service.node_records["n1"] = a_node("n1", "....", state="draining")
    lines = drawn(frame_of(lab))
    assert "L■■·····" in the_line(lines, "n0")
    assert "xxxx" in the_line(lines, "n1")


def test_jobs_show_their_share_and_their_progress(lab: Lab) -> None:
    lines = drawn(frame_of(lab))
    assert "▇▇▇·····  3/1..8  ━━╌╌╌╌╌╌╌╌  25%" in the_line(lines, "L")
    waiting = next(line for line in lines if " bert " in line)
    assert "········  0/1..8" in waiting
    assert waiting.endswith("waiting.devices")


def test_a_job_that_waits_again_shows_when_it_is_expected_to_start(lab: Lab) -> None:
    soon = time.time() + 60.5
    stopped = a_waiting_job(started=1.0, predicted_start=soon, start_low=soon - 9, start_high=soon + 9)
    lines = drawn(ClusterFrame(lab.client().status(), jobs=[stopped, a_job()]))
    assert " START " in the_line(lines, "   ID")
    assert "in 1m" in next(line for line in lines if " bert " in line)
    listed = job_table([stopped, a_job()], time.time(), wide=True).splitlines()
    assert "START" in listed[0].split()
    assert "in 1m" in listed[1]


def test_those_that_run_stand_before_those_that_wait_and_those_that_are_over(lab: Lab) -> None:
    jobs = [an_ended_job(1, "over", "succeeded"), a_waiting_job(2, "waits"), a_job(3, "runs")]
    lines = drawn(ClusterFrame(lab.client().status(), jobs=jobs))
    found = [
        next(i for i, line in enumerate(lines) if job in line) for job in ("runs", "waits", "over")
    ]
    assert found == sorted(found)


def test_a_large_bar_is_scaled_down(lab: Lab) -> None:
    lines = drawn(ClusterFrame(lab.client().status(), jobs=[a_job(workers=100, asked="1..200+4")]))
    assert any(f" {'▇' * 8}{'·' * 8} " in line for line in lines)


def test_pools_show_what_is_borrowed(lab: Lab) -> None:
    pools = [PoolRecord("research", "cluster", (QuotaRecord("cpu", entitled=2, used=3),))]
    line = the_line(drawn(ClusterFrame(lab.client().status(), pools=pools)), "research")
    assert line.split() == ["research", "cpu", "▇▇▇", "3", "2", "0", "0"]


def test_large_clusters_are_cut_to_what_fits(lab: Lab) -> None:
    nodes = [a_node(f"n{i}", "....") for i in range(MOST_NODES + 4)]
    jobs = [a_waiting_job(i, f"job{i}") for i in range(1, MOST_JOBS + 4)]
    lines = drawn(ClusterFrame(lab.client().status(), nodes=nodes, jobs=jobs))
    assert the_line(lines, "and 4 more").split()[-1] == "16"
    assert any("and 3 more" in line for line in lines)


def test_a_narrow_screen_loses_columns_not_letters(lab: Lab) -> None:
    lines = drawn(frame_of(lab), width=80)
    job = the_line(lines, "L")
    assert "  12  resnet50  running  ▇▇▇·····  3/1..8  ━━╌╌╌╌╌╌╌╌  25%  0.04213" in job
    assert "…" not in job


def test_trouble_is_said_at_once(lab: Lab) -> None:
    status = replace(lab.client().status(), trouble="the disk is full")
    lines = drawn(ClusterFrame(status, trouble="no daemon at http://127.0.0.1:7077"))
    assert lines[1:3] == ["the disk is full", "no daemon at http://127.0.0.1:7077"]


def test_names_are_shown_as_they_are(lab: Lab) -> None:
    lines = drawn(ClusterFrame(lab.client().status(), jobs=[a_job(name="[bold]x[/bold]")]))
    assert any("[bold]x[/bold]" in line for line in lines)


def test_orders_of_tasks_do_not_hide_what_was_decided(lab: Lab) -> None:
    orders = [ChangeRecord(9 + i, 0.0, "TaskOrdered", "bert", "worker ordered") for i in range(20)]
    lines = drawn(ClusterFrame(lab.client().status(), changes=[*lab.service.history, *orders]))
    assert any(line.endswith("runs with 3 workers") for line in lines)
    assert not any("ordered" in line for line in lines)


def test_top_once_needs_no_terminal(lab: Lab) -> None:
    text = muster("top", "--once").stdout
    for part in ("NODE", "LLL·····", "PROGRESS", "ENTITLED", "runs with 3 workers"):
        assert part in text


def test_tasks_are_asked_for_only_when_they_have_changed(lab: Lab) -> None:
    gathering = top.Gathering(lab.client())
    for _ in range(3):
        gathering.frame()
    assert lab.paths("GET").count("/v1/jobs/12") == 1
    entry = lab.service.entries[12]
    entry.record = replace(entry.record, generation=3)
    gathering.frame()
    assert lab.paths("GET").count("/v1/jobs/12") == 2


def test_top_outlives_the_daemon(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon goes after the first picture, and comes back after the second."""
    frames: list[ClusterFrame] = []
    moments = iter(range(3))

    def later(seconds: float) -> None:
        assert seconds == 1.0
        step = next(moments)
        if step == 2:
            raise KeyboardInterrupt
        lab.refusal = (0, "no daemon there") if step == 0 else None

    def draw(frame: ClusterFrame, now: float, width: int) -> str:
        frames.append(frame)
        return "a picture"

    monkeypatch.setattr(top, "on_terminal", lambda: True)
    monkeypatch.setattr(top, "live", draw)
    monkeypatch.setattr("muster.cli.jobs.reading.top.time.sleep", later)
    muster("top")
    assert [frame.trouble.endswith("no daemon there") for frame in frames] == [False, True, False]
