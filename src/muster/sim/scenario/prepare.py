"""Prepare a simulation from its configuration, and run it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path

from muster.core.cycle.cycle_state import STRATEGIES, Rules
from muster.core.cycle.sections import check_policies
from muster.files.cluster.cluster_file import ClusterFile
from muster.files.errors import InputError, did_you_mean, one_of, shown
from muster.files.known_cluster import load_known
from muster.model.cluster import Cluster
from muster.model.event import NodeEvent
from muster.model.pool import Pool, PoolError, PoolTree, single_pool
from muster.policy.registry import POLICIES, PolicyError
from muster.sim.beliefs import Oracle, OutlookSource
from muster.sim.engine import Setting
from muster.sim.executor import Pauses
from muster.sim.result import Fate, Result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.incidents import at_first, drawn, read_incidents
from muster.sim.scenario.jobs import Jobs, Survey, jobs_of
from muster.sim.scenario.run import Progress, simulate
from muster.sim.sweeps.played_sweep import PlayedSweep
from muster.sim.trace.open_trace import TraceKind, kind_of

SLACK = 10.0
"""Failures are drawn up to the last submission plus this many times the total work: long enough for any
policy that completes the jobs at all."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A simulation ready to run."""

    configuration: Configuration
    setting: Setting
    jobs: Jobs
    horizon: float = inf
    """s up to which failures were drawn."""
    note: str | None = None
    """A note on the pools."""


def prepare(configuration: Configuration) -> Prepared:
    """Read and check everything; InputError is one line."""
    if configuration.policy.partition(":")[0] not in POLICIES:
        raise InputError.at("--policy", one_of(configuration.policy, "policy", POLICIES))
    try:
        policy = POLICIES.find(configuration.policy)
    except PolicyError as error:
        raise InputError.at("--policy", str(error)) from None
    strategies = ("adaptive", *STRATEGIES)
    if configuration.strategy not in strategies:
        raise InputError.at("--strategy", one_of(configuration.strategy, "strategy", strategies))
    loaded = load_known(Path(configuration.cluster))
    failures = configuration.failures
    jobs = jobs_of(configuration, weigh=failures is not None)
    horizon = _horizon(configuration, jobs.survey, loaded.cluster) if failures is not None else inf
    pools, note = _pools(configuration, loaded, jobs.survey)
    try:
        check_policies(pools, policy.name)
    except PolicyError as error:
        raise InputError.at(configuration.cluster, str(error)) from None
    incidents = _incidents(configuration, loaded.cluster, horizon)
    setting = Setting(
        cluster=at_first(loaded.cluster, incidents),
        pools=pools,
        policy=policy,
        rules=Rules(strategy=configuration.strategy, migrate=configuration.migrate),
        pauses=Pauses(release=configuration.release, checkpoint=configuration.checkpoint),
        beliefs=_beliefs(configuration, loaded.cluster, jobs.survey),
        interval=configuration.interval,
        rounds=configuration.rounds,
        disturbance=configuration.interference,
        incidents=incidents,
        true_links=_true_links(configuration, loaded.cluster),
        learn_links=configuration.learn_links,
        whole=loaded.cluster,
        seed=configuration.seed,
        noise=configuration.noise,
        until=inf if configuration.until is None else configuration.until,
        planners=loaded.planners,
        sweeps=_sweeps(configuration, pools),
    )
    return Prepared(configuration, setting, jobs, horizon, note)


def _sweeps(configuration: Configuration, pools: PoolTree) -> tuple[PlayedSweep, ...]:
    """Return the sweep asked for, in the first pool."""
    asked = configuration.sweep
    if asked is None:
        return ()
    return (asked.played(pools.leaves()[0], configuration.seed, configuration.pause),)


def _true_links(configuration: Configuration, cluster: Cluster) -> dict[str, float]:
    for name, _ in configuration.true_links:
        if name not in cluster.index:
            raise InputError.at("--true-links", one_of(name, "node", cluster.index))
    return dict(configuration.true_links)


