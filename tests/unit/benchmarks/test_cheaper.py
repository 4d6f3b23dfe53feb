"""A cheaper change never makes things worse: one large job, alone in the measured T4 cluster."""

import csv
from pathlib import Path

import pytest

from muster.policy.muster import Muster
from support.t4_cluster import DATA, Case, mean, run

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="needs the measured T4 cluster")


def took(folder: Path, pause: float, *, rounds: bool) -> float:
    """When a lone imagenet training whose batch is free to grow ends, its speed being learnt."""
    with (DATA / "workloads" / "workload-1.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["application"] == "imagenet")
    path = folder / "one.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow({**row, "time": "0"})
    case = Case(free_batch=True, pause=pause, rounds=rounds, oracle=False, strategy="pack", seed=0)
    return mean(run(Muster(), path, case))


def test_a_large_job_that_nothing_happens_to_is_asked_about_again(tmp_path: Path) -> None:
    # In rounds there is a cycle every minute; at events the policy has to ask for one.
    assert took(tmp_path, 1.0, rounds=False) < 1.1 * took(tmp_path, 30.0, rounds=True)
