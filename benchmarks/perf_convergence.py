"""How well the epochs left are predicted, on recorded loss curves, beside Optimus' published code.

Each curve of examples/training/curves is cut at 20, 50 and 80 % of the way to its convergence, for
three thresholds; from the points up to there the total is predicted. Error: |predicted - true| / true.
Both predictors are judged on the cases that ours answers; those it calls unknown are counted.
The same curves then stand for live trainings that end by their loss: by the rule of `until`, judged by
each loss as it was recorded, noise included.
`--calibrate` prints the interval's constants from the tuning curves, which no figure here is made of.
Prints tables, then one line per target.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import fmean, median, stdev

import numpy as np

from muster.ending import Ending
from muster.perf.epochs.convergence import EpochForecast, Remaining, Target, TrainingStage, remaining
from muster.perf.epochs.loss_curve import Floats, LossPoint
from muster.perf.estimate import Unknown
from support.bars import bar, print_table
from support.curves import CURVES, Case, cases, judged_cases, load, published_total

SHARES = (0.2, 0.5, 0.8)
SHOWN = 0.002
"""The threshold of the table that names every curve."""
CALIBRATION_SHARES = tuple(share / 100 for share in range(15, 95, 5))
ONE_SIDED_90 = 1.28
"""Standard errors below a mean that hold nine times out of ten."""
REFIT_POINTS = 500
WITHIN = 0.25
"""Of a live training's total, at half-time."""
RULE_MILLISECONDS = 5.0
"""Of one core: a job asks some twenty times while its epochs double."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was predicted for one case at one share of the way."""

    case: Case
    share: float
    now: float
    answer: Remaining | Unknown
    published: float
    """Total epochs; NaN for an ending that the published code does not know."""

    @property
    def total(self) -> float | None:
        """Total epochs predicted, where there is an answer."""
        return None if isinstance(self.answer, Unknown) else self.now + self.answer.epochs.mean

    def error(self, total: float) -> float:
        """Relative error of a predicted total."""
        return abs(total - self.case.truth) / self.case.truth

    @property
    def covered(self) -> bool:
        """Whether the truth lies in the interval."""
        assert isinstance(self.answer, Remaining)
        return self.answer.epochs.low <= self.case.truth - self.now <= self.answer.epochs.high


def outcomes(found: Sequence[Case], shares: Sequence[float]) -> list[Outcome]:
    """Every case asked at every share of the way."""
    return [outcome(case, share) for case in found for share in shares]


def outcome(case: Case, share: float) -> Outcome:
    """One case asked once."""
    seen = case.seen(share)
    answer = remaining(seen, case.target)
    published = nan if case.target.ending else published_total(seen, case.target)
    return Outcome(case, share, seen[-1].epoch, answer, published)


