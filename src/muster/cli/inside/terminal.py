"""`muster exec` and `muster attach`: this terminal becomes one of a job's."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.cli.jobs.reading.follow import show_logs
from muster.cli.parse import parsed
from muster.cli.render.terminal import complain
from muster.client.inside.command import StandardStreams, keys_of, run_visit
from muster.client.inside.visit import NoTerminalError

if TYPE_CHECKING:
    from muster.client import Client


def execute(
    client: "Client",
    which: str,
    command: Sequence[str],
    rank: int | None,
    task: str | None,
    *,
    terminal: bool,
) -> int:
    """Run a command beside a task; return its exit code."""
    with client.visit(which, "exec", rank=rank, task=task, command=list(command)) as visit:
        end = run_visit(visit, StandardStreams(), terminal=terminal and on_terminal())
    return end.code or 0


def attach_to(client: "Client", which: str, rank: int | None, task: str | None, keys: str) -> int:
    """Attach to a job's terminal, or follow its output; return the exit code."""
    detach = parsed("--detach-keys", keys, keys_of)
    try:
        with client.visit(which, "attach", rank=rank, task=task) as visit:
            end = run_visit(visit, StandardStreams(), terminal=on_terminal(), detach=detach)
    except NoTerminalError:
        return show_logs(client, which, task, follow=True, lines=None)
    if end.detached:
        sys.stdout.write("\r\n")
        complain(f"{end.detached}; the job keeps running: `muster attach {which}`")
    return end.code or 0


def on_terminal() -> bool:
    """Whether this command is used by a person."""
    return os.isatty(0) and os.isatty(1)
