"""Slurm's commands as views: their columns, flags and words."""

import time
from dataclasses import replace

import pytest

from muster.cli.compat.job_ids import job_id, split_ids
from muster.cli.compat.scontrol import hostnames
from muster.cli.compat.words import STATES, long_clock, short_clock, statuses
from muster.wire.records import LIVE, OVER
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
    assert printed == "13 UNLIMITED UNLIMITED\n12 1-01:00:00 23:59:59\n"
    assert "TimeLimit=1-01:00:00" in muster("compat", "scontrol", "show", "job", "12").stdout
    words = ("compat", "sacct", "-a", "-n", "-P", "-j", "12", "-o", "timelimit")
    assert muster(*words).stdout == "1-01:00:00\n"


def test_squeue_has_slurms_flags(lab: Lab) -> None:
    printed = muster("compat", "squeue", "-h", "-t", "PD", "-o", "%i|%.6T|%j").stdout
    assert printed == "13|PENDIN|bert\n"
    assert muster("compat", "squeue", "-h", "-j", "12", "-o", "%i %T").stdout == "12 RUNNING\n"
    refused = muster("compat", "squeue", "-o", "%Y", code=1)
    assert "squeue: error: Invalid job format specification: %Y" in refused.stderr
    assert "squeue: error: unrecognized arguments: --clusters" in (
        muster("compat", "squeue", "--clusters", code=1).stderr
    )


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