def by_curve(made: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """A row per curve: the true total, then ours with its interval and the published total."""
    names = sorted({one.case.curve.name for one in made})
    for name in names:
        own = [one for one in made if one.case.curve.name == name and one.case.target.decrease == SHOWN]
        if own:
            cells = [cell for one in own for cell in (_ours(one), f"{one.published:.0f}")]
            yield f"{name:<24}", str(own[0].case.truth), *cells


def _ours(one: Outcome) -> str:
    if isinstance(one.answer, Unknown):
        return "unknown"
    low, high = one.now + one.answer.epochs.low, one.now + one.answer.epochs.high
    return f"{one.total:.0f}({low:.0f}-{high:.0f})"


def answered(made: Sequence[Outcome], share: float | None = None) -> list[tuple[Outcome, float]]:
    """The outcomes with a number, and that number, at one share of the way or at all."""
    return [(o, o.total) for o in made if o.total is not None and share in (None, o.share)]


def by_share(made: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """A row per share of the way, over all curves and thresholds."""
    for share in SHARES:
        known = answered(made, share)
        asked = sum(one.share == share for one in made)
        ours = [one.error(total) for one, total in known]
        published = [one.error(one.published) for one, _ in known]
        figures = (median(ours), fmean(ours), median(published), fmean(published))
        covered = fmean(one.covered for one, _ in known)
        width = median(_width(one) for one, _ in known)
        cells = (*(f"{figure:.3f}" for figure in figures), f"{covered:.2f}", f"{width:.2f}")
        yield f"{share:.0%}", str(asked), str(asked - len(known)), *cells


def _width(one: Outcome) -> float:
    """The interval's width as a share of the true total."""
    assert isinstance(one.answer, Remaining)
    return (one.answer.epochs.high - one.answer.epochs.low) / one.case.truth


def by_rule(made: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """A row per share of the way, over all curves and endings."""
    for share in SHARES:
        known = answered(made, share)
        asked = sum(one.share == share for one in made)
        errors = [one.error(total) for one, total in known]
        figures = (median(errors), fmean(errors), fmean(one.covered for one, _ in known))
        cells = (*(f"{figure:.3f}" for figure in figures), f"{median(_width(o) for o, _ in known):.2f}")
        yield f"{share:.0%}", str(asked), str(asked - len(known)), *cells


def print_rule_bars(judged: Sequence[Outcome], milliseconds: float) -> None:
    """One line per target of endings."""
    figure = median(one.error(total) for one, total in answered(judged, 0.5))
    bar("ending-median-error-at-50", figure, WITHIN)
    covered = fmean(one.covered for one, _ in answered(judged))
    bar("ending-interval-coverage", covered, 0.8, above=True)
    bar("ending-refit-500-points-ms", milliseconds, RULE_MILLISECONDS)


def print_bars(made: Sequence[Outcome], milliseconds: float) -> None:
    """One line per target."""
    for share in SHARES:
        known = answered(made, share)
        published = median(one.error(one.published) for one, _ in known)
        figure = median(one.error(total) for one, total in known)
        bar(f"convergence-median-error-at-{share * 100:.0f}", figure, published)
    known = answered(made)
    bar("convergence-interval-coverage", fmean(one.covered for one, _ in known), 0.8, above=True)
    bar("convergence-refit-500-points-ms", milliseconds, 1.0)


def refit_milliseconds(repeats: int, target: Target) -> float:
    """Median processor time of an answer from 500 points: the longest recorded curve, stretched."""
    longest = max(load(), key=lambda curve: len(curve.points)).points
    at = np.linspace(1, len(longest), REFIT_POINTS)
    losses = np.interp(at, [p.epoch for p in longest], [p.loss for p in longest])
    points = [LossPoint(float(epoch), float(loss)) for epoch, loss in zip(at, losses, strict=True)]
    times = []
    for _ in range(repeats):
        began = time.process_time()
        remaining(points, target)
        times.append(time.process_time() - began)
    return 1e3 * median(times)


def calibrate() -> None:
    """Print each stage's correction and ends, in units of the doubt, from the tuning curves.

    They are quantiles of (true - forecast) / doubt at many shares of the way. Predictions for one curve
    err alike, so quantiles of all of them promise too much for a new curve: the level is raised until
    the ends, taken without a curve, cover 80 % of it, with 90 % confidence of that mean over curves."""
    tuning = load(CURVES / "tuning")
    for found in (cases(tuning), judged_cases(tuning)):
        _print_calibrated(outcomes(list(found), CALIBRATION_SHARES))


def _print_calibrated(made: Sequence[Outcome]) -> None:
    forecasts = [(one, one.answer.forecast) for one in made if isinstance(one.answer, Remaining)]
    print_table(
        "stage asked curves level low median high left-out",
        (
            _calibrated(stage, [(one, f) for one, f in forecasts if f and f.stage is stage])
            for stage in TrainingStage
        ),
    )


def _calibrated(stage: TrainingStage, own: Sequence[tuple[Outcome, EpochForecast]]) -> tuple[str, ...]:
    """A stage's row."""
    names = np.array([one.case.curve.name for one, _ in own])
    scores = np.array([(one.case.truth - one.now - f.left) / f.doubt for one, f in own])
    for level in np.arange(0.8, 0.99, 0.01):
        covered = [_covered(scores[names != name], scores[names == name], level) for name in set(names)]
        if fmean(covered) - ONE_SIDED_90 * stdev(covered) / sqrt(len(covered)) >= 0.8:
            break
    low, high = _ends(scores, level)
    figures = (level, low, float(np.median(scores)), high, fmean(covered))
    return stage, str(len(own)), str(len(covered)), *(f"{figure:.2f}" for figure in figures)


def _ends(scores: Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _covered(others: Floats, own: Floats, level: float) -> float:
    low, high = _ends(others, level)
    return float(((own >= low) & (own <= high)).mean())


def main() -> None:
    """Print the tables and the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats of the timing")
    parser.add_argument("--calibrate", action="store_true", help="only print the interval's constants")
    chosen = parser.parse_args()
    if chosen.calibrate:
        calibrate()
        return
    made = outcomes(list(cases(load())), SHARES)
    print(
        f"total epochs at a threshold of {SHOWN:.1%} of the largest loss: true, then (80 % interval) at"
    )
    heading = "curve true at-20% published at-50% published at-80% published"
    print_table(f"{heading}", by_curve(made))
    print(f"relative error over {len({one.case.curve.name for one in made})} curves, all thresholds")
    print_table("way cases unknown median mean published its-mean coverage width", by_share(made))
    judged = outcomes(list(judged_cases(load())), SHARES)
    print("the same curves ended by `until`, each loss judged as it was recorded")
    print_table("way cases unknown median mean coverage width", by_rule(judged))
    repeats = 50 if chosen.quick else 500
    print_bars(made, refit_milliseconds(repeats, Target(SHOWN)))
    ending = Target.of(Ending(decrease=SHOWN))
    print_rule_bars(judged, refit_milliseconds(repeats, ending))


if __name__ == "__main__":
    main()
