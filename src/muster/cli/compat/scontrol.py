"""`scontrol`: one job, node or partition in full, and holds and releases."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from muster.cli.compat.job_ids import named_jobs, split_ids
from muster.cli.compat.sinfo import node_state
from muster.cli.compat.words import (
    elapsed,
    exit_code,
    long_clock,
    reason,
    stamp,
    state,
    time_limit,
    words_of,
)
from muster.cli.connect import daemon

if TYPE_CHECKING:
    from muster.client import Client
    from muster.wire.api.records import JobRecord

_CHANGES = ("hold", "uhold", "release", "requeue")
_RANGE = re.compile(r"([^\[,]*)(?:\[([^\]]*)\])?([^,\[]*)")


def run_scontrol(words: Sequence[str]) -> None:
    """Do what `scontrol` would: `show job`, `show hostnames`, `hold` and the like."""
    parser = words_of("scontrol")
    parser.add_argument("-o", "--oneliner", action="store_true")
    parser.add_argument("-d", "--details", action="store_true")
    parser.add_argument("act", nargs="?", default="")
    parser.add_argument("what", nargs="*")
    given = parser.parse_args(words)
    if given.act == "show" and given.what[:1] in (["hostnames"], ["hostname"]):
        import os

        listed = given.what[1] if len(given.what) > 1 else os.environ.get("SLURM_JOB_NODELIST", "")
        typer.echo("\n".join(hostnames(listed)))
    elif given.act == "show" and given.what:
        _show(given.what[0].lower(), given.what[1:], parser.error, one_line=given.oneliner)
    elif given.act in _CHANGES and given.what:
        _change(given.act, split_ids(given.what))
    elif given.act == "ping":
        with daemon() as client:
            client.status()
        typer.echo("Slurmctld(primary) at muster is UP")
    else:
        said = " ".join([given.act, *given.what]).strip() or "nothing"
        known = ["show job|node|partition|hostnames", *_CHANGES, "ping"]
        parser.error(f"{said}: there are {', '.join(known)}")


def hostnames(listed: str) -> Iterator[str]:
    """Yield the names of a list such as `n[1-3,7],m0`."""
    for found in _RANGE.finditer(listed):
        before, inside, after = found[1], found[2], found[3]
        if inside is None:
            if before:
                yield before
            continue
        for span in inside.split(","):
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield f"{before}{number:0{len(first)}}{after}"


def _show(kind: str, names: Sequence[str], fail: "object", *, one_line: bool) -> None:
    with daemon() as client:
        if kind in ("job", "jobs", "jobid"):
            pages = [_job_page(client, job) for job in named_jobs(client, split_ids(names))]
        elif kind in ("node", "nodes"):
            pages = [_node_page(client, name) for name in names or [n.name for n in client.nodes()]]
        elif kind in ("partition", "partitions"):
            pools = [pool.name for pool in client.pools() if pool.leaf]
            chosen = [name for name in pools if not names or name in names]
            pages = [["PartitionName=" + name, "State=UP", "MaxTime=UNLIMITED"] for name in chosen]
        else:
            assert callable(fail)
            fail(f"show {kind}: there are job, node, partition and hostnames")
            return
    for page in pages:
        typer.echo((" " if one_line else "\n   ").join(page) + ("" if one_line else "\n"))


def _job_page(client: "Client", job: "JobRecord") -> list[str]:
    program = client.job(job.number).program
    return [
        f"JobId={job.number} JobName={job.name}",
        f"UserId={job.user} Priority={job.priority} Account={job.pool}",
        f"JobState={state(job)} Reason={reason(job)} Dependency=(null)",
        f"Requeue=1 Restarts={job.losses + job.failures} BatchFlag=1 ExitCode={exit_code(job)}",
        f"RunTime={long_clock(elapsed(job))} TimeLimit={time_limit(job, long_clock)}",
        f"SubmitTime={stamp(job.submitted)}",
        f"StartTime={stamp(job.started)} EndTime={stamp(job.ended or job.predicted_finish)}",
        f"Partition={job.pool} NodeList={','.join(job.nodes) or '(null)'}",
        f"NumNodes={max(1, len(job.nodes))} NumCPUs={max(1, job.workers)} NumTasks={job.asked}",
        f"TresPerNode=gres/gpu:{job.devices}" if job.devices else "TresPerNode=(null)",
        f"Command={' '.join(job.command)}",
        f"WorkDir={program.folder if program is not None else ''}",
    ]


def _node_page(client: "Client", name: str) -> list[str]:
    node = client.node(name)
    gres = f"gpu:{node.device_type}:{node.devices}" if node.devices else "(null)"
    return [
        f"NodeName={node.name} CPUTot={int(node.cores)} NodeAddr={node.address or node.name}",
        f"State={node_state(node).upper()} RealMemory={node.memory // 2**20} Gres={gres}",
        f"Reason={node.why or '(null)'}",
    ]


def _change(act: str, ids: Sequence[str]) -> None:
    with daemon() as client:
        acts = {"hold": client.hold, "uhold": client.hold, "release": client.release}
        change = acts.get(act, client.requeue)
        for job in list(named_jobs(client, ids)):
            change(job.number)
