"""One frame of `muster top`: devices and the jobs that hold them, progress, recent events.

A pure function of records, which the demo uses as well.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from muster.cli.render.changes import notable
from muster.cli.render.job_table import finish, interval, loss, start, workers
from muster.cli.render.picture import FREE, GONE, letter_of_number, style
from muster.cli.render.pool_table import quotas_shown
from muster.cli.render.words import clock
from muster.wire.api.records import (
    OVER,
    ChangeRecord,
    JobRecord,
    NodeRecord,
    PoolRecord,
    QuotaRecord,
    StatusRecord,
    TaskRecord,
)

MOST_NODES, MOST_JOBS, MOST_CHANGES = 16, 20, 8
"""Rows of each part: together they fit fifty lines."""

WIDTH = 160
"""Columns when the output is not a terminal."""
_BAR = 16
"""Columns of a bar of workers; in a larger job each stands for several workers."""
_PROGRESS = 10
_COLUMNS = {
    "": 0,
    "ID": 0,
    "NAME": 0,
    "POOL": 90,
    "STATUS": 0,
    "WORKERS": 0,
    " ": 0,
    "PROGRESS": 0,
    "LOSS": 0,
    "RATE": 115,
    "START": 135,
    "FINISH": 0,
    "80%": 120,
    "WHY": 106,
}
"""Columns of the jobs, and the width of screen that each needs."""
_UNKNOWN = "■"
"""A device held by a job whose tasks are unknown."""
_STATUS_STYLES = {"running": "green", "succeeded": "green", "waiting": "yellow", "failed": "red"}


@dataclass(frozen=True, slots=True)
class ClusterFrame:
    """What one frame shows. `tasks`: by the number of their job, as far as requested."""

    status: StatusRecord
    nodes: Sequence[NodeRecord] = ()
    pools: Sequence[PoolRecord] = ()
    jobs: Sequence[JobRecord] = ()
    tasks: Mapping[int, Sequence[TaskRecord]] = field(default_factory=dict)
    changes: Sequence[ChangeRecord] = ()
    """Newest last."""
    trouble: str = ""
    """Why the frame is out of date."""
    live: int = 0
    """All live jobs; `jobs` may have only some of them."""


def live(frame: ClusterFrame, now: float, width: int = WIDTH) -> RenderableType:
    """Draw a frame: headline, devices, jobs, pools, recent events.

    `width`: columns of the screen; a narrow one leaves out the less important columns of jobs.
    """
    parts: list[RenderableType] = [_headline(frame, now), Text()]
    parts += [_devices(frame), Text(), _jobs(frame.jobs, frame.live, now, width)]
    if any(pool.quotas for pool in frame.pools):
        parts += [Text(), _pools(frame.pools)]
    changes = notable(frame.changes)
    if changes:
        parts += [Text(), _changes(changes)]
    return Group(*parts)


def _headline(frame: ClusterFrame, now: float) -> Text:
    status = frame.status
    used = status.devices - status.free
    figures = (
        f"policy {status.policy}",
        f"{used} of {status.devices} devices in use",
        f"{status.running} running, {status.pending} waiting",
        f"cycle {status.cycles:,} took {status.last_cycle * 1000:.0f} ms",
        f"up {clock(now - status.since)}",
    )
    text = Text.assemble((status.cluster, "bold"), " · ", " · ".join(figures))
    for trouble in filter(None, (status.trouble, status.warning, frame.trouble)):
        text.append(f"\n{trouble}", style="bold red")
    return text


def _grid(*headings: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True, justify="right" if heading in right else "left")
    return table


def _devices(frame: ClusterFrame) -> Table:
    """A row for each node, and for each device the letter of the job that holds it."""
    holders = {
        (task.node, device): letter_of_number(number)
        for number, tasks in frame.tasks.items()
        for task in tasks
        if task.status != "ended"
        for device in task.devices
    }
    nodes = frame.nodes
    if len(nodes) > MOST_NODES:  # those that are out must not be among the ones left out
        nodes = sorted(nodes, key=lambda node: not (node.why or node.trouble))
    engines = any(node.engine for node in nodes)
    out = any(node.why or node.trouble for node in nodes)
    more = (*(("ENGINE",) if engines else ()), *(("WHY",) if out else ()))
    table = _grid("NODE", "STATE", "TYPE", "DEVICES", "FREE", *more, right=("FREE",))
    for node in nodes[:MOST_NODES]:
        drawn = Text()
        for device, bit in enumerate(node.bitmap):
            _draw(drawn, node, bit, holders.get((node.name, device)))
        engine = (node.engine or "-",) if engines else ()
        why = (Text(node.why or node.trouble, style="yellow"),) if out else ()
        table.add_row(node.name, node.state, node.device_type, drawn, str(node.free), *engine, *why)
    rest = nodes[MOST_NODES:]
    if rest:
        free = sum(node.free for node in rest)
        table.add_row(f"and {len(rest):,} more", "", "", "", f"{free:,}", style="dim")
    return table


def _draw(drawn: Text, node: NodeRecord, bit: str, letter: str | None) -> None:
    if bit == ".":
        drawn.append(FREE if node.state == "up" else GONE, style="dim")
    elif letter is None:
        drawn.append(_UNKNOWN)
    else:
        drawn.append(letter, style=style(letter))


def _jobs(jobs: Sequence[JobRecord], live: int, now: float, width: int) -> RenderableType:
    if not jobs:
        return Text("No jobs: muster run train.py", style="dim")
    shown = [heading for heading, least in _COLUMNS.items() if width >= least]
    table = _grid(*map(str.strip, shown), right=("ID", "LOSS", "RATE", "START", "FINISH"))
    ordered = sorted(jobs, key=_rank)
    for job in ordered[:MOST_JOBS]:
        cells = _cells(job, now)
        table.add_row(*(cells[heading] for heading in shown))
    rest = max(live, len(ordered)) - min(MOST_JOBS, len(ordered))
    if rest > 0:
        table.add_row("", "", f"and {rest:,} more", style="dim")
    return table


def _cells(job: JobRecord, now: float) -> dict[str, str | Text]:
    """A job's cells by heading; those without one differ by a blank."""
    letter = letter_of_number(job.number)
    return {
        "": Text(letter if job.devices else "", style=style(letter)),
        "ID": str(job.number),
        "NAME": Text(job.name),
        "POOL": Text(job.pool),
        "STATUS": Text(job.status, style=_STATUS_STYLES.get(job.status, "cyan")),
        "WORKERS": _worker_bar(job, style(letter)),
        " ": workers(job),
        "PROGRESS": _progress(job),
        "LOSS": loss(job),
        "RATE": "-" if job.rate is None else f"{job.rate:,.0f}/s",
        "START": start(job, now),
        "FINISH": finish(job, now),
        "80%": interval(job, now) or "-",
        "WHY": Text(job.code, style="dim"),
    }


