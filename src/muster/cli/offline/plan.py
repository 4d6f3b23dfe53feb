"""`muster plan`: how a job would be laid out on a cluster, how fast it would run, and why."""

import json
from pathlib import Path
from typing import Any

from muster.cli.offline.play import load_jobs
from muster.cli.render.table import table
from muster.cli.render.words import clock
from muster.core.cycle.options import options
from muster.files.cluster.cluster_file import ClusterFile
from muster.files.errors import InputError
from muster.files.known_cluster import load_known
from muster.model.cluster import Cluster
from muster.model.job import Job, Role
from muster.model.profile import ModelProfile
from muster.perf.estimate import Unknown
from muster.perf.predict import Predictor
from muster.planner.choose import Aim, Chosen, Planner, Priced
from muster.planner.reason import compared, headline, made_of, short_time

_BAR = 30
"""Characters of the fastest plan's bar."""


def run_plan(cluster: Path, path: Path, *, devices: int | None, aim: str, as_json: bool) -> str:
    """Return the best plan for a job on the empty cluster, as text or JSON."""
    loaded = load_known(cluster)
    job, model = _asked(path, loaded)
    predictor = Predictor(loaded.cluster)
    most = devices or _most(job)
    choice = _best(predictor, job, most, Aim(aim))
    if isinstance(choice, Unknown):
        raise InputError.at(str(path), f"cannot be planned: {choice.detail}")
    if as_json:
        return json.dumps(_as_data(choice, job), indent=2)
    return _text(choice, job, model, predictor, most)


def run_curve(cluster: Path, path: Path, *, devices: int | None) -> str:
    """Return the best plan's speed by number of devices."""
    loaded = load_known(cluster)
    job, model = _asked(path, loaded)
    predictor = Predictor(loaded.cluster)
    most = min(devices or _most(job), _present(job, loaded.cluster))
    rows: list[tuple[int, Priced]] = []
    without: list[str] = []
    for count in _counts(job.workers.gang * max(1, job.workers.need.devices), most):
        choice = _best(predictor, job, count, Aim.THROUGHPUT)
        if isinstance(choice, Chosen):
            rows.append((count, choice.best))
        else:
            without.append(f"{count}: {choice.detail}")
    if not rows:
        raise InputError.at(str(path), f"cannot be planned with {without[-1]}")
    longest = max(priced.samples for _, priced in rows)
    heading = ("DEVICES", "USED", "SAMPLES/S", "EACH", "", "PLAN")
    cells = [_speed_row(count, priced, longest) for count, priced in rows]
    title = f"{job.name}: {model.name} on {loaded.cluster.name}, best plan by number of devices"
    return "\n".join([title, "", table(heading, cells, left=(4, 5)), *without])


def _speed_row(count: int, priced: Priced, longest: float) -> tuple[str, ...]:
    used = priced.candidate.plan.devices
    bar = "#" * max(1, round(_BAR * priced.samples / longest))
    each = f"{priced.samples / used:,.1f}"
    return (str(count), str(used), f"{priced.samples:,.0f}", each, bar, _headline(priced))


def _counts(least: int, most: int) -> list[int]:
    """Counts from least to most by doubling, and the most."""
    found = []
    while least < most:
        found.append(least)
        least *= 2
    return [*found, most]


def _most(job: Job) -> int:
    return job.workers.most * max(1, job.workers.need.devices)


def _present(job: Job, cluster: Cluster) -> int:
    """Return how many devices the cluster has of the types that the job allows."""
    there = cluster.devices_by_type()
    return sum(there.get(each, 0) for each in job.device_types or there)


def _asked(path: Path, loaded: ClusterFile) -> tuple[Job, ModelProfile]:
    """Load a job and the model it must name."""
    job = load_jobs([path], loaded)[0]
    if job.model is None:
        problem = "is required to plan a job; write for example resnet50"
        raise InputError.at(str(path), f"model: {problem}")
    return job, job.model


def _best(predictor: Predictor, job: Job, most: int, aim: Aim) -> Chosen | Unknown:
    """The best plan over all sets of configurations that the job may use."""
    planner = Planner(predictor)
    found = [planner.choose(job, option, most, aim) for option in options(job, predictor.cluster)]
    chosen = [choice for choice in found if isinstance(choice, Chosen)]
    unknown = next((each for each in found if isinstance(each, Unknown)), None)
    if not chosen and unknown is not None:
        return unknown
    return max(chosen, key=lambda choice: choice.best.worth)


