"""Batches: what is stored is found again, what is half there is done again, what fails stays alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.policy.registry import POLICIES
from muster.sim.report.files import TableFormat, read_result
from muster.sim.scenario.batch import ResultStore, of_all, run_batch
from muster.sim.scenario.configuration import Configuration
from tests.unit.sim.small import trace_file, two_jobs


class Told:
    """A watcher that takes notes."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int]] = []

    def began(self, configuration: Configuration, jobs: int) -> None:
        self.heard.append(("began", configuration.policy, jobs))

    def moved(self, configuration: Configuration, done: int) -> None:
        self.heard.append(("moved", configuration.policy, done))

    def ended(self, configuration: Configuration) -> None:
        self.heard.append(("ended", configuration.policy, configuration.seed))


class Broken:
    """A policy with a fault."""

    name = "broken"
    informed = False

    def allocate(self, *_: object) -> object:
        raise RuntimeError("out of ideas")


@pytest.fixture
def broken() -> Iterator[str]:
    POLICIES["broken"] = Broken()  # type: ignore[assignment]
    yield "broken"
    del POLICIES["broken"]


def test_policies_and_seeds_make_a_batch_seed_by_seed(tmp_path: Path) -> None:
    batch = of_all(two_jobs(tmp_path), ("fifo", "srtf"), range(2))
    assert [(each.policy, each.seed) for each in batch] == [
        ("fifo", 0),
        ("srtf", 0),
        ("fifo", 1),
        ("srtf", 1),
    ]
    assert len({each.hash for each in batch}) == 4


def test_results_are_stored_under_policy_seed_and_hash(tmp_path: Path) -> None:
    base, store, told = two_jobs(tmp_path), ResultStore(tmp_path / "out"), Told()
    assert not store.has(base)
    assert run_batch([base], store, told) == []
    assert store.has(base)
    folder = tmp_path / "out" / f"fifo-0-{base.hash}"
    assert [record.ended for record in read_result(folder).records] == [100.0, 150.0]
    assert told.heard == [
        ("began", "fifo", 2),
        ("moved", "fifo", 1),
        ("moved", "fifo", 2),
        ("ended", "fifo", 0),
    ]


def test_only_a_whole_result_of_the_same_kind_counts_as_done(tmp_path: Path) -> None:
    base, store = two_jobs(tmp_path), ResultStore(tmp_path / "out")
    run_batch([base], store, Told())
    assert not store.has(replace(base, pause=1.0))
    assert not replace(store, stints=True).has(base), "stints were not kept"
    assert not replace(store, form=TableFormat.PARQUET).has(base)
    index = store.place(base) / "result.json"
    whole = index.read_text(encoding="utf-8")
    index.write_text(whole[:100], encoding="utf-8")
    assert not store.has(base), "cut off"
    index.unlink()
    assert not store.has(base), "result.json is written last"


def test_what_is_dropped_is_gone_and_nothing_else(tmp_path: Path) -> None:
    base, store = two_jobs(tmp_path), ResultStore(tmp_path / "out")
    other = replace(base, policy="srtf")
    run_batch([base, other], store, Told())
    store.drop([base])
    assert (store.has(base), store.has(other)) == (False, True)


def test_several_processes_store_what_one_does(tmp_path: Path) -> None:
    batch = of_all(two_jobs(tmp_path), ("fifo", "srtf"), range(1))
    one, two, told = ResultStore(tmp_path / "one"), ResultStore(tmp_path / "two"), Told()
    assert run_batch(batch, one, Told()) == []
    assert run_batch(batch, two, told, workers=2) == []
    for each in batch:
        alone, beside = (read_result(store.place(each)) for store in (one, two))
        assert replace(alone, cpu=0.0) == replace(beside, cpu=0.0)
    assert sorted(word for word in told.heard if word[0] != "moved") == [
        ("began", "fifo", 2),
        ("began", "srtf", 2),
        ("ended", "fifo", 0),
        ("ended", "srtf", 0),
    ]


def test_bad_input_in_a_process_ends_the_batch_with_its_line(tmp_path: Path) -> None:
    batch = of_all(two_jobs(tmp_path), ("fifo", "srtf"), range(1))
    trace_file(tmp_path, "0,1,100,a", "0,1,50,a")
    with pytest.raises(InputError, match="a second job is called 'a'"):
        run_batch(batch, ResultStore(tmp_path / "out"), Told(), workers=2)


def test_a_fault_of_one_does_not_stop_the_others(tmp_path: Path, broken: str) -> None:
    base, store = two_jobs(tmp_path), ResultStore(tmp_path / "out")
    faulty = replace(base, policy=broken)
    (failure,) = run_batch([faulty, base], store, Told())
    assert failure.configuration == faulty
    assert "out of ideas" in failure.why
    assert "Traceback" in failure.told.read_text(encoding="utf-8")
    assert (store.has(faulty), store.has(base)) == (False, True)


def test_a_fault_in_a_process_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    """A folder where jobs.csv is to be written: a fault that only the writing process meets."""
    batch = of_all(two_jobs(tmp_path), ("fifo", "srtf"), range(1))
    store = ResultStore(tmp_path / "out")
    (store.place(batch[0]) / "jobs.csv").mkdir(parents=True)
    (failure,) = run_batch(batch, store, Told(), workers=2)
    assert failure.configuration == batch[0]
    assert "jobs.csv" in failure.why
    assert store.has(batch[1])
