"""The T4 cluster of the published evaluation: its nodes, its workloads, and one simulation on them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from muster.core.cycle.cycle_state import Rules
from muster.files.cluster.cluster_file import load_cluster
from muster.policy.base import Policy
from muster.sim.beliefs import Oracle, OutlookSource
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.result import Result
from muster.sim.scenario.run import simulate
from muster.sim.truth import Arrival
from muster.sim.worlds.t4_files import read_tables, read_workload
from muster.sim.worlds.t4_tables import T4Model
from support.partly_told import PartlyTold

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "t4-cluster"
CLUSTER = ROOT / "examples" / "clusters" / "t4-16x4.yaml"
WORKLOADS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Case:
    """How a workload is run; the rest is the published evaluation's rules."""

    elastic: bool = True
    most: int | None = None
    free_batch: bool = False
    pause: float = 30.0
    """s; those of half a minute stop and start the job, those of a second resize it live."""
    rounds: bool = True
    """Decide every 60 s only; else at every event too."""
    oracle: bool = True
    declared: bool = False
    """Jobs say how many epochs they take; else even that is learnt from those that have ended."""
    strategy: str = "roomy"
    seed: int = 0
    told: str = ""
    """What the oracle tells of what is otherwise learnt: "lengths" or "speeds"."""


@cache
def tables() -> dict[str, T4Model]:
    """The measured models."""
    if not DATA.is_dir():
        raise SystemExit(f"the measured data is not there: {DATA} (see docs/reference/traces.md)")
    return read_tables(DATA / "speeds")


def arrivals(workload: int | Path, case: Case) -> Iterator[Arrival]:
    """The jobs of a workload: one of the four, or another file of their form."""
    path = workload if isinstance(workload, Path) else DATA / "workloads" / f"workload-{workload}.csv"
    read = read_workload(
        path,
        tables(),
        most=case.most,
        elastic=case.elastic,
        free_batch=case.free_batch,
        declared=case.declared,
    )
    for arrival in read:
        job = replace(arrival.job, pause=case.pause, restarts=case.pause >= 30.0)
        yield replace(arrival, job=job)


def run(policy: Policy, workload: int | Path, case: Case) -> Result:
    """One simulation."""
    loaded = load_cluster(CLUSTER)
    setting = Setting(
        loaded.cluster,
        loaded.pools,
        policy,
        Rules(strategy=case.strategy),
        beliefs=Oracle if case.oracle else lambda: learnt(case),
        rounds=case.rounds,
        seed=case.seed,
    )
    return simulate(setting, arrivals(workload, case))


def learnt(case: Case) -> OutlookSource:
    """What jobs show, as far as the case says."""
    ranges = {name: model.range for name, model in tables().items()}
    kind = PartlyTold if case.told else Learnt
    models = {name: model.shape for name, model in tables().items() if model.shape is not None}
    cluster = load_cluster(CLUSTER).cluster
    beliefs = kind({"T4": 4}, ranges, free_batch=case.free_batch, cluster=cluster, models=models)
    if isinstance(beliefs, PartlyTold):
        beliefs.told = case.told
    return beliefs


def mean(result: Result) -> float:
    """Mean completion time, s; every job must have ended."""
    times = [r.ended - r.submitted for r in result.records if r.ended is not None]
    if len(times) < len(result.records):
        raise SystemExit(f"{len(result.records) - len(times)} jobs did not end")
    return sum(times) / len(times)
