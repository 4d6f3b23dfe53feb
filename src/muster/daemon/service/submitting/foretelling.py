"""The future with a job that is not submitted yet, as an answer to its user."""

from dataclasses import replace

import structlog

from muster.daemon.foresight.foresight import LiveForesight
from muster.daemon.foresight.messages import ForesightError
from muster.daemon.loop.foretold import foretold
from muster.daemon.service.submitting.forecast import BY_LIMIT
from muster.foresight.play import JobForecast
from muster.foresight.submitting import Submitting
from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.wire.api.records import Forecast

log = structlog.get_logger()

PATIENCE = 2.0
"""s that a submission waits for its forecast."""


async def played(
    foresight: LiveForesight, found: Forecast, job: Job, outlook: Outlook | None
) -> Forecast:
    """Return the forecast with start and finish as played, if the process can tell now."""
    if not foresight.is_warm:
        return found
    question = Submitting(job, outlook, foresight.worlds)
    try:
        said: JobForecast = await foresight.ask(question, within=PATIENCE)
    except ForesightError as error:
        log.info("no forecast of a submission", problem=str(error))
        return replace(found, late=True)
    told = dict(foretold(said))
    start, finish = told.pop("predicted_start"), told.pop("predicted_finish")
    if found.starts_now:
        start, told["start_low"], told["start_high"] = found.start, None, None
    basis = found.basis
    if said.limited:
        basis = BY_LIMIT
    elif said.jobs:
        basis = "1 similar job" if said.jobs == 1 else f"{said.jobs} similar jobs"
    return replace(found, start=start, finish=finish, basis=basis if finish else "", **told)
