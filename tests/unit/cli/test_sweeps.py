"""`muster sweep`: tables and pictures, and what options of `muster run` become."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.cli.jobs.submitting.options import RunRequest
from muster.cli.sweeps.options import sweep_options
from muster.cli.sweeps.plot import drawn, write_image
from muster.cli.sweeps.show import sweep_page, sweep_table
from muster.files.errors import InputError
from muster.wire.api.sweep_records import MemberRecord, SweepDetail, SweepRecord
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab

SWEEP = SweepRecord(
    8,
    "search",
    "ada",
    "default",
    "running",
    4,
    {"to come": 1, "running": 1, "pruned": 2},
    {"lr": "0.001..1:log"},
    at_most=2,
    asha="the smallest loss goes on",
)
MEMBERS = (
    MemberRecord("0", {"lr": "0.001"}, "pruned", 9, "search.0", {"loss": 0.9}, 1, 1, "at rung 1"),
    MemberRecord("1", {"lr": "0.1"}, "running", 10, "search.1", {"loss": 0.2, "accuracy": 0.5}, 3, 2),
    MemberRecord("2", {"lr": "1"}, "pruned", 11, "search.2", {"loss": 0.4, "accuracy": 0.9}, 1, 1),
    MemberRecord("3", {"lr": "0.01"}, "to come"),
)
DETAIL = SweepDetail(SWEEP, MEMBERS)


def test_the_best_member_is_first_and_those_to_come_are_counted() -> None:
    lines = sweep_page(DETAIL).splitlines()
    assert lines[0] == (
        "sweep 8 (search): running, 4 members: 1 to come, 1 running, 2 pruned; at most 2 at once"
    )
    assert [line.split()[0] for line in lines[4:]] == ["1", "2", "0"]
    assert lines[-1].endswith("pruned   at rung 1")


def test_another_metric_ranks_where_it_is_asked_for() -> None:
    lines = sweep_page(DETAIL, "accuracy", largest=True, limit=2).splitlines()
    assert [line.split()[0] for line in lines[4:6]] == ["2", "1"]
    assert lines[-1] == "and 1 more: -n N"


def test_columns_of_metrics_are_left_out_where_no_member_reports_any() -> None:
    silent = tuple(replace(each, metrics={}, epoch=None, rung=0) for each in MEMBERS)
    heading = sweep_page(SweepDetail(SWEEP, silent)).splitlines()[3]
    assert heading.split() == ["INDEX", "JOB", "LR", "STATUS", "WHY"]


def test_a_parameter_that_the_command_does_not_name_is_told(lab: Lab) -> None:
    words = ("run", "--dry-run", "--sweep", "lr=0.1,0.2", "--sweep", "seed=1..2")
    told = muster(*words, "--", "echo", "{seed}").stderr
    assert "note: {lr} is not in the command; members have it as MUSTER_SWEEP_LR only" in told
    assert "{seed}" not in told
    assert "note" not in muster("run", "--dry-run", "--array", "0-3", "--", "echo").stderr


def test_sweeps_are_listed() -> None:
    assert sweep_table([SWEEP]).splitlines()[1].split() == [
        *("8", "search", "ada", "running", "4", "lr=0.001..1:log"),
        *("1", "to", "come,", "1", "running,", "2", "pruned"),
    ]


def test_a_metric_is_drawn_over_each_parameter() -> None:
    lines = drawn(MEMBERS, "loss").splitlines()
    assert lines[0] == "loss over lr (log)"
    assert lines[1] == "0.9 |o"
    assert lines[-1].split() == ["0.001", "1"]
    assert drawn(MEMBERS[3:], "loss") == "no member has reported loss yet"


def test_an_image_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_image(tmp_path / "sweep.png", MEMBERS, "loss", "search")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_options_are_the_sweep_of_a_job_file() -> None:
    request = RunRequest(
        target="train.py", sweep=["lr=0.1,0.01", "seed=1..4"], at_most="3", asha="loss,min"
    )
    assert sweep_options(request, {"over": {"lr": "5"}, "seed": 7}) == {
        "over": {"lr": "0.1,0.01", "seed": "1..4"},
        "seed": 7,
        "at_most": "3",
        "asha": {"metric": "loss", "mode": "min"},
    }
    assert sweep_options(RunRequest(target="train.py"), None) == {}
    with pytest.raises(InputError, match="'lr' is not NAME=VALUES"):
        sweep_options(RunRequest(target="train.py", sweep=["lr"]), None)


def test_the_verbs_ask_the_daemon(lab: Lab) -> None:
    assert muster("sweep", "ls").stdout.startswith("ID  NAME")
    assert "continue" in muster("sweep", "--help").stdout


def test_the_verbs_of_jobs_take_a_sweep_by_its_name(lab: Lab) -> None:
    over = replace(SWEEP, status="finished", counts={"succeeded": 4}, outcome="succeeded")
    lab.service.sweep_details["search"] = SweepDetail(over, MEMBERS)
    assert "sweep 8 (search): finished, 4 members: 4 succeeded" in muster("wait", "search").output
    assert "0.001" in muster("show", "search").stdout
    assert "sweep 8 (search): stopped" in muster("stop", "search", "-y").stdout
    assert muster("wait", "search", code=103)
    assert "you have no job 'serach'" in muster("wait", "serach", code=102).output


def test_a_failed_member_shows_in_the_exit_code(lab: Lab) -> None:
    failed = replace(SWEEP, status="finished", counts={"failed": 1, "succeeded": 3}, outcome="failed")
    lab.service.sweep_details["search"] = SweepDetail(failed, MEMBERS)
    muster("wait", "search", code=100)
    muster("sweep", "wait", "search", code=100)


def test_a_sweep_that_waits_says_for_what() -> None:
    waiting = replace(SWEEP, status="waiting", counts={"to come": 4}, reason="starts once job 3 (prep)")
    assert sweep_page(SweepDetail(waiting, ())).splitlines()[0] == (
        "sweep 8 (search): waiting, 4 members: 4 to come; at most 2 at once; starts once job 3 (prep)"
    )
