"""Results written and read back."""

import json
import sys
from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.sim.report.files import (
    TableFormat,
    read_index,
    read_lines,
    read_result,
    write_lines,
    write_result,
)
from muster.sim.result import ClusterSample, Fate, JobResult, Result, Stint
from tests.unit.sim.report.made_up import made_up, record, result, sample


@pytest.fixture(params=list(TableFormat))
def form(request: pytest.FixtureRequest) -> TableFormat:
    """Each form that can be written here."""
    if request.param is TableFormat.PARQUET:
        pytest.importorskip("pyarrow")
    return TableFormat(request.param)


def awkward() -> Result:
    """Names and figures that a careless writer would change."""
    return result(
        record('a,"b"\nc', user="ü | $x$", application=" bert ", ended=0.1 + 0.2, alone=1e-300),
        record("d", started=None, ended=None, fate=Fate.UNFINISHED, best=1 / 3, least=2.0**60 + 1),
        record("1e3", fate=Fate.REFUSED, started=None, ended=None, pool="None", user="-0.0"),
        samples=(sample(0.0, 3), sample(1e9 / 7, 1)),
        stints=(Stint("d", "node1", 0b1011, 0.0, 1e-9),),
        configuration={"trace": "t.csv", "options": {"pause": 30.0, "names": ["ä"]}},
        notes=("2 rows left out",),
        cycles=7,
        events=11,
        cpu=0.25,
    )


def test_a_result_comes_back_to_the_digit(form: TableFormat, tmp_path: Path) -> None:
    write_result(awkward(), tmp_path / "new" / "run", form)
    assert read_result(tmp_path / "new" / "run") == awkward()


def test_a_whole_simulation_comes_back(form: TableFormat, tmp_path: Path) -> None:
    whole = made_up("fifo", 3)
    write_result(whole, tmp_path, form)
    assert read_result(tmp_path) == whole


def test_nothing_comes_back_as_nothing(form: TableFormat, tmp_path: Path) -> None:
    write_result(result(), tmp_path, form)
    assert read_result(tmp_path) == result()


def test_the_index_says_what_the_result_is_of(tmp_path: Path) -> None:
    write_result(result(record(), samples=(sample(0.0),)), tmp_path)
    index = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert index["configuration"] == {"trace": "made up"}
    assert (index["seed"], index["policy"], index["hash"]) == (1, "fifo", "fifo-1")
    assert index["summary"]["mean"] == 10.0
    assert index["bounds"]["best"] == 10.0
    assert read_index(tmp_path) == index


def test_equal_results_are_equal_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_result(made_up("fifo", 5), tmp_path / folder)
    for name in ("jobs.csv", "samples.csv", "stints.csv", "result.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_write_that_was_interrupted_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_result(result(record()), tmp_path)

    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        write_result(result(record("b")), tmp_path)
    with pytest.raises(InputError, match=r"result\.json"):
        read_result(tmp_path)


def test_parquet_without_its_library_names_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"Parquet needs pyarrow: pip install 'musterd\[report\]'"):
        write_result(result(), tmp_path, TableFormat.PARQUET)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    path.write_text("at,running,waiting,used,capacity\n0,0,0,0,0\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"samples\.csv:1: no column stranded"):
        list(read_lines(path, ClusterSample))


@pytest.mark.parametrize(
    ("line", "problem"),
    [("0.0,1,x,1,4,0", "invalid literal"), ("0.0,1,1", "3 columns, not 6")],
)
def test_a_wrong_line_is_named(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    write_lines(path, ClusterSample, [sample(0.0)])
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"samples\.csv:3: {problem}"):
        list(read_lines(path, ClusterSample))


def test_a_fate_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    write_lines(path, JobResult, [record()])
    path.write_text(path.read_text(encoding="utf-8").replace("done", "gone"), encoding="utf-8")
    with pytest.raises(InputError, match=r"jobs\.csv:2: 'gone' is not a valid Fate"):
        list(read_lines(path, JobResult))


@pytest.mark.parametrize("text", ["{", "[]", '{"layout": 99}', '{"layout": 1}'])
def test_an_index_that_is_none_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"result\.json: not "):
        read_result(tmp_path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.csv or \.parquet"):
        write_lines(tmp_path / "jobs.txt", JobResult, [])


def test_what_is_not_parquet_is_said(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "jobs.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(InputError, match=r"jobs\.parquet"):
        list(read_lines(tmp_path / "jobs.parquet", JobResult))
