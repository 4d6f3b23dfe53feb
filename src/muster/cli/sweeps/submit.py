"""`muster run --sweep`: what it would be, confirmation, submission, and what follows."""

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from muster.cli.exits import OTHER_FAILURE, SUCCEEDED, WOULD_START, WOULD_WAIT, code_of
from muster.cli.jobs.submitting.options import Submission
from muster.cli.jobs.submitting.request import free_name
from muster.cli.jobs.submitting.submit import plan_text
from muster.cli.render.answers import as_json
from muster.cli.render.terminal import agreed, complain, hint
from muster.cli.render.words import counted
from muster.cli.sweeps.show import sweep_page
from muster.cli.watch import INTERVAL
from muster.files.job.sweep_file import sweep_in, unused_names
from muster.files.source.faults import FaultsError
from muster.wire.api.sweep_records import SWEEP_OVER

if TYPE_CHECKING:
    from muster.client import Client
    from muster.client.handles.sweep_handle import SweepHandle

_OF_THIS_MACHINE = ("ship", "folder", "resume_from")
"""Fields that the client completes."""


def run_sweep(client: "Client", record: Mapping[str, Any], how: Submission, *, own_name: bool) -> int:
    """Print what the sweep would be, ask, submit; return the exit code."""
    record = dict(record)
    if own_name:
        live = (each.name for each in client.sweeps() if each.status not in SWEEP_OVER)
        record["name"] = free_name(record["name"], set(live))
    try:
        sweep = sweep_in(
            {name: value for name, value in record.items() if name not in _OF_THIS_MACHINE}
        )
    except FaultsError as error:
        for fault in error.faults:
            complain(f"{fault.field}: {fault.text}")
        return how.failure
    size = sweep.size
    for name in unused_names(sweep):
        variable = f"MUSTER_SWEEP_{name.upper()}"
        complain(f"note: {{{name}}} is not in the command; members have it as {variable} only")
    talk = partial(typer.echo, err=how.follow or how.as_json)
    forecast = client.forecast(record)
    if forecast.problem:
        complain(f"{record['name']}: {forecast.problem}")
        return how.failure
    talk(f"{plan_text(record, forecast, time.time())}\n  sweep    {_words(record['sweep'], size)}")
    if how.dry_run:
        return WOULD_START if forecast.starts_now else WOULD_WAIT
    if not agreed(f"Submit {counted(size, 'member')}?", yes=how.yes):
        complain("nothing was submitted")
        return OTHER_FAILURE
    handle = client.sweep(record)
    talk(f"sweep {handle.number} ({handle.name}) of {counted(size, 'member')} submitted")
    return _stay(handle, how)


def _words(sweep: Mapping[str, Any], size: int) -> str:
    over = [f"{name}={_values(values)}" for name, values in (sweep.get("over") or {}).items()]
    over += [f"index={sweep['array']}"] if "array" in sweep else []
    most = f", at most {sweep['at_most']} at once" if sweep.get("at_most") else ""
    return f"{counted(size, 'member')}: {' '.join(over)}{most}"


def _values(values: Any) -> str:
    return ",".join(map(str, values)) if isinstance(values, list) else str(values)


def _stay(handle: "SweepHandle", how: Submission) -> int:
    """Follow the sweep or wait for it, if asked to."""
    if how.follow or how.wait:
        before = ""
        while handle.record().status not in SWEEP_OVER:
            text = sweep_page(handle.detail(), limit=20) if how.follow else ""
            if text != before:
                typer.echo(text)
            before = text
            time.sleep(INTERVAL)
        if not how.as_json:
            typer.echo(sweep_page(handle.detail()))
    if how.as_json:
        typer.echo(as_json(handle.record()))
    elif not how.follow and not how.wait:
        number = handle.number
        hint(f"members: muster sweep show {number} · watch: muster sweep show -w {number}")
    return code_of(handle.record().outcome) if how.follow or how.wait else SUCCEEDED
