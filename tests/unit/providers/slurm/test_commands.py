"""What Slurm's commands answer, and what they do not."""

import pytest

from muster.providers.slurm.commands import (
    COMPLETING,
    HostFacts,
    SlurmAwayError,
    failure,
    gpus_of,
    parse_hosts,
    parse_jobs,
    seconds_of,
)
from muster.providers.slurm.pilots import SlurmJob

SQUEUE = """\
1|RUNNING|g001|59:58|2026-11-16T06:59:00|N/A|None|
2|RUNNING|g002|59:58|2026-11-16T06:02:00|2026-11-16T06:01:40|None|
3|PENDING||1:00:00|N/A|N/A|QOSMaxNodePerUserLimit|
4|CANCELLED by 1000|g003|59:58|2026-11-16T06:02:00|N/A|None|
5|COMPLETING|g004|UNLIMITED|2026-11-16T06:02:00|N/A|None|
6_1|RUNNING|g004|1:00|2026-11-16T06:02:00|N/A|None|
slurm_load_jobs error: what is this
7|NODE_FAIL|g;rm -rf|1:00||N/A|None|
"""


def test_squeue_is_read_with_times_of_slurms_own_clock_only() -> None:
    assert list(parse_jobs(SQUEUE)) == [
        SlurmJob(1, True, "", "g001", 3598.0, None, "None"),
        SlurmJob(2, True, "", "g002", 3598.0, 20.0, "None"),
        SlurmJob(3, False, "", "", None, None, "QOSMaxNodePerUserLimit"),
        SlurmJob(4, False, "the allocation was cancelled", "g003"),
        SlurmJob(5, True, "", "g004", None, COMPLETING, "None", True),
        SlurmJob(7, False, "the node failed"),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93784.0),
        ("2:03:04", 7384.0),
        ("0:09", 9.0),
        ("UNLIMITED", None),
        ("INVALID", None),
    ],
)
def test_slurms_durations(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:v100:4", 4),
        ("gpu:4(S:0-1)", 4),
        ("gpu:a100:2(S:0),gpu:t4:1,nic:2", 3),
        ("gres/gpu:h100:8", 8),
        ("gpu", 1),
        ("(null)", 0),
        ("", 0),
    ],
)
def test_gpus_of_generic_resources(gres: str, count: int) -> None:
    assert gpus_of(gres) == count


def test_sinfo_is_read() -> None:
    said = "g001|8|65536+|1-00:00:00|gpu:v100:4\ng002|2|100|infinite|(null)\nsinfo: error\n"
    assert list(parse_hosts(said)) == [
        HostFacts("g001", 8, 65536, 4, 86400.0),
        HostFacts("g002", 2, 100, 0, None),
    ]


def test_an_error_is_one_line_and_an_absent_controller_is_told_apart() -> None:
    said = "sbatch: error: invalid account\nsbatch: error: Batch job submission failed: x\n"
    assert str(failure(("sbatch",), said)) == "invalid account"
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    assert isinstance(failure(("squeue",), away), SlurmAwayError)
    assert str(failure(("squeue", "--me"), "")) == "squeue --me failed"
