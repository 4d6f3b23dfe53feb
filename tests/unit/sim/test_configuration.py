"""A configuration: what is part of its hash, and what is not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.sim.disturbance import Disturbance
from muster.sim.scenario.configuration import Configuration, Failures
from muster.sim.trace.open_trace import TraceKind, kind_of
from tests.unit.sim.small import cluster_file, trace_file, two_jobs

ROOT = Path(__file__).parents[3]

CHANGES: dict[str, object] = {
    "policy": "srtf",
    "seed": 1,
    "oracle": True,
    "noise": 0.1,
    "rigid": True,
    "most": 8,
    "first": 1,
    "sort": True,
    "skip": True,
    "one_pool": True,
    "pause": 30.0,
    "restarts": True,
    "release": 5.0,
    "checkpoint": 60.0,
    "interval": 30.0,
    "rounds": True,
    "strategy": "pack",
    "migrate": False,
    "interference": Disturbance(network=0.1),
    "failures": Failures(1e6, 1e3),
    "until": 1e6,
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_option_is_another_hash(name: str, tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    other = replace(base, **{name: CHANGES[name]})  # type: ignore[arg-type]
    assert other.hash != base.hash
    assert replace(base).hash == base.hash


def test_files_count_by_what_is_in_them_not_by_where_they_are(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in (base.cluster, base.trace):
        shutil.copy(path, elsewhere / f"other-{Path(path).name}")
    moved = replace(
        base,
        cluster=str(elsewhere / "other-cluster.yaml"),
        trace=str(elsewhere / "other-trace.csv"),
    )
    assert moved.hash == base.hash
    assert moved.shown()["files"] != base.shown()["files"]


def test_a_file_that_changes_is_another_hash(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    before = base.hash
    trace_file(tmp_path, "0,1,100,a", "0,1,51,b", "9,1,1,c")
    changed = base.hash
    assert changed != before
    cluster_file(tmp_path, nodes=12)
    assert base.hash != changed


def test_a_folder_of_speeds_counts_with_its_names_and_contents(tmp_path: Path) -> None:
    def hashed(folder: Path) -> str:
        return replace(two_jobs(tmp_path), speeds=str(folder)).hash

    tables = tmp_path / "speeds"
    (tables / "bert").mkdir(parents=True)
    (tables / "bert/placements.csv").write_text("1", encoding="utf-8")
    before = hashed(tables)
    copy = Path(shutil.copytree(tables, tmp_path / "copy"))
    assert hashed(copy) == before
    (copy / "bert/placements.csv").rename(copy / "bert/scalability.csv")
    assert hashed(copy) != before


def test_a_generator_counts_by_its_parameters_not_by_how_they_are_written(tmp_path: Path) -> None:
    def hashed(trace: str) -> str:
        return replace(two_jobs(tmp_path), trace=trace).hash

    written = hashed("poisson:jobs=1000,mean=1h")
    assert hashed("poisson") == written, "1000 jobs of one hour are the defaults"
    assert hashed(" poisson: mean=3600 , jobs=1000") == written
    assert hashed("poisson:jobs=999") != written


def test_the_error_of_measurement_plays_no_part_under_an_oracle(tmp_path: Path) -> None:
    base = replace(two_jobs(tmp_path), oracle=True)
    assert replace(base, noise=0.5).hash == base.hash


def test_kinds_of_traces(tmp_path: Path) -> None:
    heading = "name,time,application,num_replicas,batch_size"
    assert kind_of("philly-like:jobs=3") is TraceKind.GENERATOR
    assert kind_of(str(ROOT / "examples/traces/philly-extract.csv")) is TraceKind.PHILLY
    assert kind_of(str(trace_file(tmp_path, heading=heading))) is TraceKind.T4
    assert kind_of(str(trace_file(tmp_path))) is TraceKind.TABLE
    assert kind_of("nowhere.csv") is TraceKind.TABLE


def test_a_file_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^nowhere\.yaml: No such file"):
        _ = Configuration(cluster="nowhere.yaml", trace="poisson", policy="fifo").hash
