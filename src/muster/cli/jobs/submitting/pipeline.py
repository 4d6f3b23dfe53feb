"""`muster run` with several jobs in one file."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from muster.cli.connect import daemon
from muster.cli.exits import NO_FORECAST, OTHER_FAILURE, WOULD_START, WOULD_WAIT
from muster.cli.jobs.reading.follow import wait_for
from muster.cli.jobs.select import logs_of
from muster.cli.jobs.submitting.field_options import FieldOptions
from muster.cli.jobs.submitting.file_lines import faults_by_line
from muster.cli.jobs.submitting.options import RunRequest, Submission
from muster.cli.jobs.submitting.request import completed
from muster.cli.render.answers import as_json
from muster.cli.render.table import table
from muster.cli.render.terminal import agreed, complain, hint
from muster.cli.render.words import counted
from muster.wire.api.records import Forecast

if TYPE_CHECKING:
    from muster.client import Client, Handle
    from muster.files.job.pipeline import PipelineFile


def is_pipeline(path: Path) -> bool:
    """Whether a file has several jobs."""
    from muster.files.job import pipeline  # slow to import: only for a file

    return pipeline.is_pipeline(path)


def run_pipeline(path: Path, request: RunRequest, how: Submission, more: FieldOptions | None) -> int:
    """Print the forecasts of a file's jobs, ask, submit them together; return the exit code."""
    from muster.files.job.pipeline import read_pipeline

    file = read_pipeline(path)
    prefix = request.name or file.prefix
    record = _request(file, request, more)
    record |= {"name": prefix} if prefix else {}
    talk = partial(typer.echo, err=how.follow or how.as_json)
    with (
        daemon(about=str(path), failure=NO_FORECAST if how.dry_run else None) as client,
        faults_by_line(path, how.failure, prefix=prefix),
    ):
        forecasts = {}
        for name, body in record["jobs"].items():
            with faults_by_line(path, how.failure, job=name):
                forecasts[name] = _forecast(client, file, name, body)
        wrong = {name: each.problem for name, each in forecasts.items() if each.problem}
        for name, problem in wrong.items():
            complain(f"{path}:{file.lines.get(f'jobs.{name}', 1)}: {name}: {problem}")
        if wrong:
            return how.failure
        talk(_plan(file, forecasts))
        if how.dry_run:
            return WOULD_START if any(each.starts_now for each in forecasts.values()) else WOULD_WAIT
        if not agreed(f"Submit {counted(len(file.jobs), 'job')}?", yes=how.yes):
            complain("nothing was submitted")
            return OTHER_FAILURE
        handles = client.submit_all(record)
        for handle in handles:
            talk(f"job {handle.number} ({handle.name}) submitted")
        return _stay(client, handles, how)


def _request(file: "PipelineFile", request: RunRequest, more: FieldOptions | None) -> dict[str, Any]:
    """Return the request that submits the jobs, each with what options override."""
    options = more or FieldOptions()
    plain = replace(options, after=None)
    found = {}
    for name, each in file.jobs.items():
        record = {field: value for field, value in each.record.items() if field != "name"}
        record = completed(record, replace(request, name=None), os.environ, plain)
        own = [f"{one.job}:{one.when}" for one in each.job.after]
        after = [*own, *(options.after or ())]
        found[name] = record | ({"after": after} if after else {})
    return {"jobs": found}


def _forecast(client: "Client", file: "PipelineFile", name: str, body: Mapping[str, Any]) -> Forecast:
    """Return what would happen to a job now, if those before it in the file had ended."""
    within = [each.job for each in file.jobs[name].job.after if each.job in file.jobs]
    after = [each for each in body.get("after", ()) if each.partition(":")[0] not in within]
    found = client.forecast({**body, "name": name, "after": after})
    if not within or found.problem:
        return found
    text = f"once {' and '.join(within)} {'has' if len(within) == 1 else 'have'} ended"
    return replace(found, starts_now=False, reason=text)


def _plan(file: "PipelineFile", forecasts: Mapping[str, Forecast]) -> str:
    rows = []
    for name, each in forecasts.items():
        after = ",".join(one.job + _how(one.when) for one in file.jobs[name].job.after) or "-"
        rows.append((name, after, each.plan, "now" if each.starts_now else each.reason))
    return table(("NAME", "AFTER", "PLAN", "START"), rows, left=range(4))


def _how(when: str) -> str:
    return "" if when == "ok" else f":{when}"


def _stay(client: "Client", handles: "list[Handle]", how: Submission) -> int:
    """Follow the jobs or wait for them, if asked to."""
    numbers = [str(handle.number) for handle in handles]
    if how.follow:
        logs_of(client, [handle.record() for handle in handles], follow=True, lines=None)
    if how.follow or how.wait:
        return wait_for(client, numbers, None, as_json=how.as_json)
    if how.as_json:
        typer.echo(as_json([handle.record() for handle in handles]))
    else:
        hint(f"all of them: muster ps --tree · until they end: muster wait {' '.join(numbers)}")
    return 0
