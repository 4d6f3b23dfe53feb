"""`muster show`: a job or a sweep in full."""

import time

from muster.cli.connect import daemon
from muster.cli.jobs.named import sweep_named
from muster.cli.render.answers import as_json as json_text
from muster.cli.render.job_page import job_page
from muster.cli.render.terminal import hint
from muster.cli.sweeps.show import sweep_page
from muster.cli.watch import shown
from muster.client.errors import ClientError
from muster.wire.api.records import JobDetail
from muster.wire.api.sweep_records import SweepDetail


def show_named(which: str, *, every: bool, as_json: bool, watch: bool) -> None:
    """Print a job, or the sweep of this name."""

    def detail() -> JobDetail | SweepDetail:
        try:
            return client.job(which)
        except ClientError as error:
            sweep = sweep_named(client, which) if error.status == 404 else None
            if sweep is None:
                raise
            return sweep.detail()

    def answer() -> str:
        found = detail()
        if as_json:
            return json_text(found)
        if isinstance(found, SweepDetail):
            return sweep_page(found)
        return job_page(found, time.time(), every=every)

    with daemon() as client:
        shown(answer, watch=watch)
        if not as_json:
            hint(f"\nlogs: muster logs -f {which}")
