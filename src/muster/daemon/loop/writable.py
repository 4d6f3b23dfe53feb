"""Batches whose list entries or predictions cannot be written: facts never depend on them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import structlog

from muster.store.batch import Batch
from muster.store.codec import encode_record
from muster.store.errors import UnwritableError
from muster.wire.api.records import JobRecord

log = structlog.get_logger()


def without_unwritable(batch: Batch) -> Batch:
    """Return the batch with all its facts; list entries that cannot be written lose their progress."""
    made = tuple((number, each) for number, each in batch.predictions if _can_write(each))
    spans = tuple(replace(span, reason="") for span in batch.spans)
    records = tuple(_writable(batch.records))
    return replace(batch, records=records, predictions=made, points=(), spans=spans)


def _writable(records: Sequence[JobRecord]) -> Iterator[JobRecord]:
    for record in records:
        plain = record if _can_write(record) else _plain(record)
        if plain is record or _can_write(plain):
            yield plain


def _plain(record: JobRecord) -> JobRecord:
    """Return the entry without what tasks report and beliefs derive from it."""
    return replace(
        record,
        step=None,
        steps=None,
        epoch=None,
        loss=None,
        rate=None,
        pause=0.0,
        predicted_start=None,
        predicted_finish=None,
        finish_low=None,
        finish_high=None,
        start_low=None,
        start_high=None,
        epochs=None,
        first_predicted_finish=None,
    )


def _can_write(value: object) -> bool:
    try:
        encode_record(value)
    except UnwritableError as problem:
        log.error("a record cannot be written", problem=str(problem))
        return False
    return True
