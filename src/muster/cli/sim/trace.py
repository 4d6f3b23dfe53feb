"""`muster sim trace`: what a trace holds, and the generators."""

import json
from dataclasses import MISSING, fields
from pathlib import Path

from muster.cli.render.table import table
from muster.files.known_cluster import load_known
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.jobs import Jobs, jobs_of
from muster.sim.trace.draw import Sizes
from muster.sim.trace.generate import GENERATORS
from muster.sim.trace.inspect import alone, summarise
from muster.sim.trace.show import shown_summary, time_shown
from muster.sim.trace.spec import written
from muster.sim.truth import Arrival


def run_trace(
    configuration: Configuration, cluster_file: Path | None, *, head: int | None, as_json: bool
) -> str:
    """Return the trace's summary, or its first jobs."""
    devices = None
    if cluster_file is not None:
        devices = sum(load_known(cluster_file).cluster.devices_by_type().values())
    jobs = jobs_of(configuration)
    if head is not None:
        return _head(jobs, head, as_json=as_json)
    summary, note = summarise(jobs.arrivals(), devices), jobs.left_out.note()
    if as_json:
        return json.dumps(
            {**summary.as_json(), "left_out": jobs.left_out.count, "note": note}, indent=2
        )
    return shown_summary(summary) + (f"\n\nNote: {note}." if note else "")


def _head(jobs: Jobs, count: int, *, as_json: bool) -> str:
    chosen = [each for each, _ in zip(jobs.arrivals(), range(count), strict=False)]
    if as_json:
        return json.dumps([_plain(each) for each in chosen], indent=2)
    heading = ("SUBMITTED", "NAME", "DEVICES", "ALONE", "POOL", "USER", "APPLICATION")
    return table(heading, [_line(each) for each in chosen], left=(1, 4, 5, 6))


def _plain(arrival: Arrival) -> dict[str, object]:
    job, spec, seconds = arrival.job, arrival.job.workers, alone(arrival)
    return {
        "submitted": arrival.at,
        "name": job.name,
        "devices": spec.gang * spec.need.devices,
        "most": spec.most * spec.need.devices,
        "alone": None if seconds != seconds else seconds,
        "pool": job.pool,
        "user": job.user,
        "application": job.application,
    }


def _line(arrival: Arrival) -> tuple[str, ...]:
    plain, seconds = _plain(arrival), alone(arrival)
    fewest, most = plain["devices"], plain["most"]
    return (
        f"{arrival.at:,.0f} s",
        arrival.job.name,
        f"{fewest}" if fewest == most else f"{fewest}..{most}",
        "-" if seconds != seconds else time_shown(seconds),
        arrival.job.pool,
        arrival.job.user,
        arrival.job.application or "-",
    )


def generators() -> str:
    """List the generators and their defaults."""
    rows = []
    for name, generator in GENERATORS.items():
        defaults = [
            f"{each.name}={_written(each.default)}"
            for each in fields(generator.parameters)
            if each.default is not None and each.default is not MISSING
        ]
        rows.append(f"{name}: {generator.about}\n    {name}:{','.join(defaults)}")
    return "\n".join(rows) + "\n\nAll parameters are optional: see docs/reference/traces.md."


def _written(value: object) -> str:
    if isinstance(value, Sizes):
        return written(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
