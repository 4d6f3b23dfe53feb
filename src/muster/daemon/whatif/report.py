"""Answers as the API gives them."""

from collections import Counter
from collections.abc import Callable

from muster.foresight.quantiles import TimeInterval
from muster.foresight.whatif.answer import Compared, JobDifference, WhatIfAnswer
from muster.model.job import Job
from muster.wire.api.whatif_records import FigureRecord, IntervalRecord, WhatIfJob, WhatIfReport


def report_of(answer: WhatIfAnswer, may_see: Callable[[Job], bool] = lambda job: True) -> WhatIfReport:
    """Return the answer with the jobs that its reader may see."""
    return WhatIfReport(
        answer.now,
        answer.worlds,
        tuple(_job(each) for each in answer.jobs if may_see(each.job)),
        dict(Counter(str(each.verdict) for each in answer.jobs)),
        _figure(answer.completion),
        _figure(answer.makespan),
        _figure(answer.used),
        _figure(answer.fragmentation),
        {name: _figure(each) for name, each in answer.pools.items()},
    )


def _job(each: JobDifference) -> WhatIfJob:
    before, after = each.before, each.after
    return WhatIfJob(
        each.number,
        each.job.name,
        each.job.user,
        each.job.pool,
        str(each.verdict),
        after.jobs,
        _interval(after.finish),
        None if after.start is None else _interval(after.start),
        None if before is None or before.start is None else _interval(before.start),
        None if before is None else _interval(before.finish),
        None if each.start is None else _interval(each.start),
        None if each.finish is None else _interval(each.finish),
    )


def _figure(compared: Compared) -> FigureRecord:
    return FigureRecord(
        *(_interval(each) for each in (compared.before, compared.after, compared.change))
    )


def _interval(found: TimeInterval) -> IntervalRecord:
    return IntervalRecord(found.middle, found.low, found.high)