def _rank(job: JobRecord) -> tuple[int, int]:
    """Sort key: jobs with devices, then waiting ones, then finished ones; oldest first."""
    return (2 if job.status in OVER else 0 if job.devices else 1), job.number


def _worker_bar(job: JobRecord, colour: str) -> Text:
    """A bar of the workers it has, with dots up to the most it asks for."""
    if job.status in OVER:
        return Text()
    most = max(_most(job.asked), job.workers)
    each = -(-most // _BAR) or 1
    full = -(-job.workers // each)
    return Text.assemble(("▇" * full, colour), (FREE * (-(-most // each) - full), "dim"))


def _most(asked: str) -> int:
    """The most workers of `4`, `1..8` or `1..8+2`."""
    digits = asked.partition("+")[0].rpartition("..")[2]
    return int(digits) if digits.isdigit() else 0


def _progress(job: JobRecord) -> Text:
    if job.step is None:
        return Text("-", style="dim")
    if not job.steps:
        return Text(f"step {job.step:,}")
    part = min(1.0, job.step / job.steps)
    full = int(part * _PROGRESS)
    bar = ("━" * full, "green"), ("╌" * (_PROGRESS - full), "dim")
    return Text.assemble(*bar, f" {part:>4.0%}")


def _pools(pools: Sequence[PoolRecord]) -> Table:
    figures = ("ENTITLED", "RUNNING", "WAITING")
    table = _grid("POOL", "TYPE", "USED", "", *figures, right=figures)
    for pool in pools:
        for quota in quotas_shown(pool):
            table.add_row(
                Text(pool.name),
                quota.device_type,
                _use(quota),
                str(quota.used),
                str(quota.entitled),
                str(pool.running),
                str(pool.pending),
            )
    return table


def _use(quota: QuotaRecord) -> Text:
    """Devices used within the entitlement, borrowed beyond it, and left unused."""
    each = -(-max(quota.entitled, quota.used) // _BAR) or 1
    within = min(quota.used, quota.entitled) // each
    beyond = max(0, quota.used - quota.entitled) // each
    idle = max(0, quota.entitled - quota.used) // each
    return Text.assemble(("▇" * within, "green"), ("▇" * beyond, "yellow"), (FREE * idle, "dim"))


def _changes(changes: Sequence[ChangeRecord]) -> Table:
    table = _grid("AT", "JOB", "EVENT")
    shown = changes[-MOST_CHANGES:]
    # A long text must not squeeze the columns before it.
    table.columns[0].min_width = len("00:00:00")
    table.columns[1].min_width = min(20, max((len(each.job or "") for each in shown), default=0))
    for change in shown:
        at = time.strftime("%H:%M:%S", time.localtime(change.at))
        table.add_row(at, Text(change.job or ""), Text(change.text))
    return table
