"""`muster forecast`: how many epochs a training has left, from its losses."""

import json
from pathlib import Path
from typing import Any

from muster.cli.render.words import when
from muster.files.errors import InputError
from muster.files.loss_file import load_losses
from muster.perf.epochs.convergence import FixedEpochs, Remaining, Target, remaining
from muster.perf.epochs.loss_curve import LossCurve, LossPoint
from muster.perf.estimate import BadMeasurementError, Unknown
from muster.wire.api.records import OVER, JobRecord


def run_forecast(path: Path, *, decrease: float, epochs: int, total: int | None, as_json: bool) -> str:
    """Return the epochs left until the target, as text or JSON."""
    points = load_losses(path)
    try:
        target = Target(decrease, epochs) if total is None else FixedEpochs(total)
        found = remaining(points, target)
    except BadMeasurementError as error:
        raise InputError.at(str(path), str(error)) from None
    except ValueError:
        problem = f"a decrease of {decrease:.2%} over {epochs} epochs is not a target; try 1% over 3"
        raise InputError.at("--decrease", problem) from None
    if as_json:
        return json.dumps(_as_data(found), indent=2)
    return _text(path, points, found)


def job_forecast(job: JobRecord, now: float, *, as_json: bool) -> str:
    """Return when a live job's losses end it, as text or JSON."""
    if as_json:
        names = ("until", "epoch", "loss", "epochs", "noticed", "converged")
        return json.dumps({name: getattr(job, name) for name in (*names, *_TIMES)}, indent=2)
    loss = "no losses" if job.loss is None else f"loss {job.loss:.4g} in epoch {job.epoch}"
    lines = [f"{job.name} ({job.number}): {job.status}, {loss}", ""]
    lines.append(f"  ends by    {job.until or 'its own epochs or steps, not its loss'}")
    if job.epochs is not None:
        mean, low, high = (max(each - (job.epoch or 0), 0.0) for each in job.epochs)
        lines.append(f"  left       {mean:.0f} epochs ({low:.0f} to {high:.0f}, 80% interval)")
    elif job.until and job.status not in OVER:
        lines.append(f"  left       unknown: {job.noticed or 'no whole epoch so far'}")
    if job.predicted_finish is not None:
        lines.append(f"  finish     {_finish(job, now)}")
    if job.epochs is not None and job.noticed:
        lines.append(f"  noticed    {job.noticed}")
    if job.converged:
        lines.append(f"  converged  {job.converged}")
    return "\n".join(lines)


_TIMES = ("predicted_finish", "finish_low", "finish_high")


def _finish(job: JobRecord, now: float) -> str:
    times = (getattr(job, name) for name in _TIMES)
    mean, low, high = (when(max(at or now, now), now) for at in times)
    return f"{mean} ({low} to {high}, 80% interval)"


def _text(path: Path, points: list[LossPoint], found: Remaining | Unknown) -> str:
    last = f"loss {points[-1].loss:.4g} after epoch {points[-1].epoch:g}" if points else "no losses"
    lines = [f"{path}: {len(points)} points, {last}", ""]
    if isinstance(found, Unknown):
        return "\n".join([*lines, f"  left     unknown: {found.detail}"])
    left = found.epochs
    lines.append(f"  left     {left.mean:.0f} epochs ({left.low:.0f} to {left.high:.0f}, 80% interval)")
    if found.forecast is not None:
        lines.append(f"  curve    {_formula(found.forecast.curve)}")
    lines += [f"  noticed  {note.sentence}" for note in found.notes]
    return "\n".join(lines)


def _formula(curve: LossCurve) -> str:
    since = f" - {curve.since:g}" if curve.since else ""
    return (
        f"loss = {curve.scale:.3g} (1 / ({curve.b0:.3g} (epoch{since}) + {curve.b1:.3g}) "
        f"+ {curve.b2:.3g})"
    )


def _as_data(found: Remaining | Unknown) -> dict[str, Any]:
    if isinstance(found, Unknown):
        return {"unknown": found.why.value, "detail": found.detail}
    left = found.epochs
    return {
        "epochs_left": {"mean": left.mean, "low": left.low, "high": left.high},
        "notes": [{"code": note.code.value, "sentence": note.sentence} for note in found.notes],
    }