def _text(choice: Chosen, job: Job, model: ModelProfile, predictor: Predictor, most: int) -> str:
    best, cluster = choice.best, predictor.cluster
    batch = sum(best.candidate.plan.batch)
    lines = [
        f"{job.name}: {model.name}, {batch} samples per step, at most {most} devices of {cluster.name}",
        "",
        f"  plan     {_headline(best)}",
        f"  step     {_interval(best)}, {best.samples:,.0f} samples/s",
        f"  epoch    {clock(model.samples / best.samples)} for {model.samples:,} samples",
        f"  why      {_why(best, model, predictor)}",
        *_runner_up(choice, model, predictor),
        f"  search   {choice.layouts} layouts of workers, {choice.priced} plans priced, the rest "
        "ruled out by bounds",
        "",
        _tasks(best, cluster),
    ]
    return "\n".join(lines)


def _headline(priced: Priced) -> str:
    return headline(priced.candidate.plan, len(priced.candidate.placement.nodes()))


def _interval(priced: Priced) -> str:
    step = priced.step
    low, mean, high = (short_time(t) for t in (step.low, step.mean, step.high))
    return f"{mean} ({low} to {high}, 80% interval)"


def _why(priced: Priced, model: ModelProfile, predictor: Predictor) -> str:
    candidate = priced.candidate
    parts = predictor.breakdown(model, candidate.plan, candidate.placement)
    return parts.detail if isinstance(parts, Unknown) else made_of(parts, priced.step.mean)


def _runner_up(choice: Chosen, model: ModelProfile, predictor: Predictor) -> list[str]:
    other = choice.runner_up
    if other is None:
        return []
    slower = compared(choice.best.worth, other.worth)
    return [
        f"  next     {_headline(other)}: {other.samples:,.0f} samples/s, {slower}",
        f"           {_why(other, model, predictor)}",
    ]


def _tasks(priced: Priced, cluster: Cluster) -> str:
    """One row for equal tasks: role, count, devices and samples of each, share owned, nodes."""
    plan = priced.candidate.plan
    rows: dict[tuple[Role, str, int, int, str], list[str]] = {}
    for slot in priced.candidate.placement.slots:
        kind = cluster.node(slot.node).configuration
        samples = plan.batch[slot.index] if slot.role is Role.WORKER else 0
        owner = Role.SERVER if plan.count(Role.SERVER) else Role.WORKER
        owns = plan.owners[slot.index] if plan.owners and slot.role is owner else 0.0
        key = (slot.role, kind, slot.bits.bit_count(), samples, f"{owns:.1%}" if owns else "-")
        rows.setdefault(key, []).append(slot.node)
    heading = ("ROLE", "TASKS", "DEVICES", "SAMPLES", "OWNS", "ON", "NODES")
    cells = [
        (
            role.value,
            str(len(nodes)),
            str(devices or "-"),
            str(samples or "-"),
            owns,
            kind,
            _names(nodes),
        )
        for (role, kind, devices, samples, owns), nodes in rows.items()
    ]
    return table(heading, cells, left=(0, 5, 6))


def _names(nodes: list[str]) -> str:
    """Each node once, with its number of tasks if above 1."""
    counts = {name: nodes.count(name) for name in dict.fromkeys(nodes)}
    return " ".join(name if count == 1 else f"{name}x{count}" for name, count in counts.items())


def _as_data(choice: Chosen, job: Job) -> dict[str, Any]:
    return {
        "job": job.name,
        "best": _priced_data(choice.best),
        "runner_up": _priced_data(choice.runner_up) if choice.runner_up else None,
        "layouts": choice.layouts,
        "priced": choice.priced,
    }


def _priced_data(priced: Priced) -> dict[str, Any]:
    plan = priced.candidate.plan
    step = priced.step
    return {
        "sync": plan.sync.value,
        "samples_per_second": priced.samples,
        "step_seconds": {"mean": step.mean, "low": step.low, "high": step.high},
        "devices": plan.devices,
        "batch": list(plan.batch),
        "owners": list(plan.owners),
        "tasks": [
            {"role": s.role.value, "index": s.index, "node": s.node, "bits": s.bits}
            for s in priced.candidate.placement.slots
        ],
    }
