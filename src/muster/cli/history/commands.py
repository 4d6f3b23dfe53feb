"""`muster history`. Imports stay inside the commands so that help is quick."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import noun, option

history_files = noun("history", "The past as files, for other tools and for simulations.")


@history_files.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV to write; - for standard output.")],
    since: Annotated[
        str, option(None, "Jobs submitted since so long ago, or since a date.", metavar="TIME|DATE")
    ] = "30d",
    until: Annotated[
        str | None, option(None, "Submitted until so long ago, or a date.", metavar="TIME|DATE")
    ] = None,
    anonymous: Annotated[
        bool,
        option(None, "Numbers in place of users, jobs and applications; pools stay.", "--anonymous"),
    ] = False,
) -> None:
    """Write the jobs of the past as a trace that muster sim takes (docs/reference/traces.md).

    A job's duration is the time it would have taken on its fewest devices, if its speed grew with
    them. Jobs that have not ended, or never held a device, are left out.

    Example: last month under another policy
      muster history export month.csv --since 30d
      muster snapshot now.json
      muster sim compare --cluster now.json --trace month.csv --policies muster,tiresias
    """
    import time

    from muster.cli.history.export import trace_of
    from muster.cli.parse import moment_of, writing
    from muster.cli.render.terminal import complain
    from muster.cli.render.words import counted

    now = time.time()
    begin = max(0.0, moment_of("--since", since, now))
    end = now if until is None else max(0.0, moment_of("--until", until, now))
    with daemon() as client:
        jobs = list(client.jobs(since=begin, before=end, page=1000))
        found = trace_of(jobs, client.timeline(since=begin, until=now), anonymous=anonymous)
    if str(file) == "-":
        typer.echo(found.text, nl=False)
    else:
        with writing(file):
            file.write_text(found.text, encoding="utf-8")
    left = f", {counted(found.left_out, 'job')} left out" if found.left_out else ""
    complain(f"{counted(found.jobs, 'job')} exported{left}")
