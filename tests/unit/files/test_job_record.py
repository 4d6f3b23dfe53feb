"""The same job as JSON brings it: one set of rules for both."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import files
from muster.files import load_job
from muster.files.job.job_entries import JobEntry
from muster.files.job.job_file import job_of, read_job
from muster.files.source.faults import FaultsError
from muster.model.job import Job

EXAMPLES = sorted((Path(__file__).parents[3] / "examples/jobs").glob("*.yaml"))


def faults_of(record: dict[str, Any]) -> dict[str, str]:
    """What is wrong with a record, by field."""
    with pytest.raises(FaultsError) as caught:
        job_of(record)
    return {fault.field: fault.text for fault in caught.value.faults}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_file_sent_as_json_is_the_same_job(path: Path) -> None:
    assert job_of(json.loads(json.dumps(read_job(path).record))) == load_job(path)


def test_what_a_file_names_by_a_path_is_sent_along(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/tiny.yaml").write_text(
        "operations: 1M\nactivations: 1kB\nlayers: {dense: 1}\nsamples: 100\nsample_bytes: 4B\n"
        "batch: 8\ntensors:\n  - [w, 4kB, 1]\n"
    )
    path = tmp_path / "job.yaml"
    path.write_text("command: a\nfolder: work\nmodel: models/tiny.yaml\nenv: {A: , B: 1}\n")
    record = read_job(path).record
    assert record["folder"] == str(tmp_path / "work")
    assert record["env"] == {"A": None, "B": "1"}
    job = job_of({**record, "env": {"A": "x"}})
    assert job.model == load_job(path).model
    assert job.model is not None
    assert job.model.name == "tiny"


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Path(files.__file__).parent / "profiles/vgg16.yaml"
    (tmp_path / "mine.yaml").write_bytes(shipped.read_bytes())
    path = tmp_path / "job.yaml"
    path.write_text("command: a\nmodel: ./mine.yaml\n")
    read: list[str] = []
    plain = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    assert read_job(path).record["model"]["name"] == "vgg16"
    assert read == ["job.yaml", "mine.yaml"]


def test_numbers_and_truth_may_be_text_or_not() -> None:
    bare = {"command": ["a", 1, 0.5, True], "priority": -3, "cores": 0.5, "preemptible": False}
    text = {"command": ["a", "1", "0.5", "true"], "priority": "-3", "cores": "0.5", "preemptible": "no"}
    assert job_of(bare) == job_of(text)
    assert job_of({"command": "a", "devices": 4.0}) == job_of({"command": "a", "devices": "4"})


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"command": "python /srv/train.py --lr 1"}, "train"),
        ({"command": ["/bin/sh", "-c", "true"]}, "sh"),
        ({"command": "cd x && ./go.sh", "shell": True}, "go"),
        ({"command": ["ä b"]}, "job"),
        ({"command": "a", "name": "mine"}, "mine"),
    ],
)
def test_a_job_that_nobody_named(record: dict[str, Any], name: str) -> None:
    assert job_of(record).name == name
    assert job_of(record, "given").name == record.get("name", "given")


def test_no_path_is_read_for_somebody_elsewhere() -> None:
    found = faults_of({"command": "a", "model": "/etc/passwd", "folder": "here"})
    assert set(found) == {"model", "folder"}
    assert "shipped name or the profile itself" in found["model"]


def test_what_is_wrong_with_a_profile_that_is_sent_along() -> None:
    found = faults_of({"command": "a", "model": {"name": "tiny", "operatoins": "1M"}})
    assert list(found) == ["model.operatoins"]


def test_null_is_for_variables_alone() -> None:
    assert faults_of({"command": None, "pool": None, "env": {"A": None}}) == {
        "command": "has no value; add one or remove the line",
        "pool": "has no value; add one or remove the line",
    }
    assert list(faults_of({"command": "a", "env": {"A": None, "B": "x", "C": None}})) == [
        "env.A",
        "env.C",
    ]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**5000, object()], ids=["nan", "inf", "huge", "object"]
)
def test_what_json_does_not_have(value: object) -> None:
    assert list(faults_of({"command": "a", "cores": value})) == ["cores"]


def test_so_many_faults_and_no_more() -> None:
    with pytest.raises(FaultsError) as caught:
        job_of({f"x{number}": 1 for number in range(1_000)})
    assert len(caught.value.faults) == 100


@pytest.mark.parametrize("field", ["command", "any_of", "env", "x"])
def test_a_record_that_holds_too_much_is_not_looked_through(field: str) -> None:
    values = {f"x{number}": "1" for number in range(100_000)}
    record = {"command": "a", field: values if field == "env" else list(values)}
    assert faults_of(record) == {"": "has more than 20000 values"}


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(sorted(JobEntry.model_fields)) | st.text(max_size=8)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(record=st.dictionaries(keys, values, max_size=8))
def test_whatever_is_sent_is_a_job_or_a_list_of_faults(record: dict[str, Any]) -> None:
    try:
        assert isinstance(job_of(record), Job)
    except FaultsError as error:
        for fault in error.faults:
            assert (fault.field + fault.text).isprintable()
