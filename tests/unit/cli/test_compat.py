"""Slurm's commands as views: their columns, flags and words."""

import re
import time
from dataclasses import replace
from datetime import datetime

import pytest

from muster.cli.compat.job_ids import job_id, split_ids
from muster.cli.compat.scontrol import hostnames
from muster.cli.compat.words import STATES, long_clock, short_clock, statuses
from muster.wire.api.records import LIVE, OVER
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab, a_job, a_waiting_job, an_ended_job


def test_squeue_has_slurms_columns(lab: Lab) -> None:
    now = time.time()
    lab.put(a_job(12, started=now - 3723), a_waiting_job(13))
    assert muster("compat", "squeue").stdout.splitlines() == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        "                13  research     bert      ada PD       0:00      1 (Resources)",
        "                12  research resnet50      ada  R    1:02:03      1 n0",
    ]


def test_the_time_limit_is_shown_where_slurm_has_it(lab: Lab) -> None:
    lab.put(a_job(12, started=time.time() - 3600.5, time_limit=90_000.0), a_waiting_job(13))
    printed = muster("compat", "squeue", "-h", "-o", "%i %l %L").stdout
    # How much is left depends on when the command is run: a busy machine takes its time.
    assert re.fullmatch(r"13 UNLIMITED UNLIMITED\n12 1-01:00:00 23:5\d:\d\d\n", printed)
    assert "TimeLimit=1-01:00:00" in muster("compat", "scontrol", "show", "job", "12").stdout
    words = ("compat", "sacct", "-a", "-n", "-P", "-j", "12", "-o", "timelimit")
    assert muster(*words).stdout == "1-01:00:00\n"


def test_squeue_has_slurms_flags(lab: Lab) -> None:
    printed = muster("compat", "squeue", "-h", "-t", "PD", "-o", "%i|%.6T|%j").stdout
    assert printed == "13|PENDIN|bert\n"
    assert muster("compat", "squeue", "-h", "-j", "12", "-o", "%i %T").stdout == "12 RUNNING\n"
    refused = muster("compat", "squeue", "-o", "%y", code=1)
    assert "squeue: error: Invalid job format specification: %y" in refused.stderr
    assert "squeue: error: unrecognized arguments: --clusters" in (
        muster("compat", "squeue", "--clusters", code=1).stderr
    )


def test_squeue_tells_when_jobs_that_wait_are_expected_to_start(lab: Lab) -> None:
    at = datetime(2026, 11, 20, 8, 30).timestamp()
    lab.put(
        a_waiting_job(13, "later", predicted_start=at),
        a_waiting_job(14, "sooner", predicted_start=at - 60),
        a_waiting_job(15, "unknown", predicted_start=None),
        a_job(12),
    )
    printed = muster("compat", "squeue", "--start").stdout
    heading, *rows = (line.split() for line in printed.splitlines())
    assert heading[4:8] == ["ST", "START_TIME", "NODES", "SCHEDNODES"]
    assert [(row[0], row[5]) for row in rows] == [
        ("14", "2026-11-20T08:29:00"),
        ("13", "2026-11-20T08:30:00"),
        ("15", "N/A"),
    ]


def test_sinfo_summarizes_partitions_and_lists_nodes_under_their_headings(lab: Lab) -> None:
    heading, first, _ = muster("compat", "sinfo", "-s").stdout.splitlines()
    assert heading.split() == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES(A/I/O/T)", "NODELIST"]
    assert first.split() == ["research", "up", "infinite", "1/0/0/1", "n0"]
    heading, first, *_ = muster("compat", "sinfo", "-N").stdout.splitlines()
    assert heading.index("NODES") + len("NODES") == first.index(" 1 ") + 2


def test_sinfo_has_a_line_for_each_partition_and_state(lab: Lab) -> None:
    printed = muster("compat", "sinfo", "-o", "%P %D %t %N %G").stdout.splitlines()
    assert printed == [
        "PARTITION NODES STATE NODELIST GRES",
        "research 1 mix n0 gpu:cpu:8",
        "default* 1 mix n0 gpu:cpu:8",
    ]


def test_sacct_is_what_programs_parse(lab: Lab) -> None:
    lab.put(an_ended_job(11, "vgg16", "failed", exit_code=3), an_ended_job(10, "cnn", "succeeded"))
    words = ("compat", "sacct", "-o", "JobID,State,ExitCode", "--parsable2", "-j", "10,11,99")
    printed = muster(*words).stdout
    assert printed == "JobID|State|ExitCode\n10|COMPLETED|0:0\n11|FAILED|3:0\n"
    assert muster("compat", "sacct", "-n", "-p", "-o", "jobname", "-j", "10").stdout == "cnn|\n"
    assert "Invalid field requested: 'Nope'" in muster("compat", "sacct", "-o", "Nope", code=1).stderr


def test_scancel_stops_what_it_names(lab: Lab) -> None:
    muster("compat", "scancel", "12")
    muster("compat", "scancel", "-u", "ada", "-t", "PENDING")
    assert lab.paths("DELETE") == ["/v1/jobs/12", "/v1/jobs/13"]
    assert "only TERM and KILL" in muster("compat", "scancel", "-s", "USR1", "12", code=1).stderr
    assert "No job identification provided" in muster("compat", "scancel", code=1).stderr


def test_scontrol_shows_a_job_and_says_what_there_is(lab: Lab) -> None:
    shown = muster("compat", "scontrol", "show", "job", "12").stdout
    assert shown.startswith("JobId=12 JobName=resnet50\n   UserId=ada")
    assert "there are show job|node|partition|hostnames" in (
        muster("compat", "scontrol", "reboot", code=1).stderr
    )


def test_every_status_has_a_state() -> None:
    assert set(STATES) == {*LIVE, *OVER}
    assert statuses(["R", "PENDING"]) == ("running", "restarting", "resizing", "migrating", "waiting")
    with pytest.raises(ValueError, match="Invalid job state"):
        statuses(["asleep"])


def test_numbers_lists_and_clocks_are_slurms() -> None:
    assert job_id(replace(a_job(15, "seeds.3"), sweep=11)) == "11_3"
    assert split_ids(["1,2_3", "4.batch"]) == ["1", "2_3", "4"]
    assert list(hostnames("n[01-02,7],m0,10.0.0.1")) == ["n01", "n02", "n7", "m0", "10.0.0.1"]
    assert [short_clock(each) for each in (3, 3723, 180000)] == ["0:03", "1:02:03", "2-02:00:00"]
    assert long_clock(3) == "00:00:03"
