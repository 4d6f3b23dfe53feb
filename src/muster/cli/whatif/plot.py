"""The answer as a picture: when each job runs, as everything is and with the change."""

from collections.abc import Callable
from pathlib import Path

from muster.cli.parse import writing
from muster.cli.sim.figures import HOW_TO, can_draw
from muster.cli.whatif.show import NEVER
from muster.files.errors import InputError
from muster.wire.api.whatif_records import IntervalRecord, WhatIfJob, WhatIfReport

MOST = 40
"""Jobs of a picture: those whose end changes most."""
ENDINGS = (".png", ".svg", ".pdf")
_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written, before anything is played for it."""
    if path.suffix not in ENDINGS:
        raise InputError.at("--plot", f"{path.name} does not end in {', '.join(ENDINGS)}")
    if not path.absolute().parent.is_dir():
        raise InputError.at("--plot", f"no folder {path.parent}")
    if not can_draw():
        raise InputError.at("--plot", f"a picture needs matplotlib: {HOW_TO}")


def write_picture(path: Path, report: WhatIfReport, said: str) -> None:
    """Write the picture, by the name's ending."""
    check_picture(path)
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from muster.sim.report.style import MUTED, PALETTE

    jobs = sorted(report.jobs, key=_moved, reverse=True)[:MOST]
    jobs.sort(key=lambda each: -each.number)
    figure, axis = plt.subplots(figsize=(8, 1.6 + 0.34 * max(1, len(jobs))))
    sides = ((0.18, "before", MUTED), (-0.18, "after", PALETTE[0]))
    scale, unit = _scale(report)
    for shift, side, colour in sides:
        label: str | None = {"before": "now", "after": "then"}[side]
        for place, job in enumerate(jobs):
            finish: IntervalRecord | None = getattr(job, f"{side}_finish")
            if finish is None:
                continue
            if finish.middle - report.now >= NEVER:
                axis.text(0.0, place + shift, " never", color=colour, va="center", fontsize=8)
                continue
            start: IntervalRecord | None = getattr(job, f"{side}_start")
            begin = 0.0 if start is None else scale(start.middle)
            end = scale(finish.middle)
            axis.barh(place + shift, end - begin, 0.3, left=begin, color=colour, label=label)
            far = finish.high if finish.high - report.now < NEVER else finish.middle
            ends = [[end - scale(finish.low)], [scale(far) - end]]
            axis.errorbar([end], [place + shift], xerr=ends, color="black", lw=0.8, capsize=2)
            label = None
    axis.set_yticks(range(len(jobs)), [_label(each) for each in jobs])
    axis.set_ylim(-0.6, max(1, len(jobs)) - 0.4)  # text does not widen it
    axis.set_xlabel(f"{unit} from now; thin lines: 80 % interval of the end")
    axis.set_title(f"What if: {said}", fontsize=10)
    if jobs:
        axis.legend(frameon=False)
    figure.tight_layout()
    with writing(path):
        figure.savefig(path)
    plt.close(figure)


def _label(job: WhatIfJob) -> str:
    return f"{job.name} ({'new' if job.verdict == 'new' else job.number})"


def _moved(job: WhatIfJob) -> float:
    return float("inf") if job.finish_change is None else abs(job.finish_change.middle)


def _scale(report: WhatIfReport) -> tuple[Callable[[float], float], str]:
    """Return moments as times from now, in the largest unit of which the last end is a few."""
    ends = (end for job in report.jobs for end in (job.before_finish, job.after_finish) if end)
    times = [time for end in ends if (time := end.high - report.now) < NEVER]
    longest = max(times, default=0.0)
    size, unit = next((each for each in _UNITS if longest >= 2 * each[0]), _UNITS[-1])
    return lambda at: (at - report.now) / size, unit
