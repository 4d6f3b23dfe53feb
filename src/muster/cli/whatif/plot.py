"""The answer as a picture: when each job runs, as everything is and with the change."""

from pathlib import Path

from muster.cli.parse import writing
from muster.cli.sim.figures import HOW_TO, can_draw
from muster.files.errors import InputError
from muster.wire.whatif_records import IntervalRecord, WhatIfJob, WhatIfReport

MOST = 40
"""Jobs of a picture: those whose end changes most."""
_HOUR = 3600.0


def write_picture(path: Path, report: WhatIfReport, said: str) -> None:
    """Write the picture, by the name's ending: .png, .svg or .pdf."""
    if not can_draw():
        raise InputError.at("--plot", f"a picture needs matplotlib: {HOW_TO}")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from muster.sim.report.style import MUTED, PALETTE

    jobs = sorted(report.jobs, key=_moved, reverse=True)[:MOST]
    jobs.sort(key=lambda each: -each.number)
    figure, axis = plt.subplots(figsize=(8, 1.6 + 0.34 * max(1, len(jobs))))
    sides = ((0.18, "before", MUTED), (-0.18, "after", PALETTE[0]))
    for shift, side, colour in sides:
        label: str | None = {"before": "now", "after": "then"}[side]
        for place, job in enumerate(jobs):
            finish: IntervalRecord | None = getattr(job, f"{side}_finish")
            if finish is None:
                continue
            start: IntervalRecord | None = getattr(job, f"{side}_start")
            begin = 0.0 if start is None else _hours(start.middle, report)
            end = _hours(finish.middle, report)
            axis.barh(place + shift, end - begin, 0.3, left=begin, color=colour, label=label)
            ends = [[end - _hours(finish.low, report)], [_hours(finish.high, report) - end]]
            axis.errorbar([end], [place + shift], xerr=ends, color="black", lw=0.8, capsize=2)
            label = None
    axis.set_yticks(range(len(jobs)), [f"{each.name} ({each.number})" for each in jobs])
    axis.set_xlabel("hours from now; thin lines: 80 % interval of the end")
    axis.set_title(f"What if: {said}", fontsize=10)
    if jobs:
        axis.legend(frameon=False)
    figure.tight_layout()
    with writing(path):
        figure.savefig(path)
    plt.close(figure)


def _moved(job: WhatIfJob) -> float:
    return float("inf") if job.finish_change is None else abs(job.finish_change.middle)


def _hours(at: float, report: WhatIfReport) -> float:
    return (at - report.now) / _HOUR
