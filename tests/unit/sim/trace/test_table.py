"""Generic traces: what rows mean, and what is said of those that mean nothing."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.perf.learnt.held import Held
from muster.sim.trace.left_out import LeftOut
from muster.sim.trace.table import read_table
from muster.sim.worlds.fixed import Fixed
from muster.sim.worlds.power import PowerLaw

EXAMPLES = Path(__file__).parents[4] / "examples/traces"


def _csv(folder: Path, *lines: str) -> Path:
    path = folder / "trace.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _error(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read_table(path))
    return str(caught.value)


def test_three_columns_are_enough(tmp_path: Path) -> None:
    (arrival,) = read_table(_csv(tmp_path, "submitted,devices,duration", "5,4,3600"))
    assert arrival.at == 5.0
    assert (arrival.job.name, arrival.job.user, arrival.job.pool) == ("job-2", "nobody", "default")
    assert (arrival.job.workers.gang, arrival.job.workers.most) == (4, 4)
    assert arrival.truth == Fixed(3600.0, 4)


def test_every_column_reaches_the_job(tmp_path: Path) -> None:
    header = (
        "submitted,devices,duration,name,user,pool,application,type,priority,preemptible,cores,memory,"
        "exponent,pause,batch,expected"
    )
    row = "0,2,10,a,ada,lab,resnet50,V100|P100,7,false,1.5,24GB,1,45,256,2h"
    (arrival,) = read_table(_csv(tmp_path, header, row))
    job = arrival.job
    assert (job.name, job.user, job.pool, job.application) == ("a", "ada", "lab", "resnet50")
    assert (job.device_types, job.priority, job.preemptible) == (("V100", "P100"), 7, False)
    assert (job.workers.need.millicores, job.workers.need.memory) == (1_500, 24 * 10**9)
    assert (job.pause, job.batch, job.duration) == (45.0, 256, 7200.0)


def test_a_range_is_an_elastic_job_with_its_duration_at_the_least(tmp_path: Path) -> None:
    path = _csv(tmp_path, "submitted,devices,duration,exponent", "0,2..8,1000,0.5", "0,1..4,1000,")
    first, second = read_table(path)
    assert (first.job.workers.gang, first.job.workers.least, first.job.workers.most) == (2, 2, 8)
    assert isinstance(first.truth, PowerLaw)
    assert isinstance(second.truth, PowerLaw)
    assert first.truth.pace(Held("", (2,)), 0.0).rate == 1.0
    assert first.truth.pace(Held("", (8,)), 0.0).rate == pytest.approx(2.0)  # (8/2)^0.5
    assert second.truth.pace(Held("", (4,)), 0.0).rate == pytest.approx(4.0)  # in proportion


def test_times_of_the_calendar_count_from_the_first_row(tmp_path: Path) -> None:
    path = _csv(
        tmp_path,
        "submitted,devices,duration",
        "2017-10-09 07:00:00,1,1",
        "2017-10-09T09:01:30+02:00,1,1",  # 07:01:30 in UTC
        "1507532700,1,1",  # 07:05:00
    )
    assert [arrival.at for arrival in read_table(path)] == [0.0, 90.0, 300.0]


def test_quotes_blank_lines_and_a_byte_order_mark_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    text = '\ufeffSubmitted, devices ,duration,name\r\n1,1,60,"a, b"\r\n\r\n2,1,60,c\r\n'
    path.write_bytes(text.encode())
    assert [arrival.job.name for arrival in read_table(path)] == ["a, b", "c"]


def test_others_columns_are_not_looked_at(tmp_path: Path) -> None:
    path = _csv(tmp_path, "submitted,devices,duration,machine_id", "0,1,60,whatever")
    assert len(list(read_table(path))) == 1


def test_all_missing_columns_are_named_with_what_may_have_been_meant(tmp_path: Path) -> None:
    said = _error(_csv(tmp_path, "submited,gpus,duration", "0,1,60"))
    assert "trace.csv:1: the columns are missing: submitted, devices; found: submited, gpus" in said
    assert "'submited' (did you mean 'submitted'?)" in said


def test_a_column_that_is_nearly_ours_is_a_slip(tmp_path: Path) -> None:
    said = _error(_csv(tmp_path, "submitted,devices,duration,prioritty", "0,1,60,1"))
    assert "'prioritty' is not a column (did you mean 'priority'?)" in said


def test_an_empty_file_lacks_all_columns(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("", encoding="utf-8")
    assert "missing: submitted, devices, duration; found: none" in _error(path)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("soon,1,60,", ":3: submitted: 'soon' is not a time"),
        ("-5,1,60,", ":3: submitted: must be 0 or later"),
        ("nan,1,60,", ":3: submitted: must be 0 or later"),
        ("5,0,60,", ":3: devices: must be at least 1"),
        (
            "5,1-8,60,",
            ":3: devices: '1-8' is not a count; write for example 4 or 1..8 (did you mean '1..8'?)",
        ),
        ("5,1,0,", ":3: duration: must be above 0"),
        ("5,1,,", ":3: duration: must not be empty"),
        ("5,1,60,1.5", ":3: exponent: '1.5' is not above 0 and at most 1"),
        ("5,1", ":3: has 2 values, the header has 4"),
    ],
)
def test_a_bad_value_is_named_by_line_and_column_or_left_out(
    tmp_path: Path, row: str, problem: str
) -> None:
    path = _csv(tmp_path, "submitted,devices,duration,exponent", "0,1,60,", row, "9,1,60,")
    assert f"{path}{problem}" in _error(path)
    left_out = LeftOut()
    assert [arrival.at for arrival in read_table(path, left_out=left_out)] == [0.0, 9.0]
    assert left_out.count == 1
    assert problem in left_out.first


def test_times_out_of_order_are_told_before_the_first_job(tmp_path: Path) -> None:
    path = _csv(
        tmp_path, "submitted,devices,duration", "10,1,60", "30,1,60", "20,1,60", "5,1,60", "30,1,60"
    )
    with pytest.raises(InputError) as caught:
        next(read_table(path))
    assert f"{path}:4: submitted: " in str(caught.value)
    assert "2 rows are out of order: read it with --sort" in str(caught.value)


def test_sorting_reads_them_in_order_with_equal_times_as_in_the_file(tmp_path: Path) -> None:
    path = _csv(
        tmp_path, "submitted,devices,duration,name", "10,1,60,a", "30,1,60,b", "5,1,60,c", "10,1,60,d"
    )
    assert [arrival.job.name for arrival in read_table(path, sort=True)] == ["c", "a", "d", "b"]


def test_sorting_counts_rows_without_a_time_too(tmp_path: Path) -> None:
    path = _csv(tmp_path, "submitted,devices,duration", "10,1,60", "never,1,60", "5,x,60")
    left_out = LeftOut()
    assert [arrival.at for arrival in read_table(path, sort=True, left_out=left_out)] == [10.0]
    assert left_out.count == 2
    with pytest.raises(InputError, match=r"trace\.csv:3: submitted"):
        list(read_table(path, sort=True))


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [
        {"submitted": 1, "devices": "1..4", "duration": 60.5, "type": ["V100", "P100"]},
        {
            "submitted": 2.5,
            "devices": 2,
            "duration": "1h",
            "user": None,
            "preemptible": False,
            "log": {},
        },
        {"submitted": 3, "devices": 2, "duration": 5, "user": {}},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    left_out = LeftOut()
    first, second = read_table(path, left_out=left_out)
    assert (first.at, first.job.device_types, first.job.workers.most) == (1.0, ("V100", "P100"), 4)
    assert (second.truth, second.job.user, second.job.preemptible) == (
        Fixed(3600.0, 2),
        "nobody",
        False,
    )
    assert left_out.first == f"{path}:3: user: '{{}}' is neither a word nor a number"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"submitted": 1,', "is not JSON"),
        ("[1, 2]", "is not a JSON object"),
        ('{"submitted": 1, "device": 1, "duration": 1}', "missing: devices; found: submitted, device"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"submitted": 0, "devices": 1, "duration": 1}\n' + line + "\n", encoding="utf-8")
    assert f"{path}:2: " in _error(path)
    assert problem in _error(path)


def test_a_file_that_is_not_there_or_is_no_text(tmp_path: Path) -> None:
    assert "no such file" in _error(tmp_path / "none.csv")
    path = tmp_path / "trace.csv"
    path.write_bytes(b"submitted,devices,duration\n0,1,60\n\xff\xfe,1,1\n")
    assert f"{path}:3: is not text in UTF-8" in _error(path)


@pytest.mark.parametrize("name", ["small.csv", "calendar.jsonl"])
def test_the_examples_are_read(name: str) -> None:
    at = [arrival.at for arrival in read_table(EXAMPLES / name)]
    assert at[0] == 0.0
    assert at == sorted(at)


def _rows() -> Iterator[str]:
    yield "submitted,devices,duration,user\n"
    for number in range(100_000):
        yield f"{number},{number % 8 + 1},{number % 977 + 1},u{number % 50}\n"


def test_a_hundred_thousand_rows_take_no_more_memory_than_a_few(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(_rows())
    arrivals = read_table(path)
    next(arrivals)  # The order of all rows has been looked at by now.
    for _ in range(80_000):
        next(arrivals)
    tracemalloc.start()
    assert sum(1 for _ in arrivals) == 19_999
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000  # bytes; the rows themselves would be twenty times that as jobs
