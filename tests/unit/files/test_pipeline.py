"""Files with several jobs, and what relates jobs to each other."""

from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.files.job.job_entries import JobEntry
from muster.files.job.job_file import job_of
from muster.files.job.job_request import request_of
from muster.files.job.pipeline import (
    in_order,
    is_pipeline,
    pipeline_of,
    pipeline_schema,
    read_pipeline,
)
from muster.files.source.faults import FaultsError
from muster.model.job import Dependency, Job, When

DAG = """
pool: default
devices: 1..2
jobs:
  report:
    command: echo report
    after: {train: ok, prep: any}
  train:
    command: python train.py
    devices: 4
    after: [prep]
  prep:
    command: echo prep
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(record: dict[str, object]) -> list[str]:
    with pytest.raises(FaultsError) as found:
        pipeline_of(record)
    return list(found.value.lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prep", [("prep", "ok")]),
        (["prep", "12:any"], [("prep", "ok"), ("12", "any")]),
        ({"prep": "failed", "ada/x": "ok"}, [("prep", "failed"), ("ada/x", "ok")]),
    ],
)
def test_parents_are_written_as_a_name_a_list_or_a_mapping(
    text: object, expected: list[tuple[str, str]]
) -> None:
    job = job_of({"command": "true", "after": text})
    assert [(each.job, each.when) for each in job.after] == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prep:never", "after: 'never' is not a way to end; choose from: ok, any, failed"),
        (["a", "a:any"], "after: names 'a' twice"),
        ([["a"]], "after: must be a job, a list of jobs, or a mapping such as {prep: ok, other: any}"),
    ],
)
def test_a_parent_that_is_none_is_refused(text: object, problem: str) -> None:
    with pytest.raises(FaultsError) as found:
        job_of({"command": "true", "after": text})
    assert found.value.lines == (problem,)


def test_labels_are_kept_by_key() -> None:
    job = job_of({"command": "true", "labels": {"team": "vision", "run": 7}})
    assert job.labels == (("run", "7"), ("team", "vision"))
    with pytest.raises(FaultsError, match="labels: '-x' is not a label's key"):
        job_of({"command": "true", "labels": {"-x": "1"}})


def test_a_file_has_its_jobs_parents_first_and_shares_fields(tmp_path: Path) -> None:
    path = written(tmp_path, DAG)
    assert is_pipeline(path)
    found = read_pipeline(path).jobs
    assert list(found) == ["prep", "train", "report"]
    assert [each.job.workers.most for each in found.values()] == [2, 4, 2]


def test_the_schema_takes_what_the_reader_takes() -> None:
    written_so = yaml.safe_load(DAG)
    jsonschema.validate(written_so, pipeline_schema())
    written_so["jobs"]["prep"]["aftr"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written_so, pipeline_schema())


def test_a_prefix_begins_the_names_of_jobs_and_their_parents() -> None:
    jobs = {"a": {"command": "true"}, "b": {"command": "true", "after": ["a", "outside"]}}
    (_, _), (second, _) = pipeline_of({"name": "nightly", "jobs": jobs})
    assert second.name == "nightly-b"
    assert [each.job for each in second.after] == ["nightly-a", "outside"]


def test_faults_of_a_file_name_their_lines(tmp_path: Path) -> None:
    wrong = DAG.replace("devices: 4", "devices: many").replace("after: [prep]", "aftr: [prep]")
    with pytest.raises(FaultsError) as found:
        read_pipeline(written(tmp_path, wrong))
    places = [line.removeprefix(str(tmp_path / "jobs.yaml")) for line in found.value.lines]
    assert places[0].startswith(":10: devices: ")
    assert places[1] == ":11: aftr: unknown field (did you mean 'after'?)"


def test_a_cycle_is_refused_with_its_line(tmp_path: Path) -> None:
    cyclic = DAG.replace("command: echo prep", "command: echo prep\n    after: report:any")
    with pytest.raises(
        FaultsError, match=r":7: jobs.report.after: none of them could ever start: "
    ) as found:
        read_pipeline(written(tmp_path, cyclic))
    assert "report after train after prep after report" in str(found.value)


def test_faults_of_a_request_name_the_job_or_what_all_share() -> None:
    jobs = {"a": {"command": "true", "devices": "x"}, "b": {}}
    lines = faults({"jobs": jobs, "priority": "high"})
    assert any(line.startswith("jobs.a.devices: ") for line in lines)
    assert any(line.startswith("priority: ") for line in lines)
    assert any(line.startswith("jobs.b.command: is missing") for line in lines)
    assert faults({"jobs": {}}) == ["jobs: must be a mapping of names to jobs, with one at the least"]
    assert faults({"jobs": {"a": {"name": "b", "command": "true"}}}) == [
        "jobs.a.name: is its key already, 'a'; remove it"
    ]


@given(st.data())
def test_any_graph_without_cycles_has_an_order_and_any_with_one_is_refused(data: st.DataObject) -> None:
    names = [f"j{i}" for i in range(data.draw(st.integers(1, 8)))]
    edges = {name: data.draw(st.sets(st.sampled_from(names), max_size=3)) for name in names}
    jobs = {
        name: Job(name, after=tuple(Dependency(each) for each in sorted(parents)))
        for name, parents in edges.items()
    }
    reach = {name: set(parents) for name, parents in edges.items()}
    for _ in names:
        reach = {name: far.union(*(reach[each] for each in far)) for name, far in reach.items()}
    if any(name in far for name, far in reach.items()):
        with pytest.raises(FaultsError, match="none of them could ever start"):
            in_order(jobs)
        return
    order = in_order(jobs)
    assert sorted(order) == sorted(names)
    assert all(order.index(p) < order.index(name) for name, parents in edges.items() for p in parents)


EVERYTHING = {
    "name": "all",
    "command": ["python", "train.py"],
    "folder": "/tmp/x",
    "env": {"A": "1"},
    "pool": "research",
    "priority": 3,
    "preemptible": False,
    "devices": "2..6",
    "any_of": ["V100", "P100"],
    "same_generation": False,
    "gang": 1,
    "cores": "0.5",
    "memory": "2GB",
    "locality": {"widest": "node", "max_slowdown": "5%"},
    "model": "resnet50",
    "batch": "128..2048",
    "step": {"compute": "250ms", "gradients": "100MB"},
    "duration": "90m",
    "work": "1000",
    "application": "vision",
    "elastic": "restart",
    "pause": "7s",
    "sync": "ring",
    "owners": "update",
    "grace": "5s",
    "checkpoint_signal": "SIGUSR1",
    "checkpoint_grace": "6s",
    "finish_grace": "3m",
    "time": "1h",
    "warn": "SIGUSR2@30s",
    "until": "loss < 0.1",
    "resume_from": "/tmp/y",
    "checkpoint": "s3://bucket/x",
    "at_most_once": "true",
    "resumes": "false",
    "failures": "2",
    "losses": "4",
    "origin": {"env": {"PATH": "/bin"}, "executable": "/bin/python", "host": "here"},
    "labels": {"a": "b"},
    "slurm_env": "true",
    "notify": "https://example.org/hook",
    "notify_on": ["failed"],
    "container": {"image": "docker://x/y", "engine": "podman"},
}
ELSEWHERE = {"shell", "roles", "ship", "interactive"}
"""Fields that other records of the test have."""
LEFT_OUT = {"user", "after", "sweep"}
"""What belongs to one submission, not to the job."""


@pytest.mark.parametrize(
    "record",
    [
        EVERYTHING,
        {"command": "true"},
        {"command": "a && b", "shell": "true", "devices": "0", "cores": "2"},
        {"command": "x", "roles": {"worker": {"count": "1..3", "devices": 2}, "server": {"cores": 1}}},
        {"command": "x", "ship": f"sha256:{'0' * 64}"},
        {"command": "sh", "interactive": "30m"},
        {"command": "sh", "interactive": "0s", "preemptible": "true", "checkpoint_grace": "30s"},
    ],
    ids=["everything", "least", "shell", "roles", "ship", "terminal", "patient"],
)
def test_the_request_of_a_job_submits_the_same_again(record: dict[str, object]) -> None:
    job = job_of(record)
    assert job_of(request_of(job)) == job


def test_every_field_is_in_the_request_or_left_out_on_purpose() -> None:
    assert set(JobEntry.model_fields) == {*EVERYTHING, *ELSEWHERE, *LEFT_OUT}


def test_the_request_of_a_job_leaves_out_defaults() -> None:
    assert request_of(job_of({"command": "python train.py"})) == {
        "name": "train",
        "command": ["python", "train.py"],
    }


def test_whether_an_end_lets_a_job_start() -> None:
    table = {
        when: [s for s in ("succeeded", "failed", "cancelled", "skipped") if when.met_by(s)]
        for when in When
    }
    assert table == {
        When.OK: ["succeeded"],
        When.ANY: ["succeeded", "failed", "cancelled", "skipped"],
        When.FAILED: ["failed", "cancelled", "skipped"],
    }


def test_a_sweep_among_several_jobs_is_refused() -> None:
    """It would run once, with its placeholders as they are."""
    sweep = {"over": {"x": [1, 2]}}
    record = {"jobs": {"a": {"command": "echo {x}", "sweep": sweep}, "b": {"command": "true"}}}
    with pytest.raises(FaultsError) as caught:
        pipeline_of(record)
    assert [fault.field for fault in caught.value.faults] == ["jobs.a.sweep"]
    assert "submit it by itself, with after" in caught.value.faults[0].text
    with pytest.raises(FaultsError):
        pipeline_of({"sweep": sweep, "jobs": {"b": {"command": "true"}}})
