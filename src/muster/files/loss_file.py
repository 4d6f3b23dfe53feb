"""Loss files: CSV with the columns `epoch` and `loss`, one line per epoch."""

import csv
from pathlib import Path

from muster.files.errors import InputError
from muster.perf.epochs.loss_curve import LossPoint
from muster.perf.estimate import BadMeasurementError

MOST_BYTES = 10_000_000
"""A million epochs; more is not a loss file."""


def load_losses(path: Path) -> list[LossPoint]:
    """Load the losses of a file, NaN among them; InputError is one line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError.at(str(path), f"is larger than {MOST_BYTES // 10**6} MB")
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.at(str(path), f"cannot be read: {error}") from None
    if not rows or [cell.strip().lower() for cell in rows[0]] != ["epoch", "loss"]:
        raise InputError.at(str(path), "the first line must be: epoch,loss")
    return [_point(path, number, row) for number, row in enumerate(rows[1:], start=2) if row]


def _point(path: Path, line: int, row: list[str]) -> LossPoint:
    try:
        epoch, loss = (float(cell) for cell in row)
        return LossPoint(epoch, loss)
    except (ValueError, BadMeasurementError):
        shown = ",".join(row)[:60]
        raise InputError.at(f"{path}:{line}", f"'{shown}' is not an epoch and a loss") from None
