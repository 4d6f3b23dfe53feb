"""Jobs of the past as rows of a trace.

What a job needed is what it held: the sum over its spans of devices times seconds, divided by the
devices of its gang. So the device-seconds of the trace are those of the journal, as for a trace without
exponents (docs/reference/traces.md).
"""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from muster.wire.api.history_records import SpanRecord
from muster.wire.api.records import OVER, JobRecord

COLUMNS = (
    "submitted",
    "devices",
    "duration",
    "name",
    "user",
    "pool",
    "application",
    "priority",
    "after",
    "pause",
)
WORKING = ("running", "resizing", "migrating")
"""Statuses in which a job makes progress."""
SHORTEST = 1.0
"""s of a job, at least."""


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """The file, and what it has of the jobs asked for."""

    text: str
    jobs: int
    left_out: int


def trace_of(
    jobs: Sequence[JobRecord], spans: Iterable[SpanRecord], *, anonymous: bool = False
) -> ExportedTrace:
    """Return the jobs that have ended and held devices, in the order of their submission."""
    held: defaultdict[int, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        if span.number is not None and span.ended is not None:
            held[span.number].append(span)
    ended = [each for each in jobs if each.status in OVER and _seconds(_working(held[each.number])) > 0]
    ended.sort(key=lambda each: (each.submitted, each.number))
    rows = _rows(ended, held, _Numbered() if anonymous else None)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return ExportedTrace(text.getvalue(), len(ended), len(jobs) - len(ended))


class _Numbered:
    """Numbers in place of names: the first user is u1, the first application a1."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, kind: str, name: str) -> str:
        count = sum(each == kind for each, _ in self._known) + 1
        return self._known.setdefault((kind, name), f"{kind}{count}")


def _rows(
    jobs: Sequence[JobRecord],
    held: dict[int, list[SpanRecord]],
    numbered: Callable[[str, str], str] | None,
) -> list[tuple[str, ...]]:
    names = {each.number: f"{each.name}-{each.number}" for each in jobs}
    told = numbered or (lambda kind, name: name)
    return [
        (
            f"{each.submitted:.3f}",
            devices,
            f"{max(duration, SHORTEST):.3f}",
            told("j", names[each.number]),
            told("u", each.user),
            each.pool,
            told("a", _application(each)),
            str(each.priority),
            "|".join(told("j", names[p.number]) for p in each.after if p.number in names),
            _pause(each, held[each.number]),
        )
        for each in jobs
        for devices, duration in (_request(each, _working(held[each.number])),)
    ]


def _working(spans: Iterable[SpanRecord]) -> list[SpanRecord]:
    return [span for span in spans if span.status in WORKING]


def _pause(job: JobRecord, spans: Iterable[SpanRecord]) -> str:
    """Return the mean s from a start until all tasks can train; empty: none was seen.

    Of a program that Muster does not train it is known only when its processes were there, not when
    they had loaded what they need: a trace's default is the better guess.
    """
    if not job.live:
        return ""
    starts = [(span.ended or span.began) - span.began for span in spans if span.status == "starting"]
    return f"{sum(starts) / len(starts):.3f}" if starts else ""


def _request(job: JobRecord, spans: Sequence[SpanRecord]) -> tuple[str, float]:
    """Return the devices asked for, as a trace has them, and the s on the fewest."""
    # While a job is resized, it holds devices of workers that are still to join.
    settled = [span for span in spans if span.status == "running"] or spans
    per_worker = max(max(1, _devices(span) // max(1, span.workers)) for span in settled)
    least, _, most = job.asked.partition("+")[0].partition("..")
    fewest = max(1, int(least or 1)) * per_worker
    largest = max(fewest, int(most or least or 1) * per_worker)
    devices = str(fewest) if fewest == largest else f"{fewest}..{largest}"
    return devices, _seconds(spans) / fewest


def _seconds(spans: Iterable[SpanRecord]) -> float:
    """Return the device-seconds held."""
    return sum(_devices(span) * ((span.ended or span.began) - span.began) for span in spans)


def _devices(span: SpanRecord) -> int:
    return sum(len(each) for each in span.devices.values())


def _application(job: JobRecord) -> str:
    """Return what it runs: its script, else its program."""
    script = next((word for word in job.command if word.endswith(".py")), "")
    return (script or (job.command[0] if job.command else job.name)).rpartition("/")[2] or job.name
