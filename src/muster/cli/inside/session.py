"""`muster run --interactive` and `--jupyter`: a job that a person sits at."""

import os
import re
import secrets
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from muster.cli.connect import daemon
from muster.cli.exits import BAD_INPUT, OTHER_FAILURE
from muster.cli.inside.options import SessionOptions
from muster.cli.inside.terminal import attach_to
from muster.cli.jobs.reading.follow import print_end
from muster.cli.jobs.select import PAGE
from muster.cli.jobs.submitting.field_options import FieldOptions
from muster.cli.jobs.submitting.options import RunRequest
from muster.cli.jobs.submitting.request import free_name, job_record
from muster.cli.parse import seconds_of
from muster.cli.render.terminal import complain
from muster.files.errors import InputError
from muster.files.source.faults import FaultsError
from muster.wire.api.records import LIVE, OVER

if TYPE_CHECKING:
    from muster.client import Client, Handle

KEYS = "ctrl-p,ctrl-q"
TOKEN = "JUPYTER_TOKEN"
LOOK = 0.1
"""s between two looks at whether the session has begun."""
JUPYTER = (
    'command -v jupyter >/dev/null || { echo "muster: no jupyter in the environment of this job; '
    'install jupyterlab there" >&2; exit 127; }; '
    'if [ "$(id -u)" = 0 ]; then set -- --allow-root "$@"; fi; '
    "exec jupyter lab --no-browser --ip=127.0.0.1 --port=8888 --ServerApp.port_retries=500 "
    "--ServerApp.shutdown_no_activity_timeout=IDLE --MappingKernelManager.cull_idle_timeout=IDLE "
    '"$@"'
)
"""Its own limits see what a terminal's cannot: kernels and open notebooks. Who runs jobs as root, or in
a container, means it; Jupyter asks."""
_ADDRESS = re.compile(r"https?://(?:127\.0\.0\.1|localhost):(?P<port>\d+)(?P<rest>/\S*token=\S+)")


def run_session(request: RunRequest, session: SessionOptions, more: FieldOptions) -> int:
    """Submit the session, wait for it and attach; return the exit code."""
    idle = seconds_of("--idle", session.idle)
    try:
        record = _record(request, session, more, idle)
    except InputError as error:
        for line in error.lines if isinstance(error, FaultsError) else (str(error),):
            complain(line)
        return BAD_INPUT
    with daemon() as client:
        if request.names_itself:
            live = {job.name for job in client.jobs(statuses=LIVE, page=PAGE)}
            record["name"] = free_name(record["name"], live)
        handle = client.submit(record)
        typer.echo(f"job {handle.number} ({handle.name}) submitted", err=True)
        if not _begun(handle):
            return OTHER_FAILURE
        if session.jupyter:
            return _serve_notebooks(client, handle, record["env"][TOKEN])
        typer.echo(f"attached; {KEYS} detaches, exit ends it", err=True)
        return attach_to(client, str(handle.number), None, None, KEYS)


def _record(
    request: RunRequest, session: SessionOptions, more: FieldOptions, idle: float
) -> dict[str, Any]:
    """Return the job: a shell where nothing else is named."""
    if session.jupyter:
        rest = [request.target, *(request.arguments or [])] if request.target else []
        line = JUPYTER.replace("IDLE", f"{idle:.0f}")
        named = replace(request, target="/bin/sh", arguments=["-c", line, "jupyter", *rest])
        record = job_record(replace(named, name=request.name or "jupyter"), os.environ, more)
        record["env"] = {**record.get("env", {}), TOKEN: secrets.token_hex(24)}
        return {**record, "interactive": "0s"}
    if not request.target and request.template is None:
        shell = os.environ.get("SHELL") or "bash"
        inside = more.container is not None or shutil.which(shell) is None
        request = replace(request, target="sh" if inside else shell, name=request.name or "shell")
    return {**job_record(request, os.environ, more), "interactive": f"{idle:.3f}s"}


def _begun(handle: "Handle") -> bool:
    """Wait until the job runs, and say why it waits; Ctrl-C withdraws it."""
    told = ""
    try:
        while (record := handle.record()).status not in ("running", *OVER):
            if record.reason and record.reason != told and record.status == "waiting":
                told = record.reason
                typer.echo(f"waiting: {told}", err=True)
            time.sleep(LOOK)
    except KeyboardInterrupt:
        handle.stop()
        complain(f"job {handle.number} withdrawn")
        return False
    if record.status in OVER:
        print_end(record)
        return False
    return True


def _serve_notebooks(client: "Client", handle: "Handle", token: str) -> int:
    """Forward the server's port to this machine once it has told it; return the exit code."""
    for line in handle.logs():
        found = _ADDRESS.search(line)
        if found is not None:
            break
        typer.echo(line, err=True)
    else:
        print_end(handle.wait(), logged=True)
        return OTHER_FAILURE
    port = int(found["port"])
    forward = client.forward(handle.number, port, tell=complain)
    rest = found["rest"].replace("token=...", f"token={token}")  # it does not log what it was given
    typer.echo(f"http://127.0.0.1:{forward.local}{rest}")
    typer.echo(f"Ctrl-C leaves it running: muster forward {handle.number} {port}", err=True)
    try:
        complain(forward.serve())
    except KeyboardInterrupt:
        return 0
    return 0
