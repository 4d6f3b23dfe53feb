"""A story by what a job held when: for one so old that the journal no longer has its facts."""

from collections.abc import Iterator, Sequence

from muster.store.batch import Span
from muster.wire.api.records import OVER, JobRecord
from muster.wire.api.story_records import StoryLine

_VERBS = {"started": "started", "resized": "changed", "migrated": "moved", "preempted": "preempted"}


def lines_of(job: JobRecord, spans: Sequence[Span]) -> Iterator[StoryLine]:
    """Yield the lines of a job from its list entry and its spans."""
    yield StoryLine(
        job.submitted, "submitted", f"submitted by {job.user} to pool {job.pool}, asks for {job.asked}"
    )
    if spans and spans[0].began > job.submitted:
        yield StoryLine(job.submitted, "waited", "", spans[0].began - job.submitted)
    told, ran = "", 0.0
    for before, span in zip((None, *spans), spans, strict=False):
        if before is not None and before.ended is not None and span.began > before.ended:
            yield StoryLine(before.ended, "waited", "", span.began - before.ended)
        ran += (span.ended or span.began) - span.began
        if span.reason and span.reason != told:
            what = _VERBS.get(span.code.partition(".")[0], "lost")
            text = f"{span.workers} workers: {span.reason}"
            yield StoryLine(span.began, what, text, code=span.code, workers=span.workers)
        told = span.reason
    if job.status in OVER and job.ended is not None:
        error = (job.error or "").partition("\n")[0]
        text = f"{job.status}: {error}" if error else job.status
        yield StoryLine(job.ended, "ended", text, ran or None)
