"""Philly's jobs: sorted, rigid, a pool for each virtual cluster."""

from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.sim.trace.left_out import LeftOut
from muster.sim.trace.philly import read_philly
from muster.sim.worlds.fixed import Fixed

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"
EXTRACT = Path(__file__).parents[4] / "examples/traces/philly-extract.csv"


def _file(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "philly.csv"
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return path


def test_jobs_come_in_order_and_times_count_from_the_first() -> None:
    # 06:13:03, 06:13:36, 06:18:57 and 07:01:55 of one day
    jobs = list(read_philly(EXTRACT))
    assert [arrival.at for arrival in jobs] == [0.0, 33.0, 354.0, 2932.0]
    assert [arrival.job.name for arrival in jobs] == ["philly-3", "philly-4", "philly-5", "philly-2"]


def test_a_job_is_a_gang_that_takes_its_duration_there() -> None:
    eight = list(read_philly(EXTRACT))[2]
    spec = eight.job.workers
    assert (spec.gang, spec.least, spec.most, spec.need.devices) == (8, 8, 8, 1)
    assert eight.truth == Fixed(30.0, 8)
    assert eight.job.duration is None  # What is true is not told to policies.


def test_pools_are_the_virtual_clusters_unless_one_is_asked_for() -> None:
    assert {arrival.job.pool for arrival in read_philly(EXTRACT)} == {"11cb48", "6214e9", "ee9e8c"}
    assert {arrival.job.pool for arrival in read_philly(EXTRACT, one_pool=True)} == {"default"}


def test_jobs_of_a_size_share_their_roles() -> None:
    first, second, *_ = read_philly(EXTRACT)
    assert first.job.roles is second.job.roles


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("yesterday,66.0,1,66.0,a", "timestamp: 'yesterday' is not a time"),
        ("2017-10-09 07:01:55,long,1,66.0,a", "duration: 'long' is not a number of seconds"),
        ("2017-10-09 07:01:55,0,1,66.0,a", "duration: must be above 0"),
        ("2017-10-09 07:01:55,66.0,0,66.0,a", "num_gpus: must be from 1"),
        ("2017-10-09 07:01:55,66.0", "has 2 values instead of 5"),
    ],
)
def test_a_bad_row_is_named_or_left_out_and_counted(tmp_path: Path, row: str, problem: str) -> None:
    path = _file(tmp_path, "2017-10-09 07:00:00,5.0,1,5.0,a", row)
    with pytest.raises(InputError) as caught:
        list(read_philly(path))
    assert f"{path}:3: {problem}" in str(caught.value)
    left_out = LeftOut()
    assert len(list(read_philly(path, left_out=left_out))) == 1
    assert left_out.count == 1
    assert problem in (left_out.note() or "")


def test_another_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the first line must be: timestamp,duration"):
        list(read_philly(_file(tmp_path, header="time,duration")))


def test_an_empty_file_has_no_jobs(tmp_path: Path) -> None:
    assert list(read_philly(_file(tmp_path))) == []