def run_prepared(
    prepared: Prepared, progress: Progress | None = None, *, stints: bool = False
) -> Result:
    """Simulate, and add the configuration and notes to the result."""
    configuration, arrivals = prepared.configuration, prepared.jobs.arrivals()
    result = simulate(prepared.setting, arrivals, configuration.values(), progress, stints=stints)
    _refuse_nothing_left(configuration, result)
    shown_with_files = {**configuration.shown(), "stints": stints}
    notes = (*_notes(prepared, result), *result.notes)
    return replace(result, configuration=shown_with_files, notes=notes)


def seed_matters(configuration: Configuration, policies: Iterable[str]) -> bool:
    """Return whether the seed draws anything: jobs, failures, or measurements for a policy."""
    drawn = configuration.failures is not None or configuration.sweep is not None
    if kind_of(configuration.trace) is TraceKind.GENERATOR or drawn:
        return True
    measured = not configuration.oracle and configuration.noise > 0
    return measured and any(POLICIES.find(name).informed for name in policies)


def _pools(
    configuration: Configuration, loaded: ClusterFile, survey: Survey
) -> tuple[PoolTree, str | None]:
    """Return the file's pools; without any, one for each of the trace's, with equal shares."""
    if configuration.one_pool:
        return single_pool(loaded.cluster.devices_by_type()), None
    leaves = loaded.pools.leaves()
    missing = [name for name in survey.pools if name not in leaves]
    if not missing:
        return loaded.pools, None
    if leaves == ("default",):
        try:
            made = PoolTree({name: Pool(name) for name in survey.pools})
            return made, f"{len(survey.pools)} pools of equal shares were made for the trace"
        except PoolError as error:
            raise InputError.at(configuration.trace, str(error)) from None
    hint = did_you_mean(missing[0], leaves)
    problem = (
        f"{configuration.cluster} has no pool for jobs called {shown(missing[0])}{hint}; "
        "--one-pool puts all jobs into one"
    )
    raise InputError.at(configuration.trace, problem)


def _beliefs(
    configuration: Configuration, cluster: Cluster, survey: Survey
) -> Callable[[], OutlookSource]:
    if configuration.oracle:
        return Oracle
    # Imported here: an oracle does not need it.
    from muster.sim.learnt import Learnt

    return partial(
        Learnt,
        cluster.node_devices(),
        survey.ranges,
        free_batch=configuration.free_batch,
        cluster=cluster,
        models=survey.models,
    )


def _horizon(configuration: Configuration, survey: Survey, cluster: Cluster) -> float:
    if configuration.until is not None:
        return configuration.until
    devices = sum(cluster.devices_by_type().values())
    return survey.last + SLACK * (survey.work / max(1, devices) + survey.longest)


def _incidents(configuration: Configuration, cluster: Cluster, horizon: float) -> tuple[NodeEvent, ...]:
    if configuration.incidents is not None:
        return read_incidents(Path(configuration.incidents), cluster)
    if configuration.failures is None:
        return ()
    return drawn(cluster, configuration.failures, configuration.seed, horizon)


def _refuse_nothing_left(configuration: Configuration, result: Result) -> None:
    if all(record.fate is Fate.REFUSED for record in result.records):
        why = result.notes[0].partition(": ")[2] if result.notes else "none is submitted by then"
        count = len(result.records)
        jobs = f"none of its {count:,} jobs can run" if count != 1 else "its one job cannot run"
        raise InputError.at(configuration.trace, f"{jobs} on {configuration.cluster}: {why}")


def _notes(prepared: Prepared, result: Result) -> list[str]:
    """Return notes on the input."""
    notes = [note for note in (prepared.jobs.left_out.note(), prepared.note) if note is not None]
    last = max((sample.at for sample in result.samples), default=0.0)
    if last > prepared.horizon:
        notes.append(f"node failures were drawn only up to {prepared.horizon:,.0f} s")
    return notes
