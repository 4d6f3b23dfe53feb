"""How well a job's step time is predicted from a few samples, on measured T4 data, beside other models.

For each of six models the sampler chooses 8 rows of the measured tables, seeing settings only; from
these all other rows are predicted. Error: |predicted - measured| / measured of the step time. Optimus'
curve and Pollux' form are fitted on the same 8 rows. A sample has a step's time and the part of it that
was synchronising; Pollux is given both as well, Optimus' curve has no use for the second.
`floor` is our form fitted to all rows at once: what the form could reach at best on this data.
`--priors` varies the constants that were chosen beforehand, one at a time, choosing for each model by
the other five. Needs the measurements in ../shared/data. Prints tables, then one line per target.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from muster.perf.estimate import Estimate, Unknown
from muster.perf.speed.fitted import PRIOR, FittedSpeed, PlacedSample, Prior, fit_placed
from muster.perf.speed.step_form import Arrays, Belief, Reference, StepSetting, times
from support.bars import bar, print_table
from support.baselines import optimus, pollux
from support.sampler import next_sample
from support.t4 import MODELS, load
from support.t4_scatter import draw

Array = NDArray[np.float64]
Rows = Sequence[PlacedSample]

SAMPLES = 8
OTHER_COUNTS = (5, 12)
MEDIAN_TARGET, P90_TARGET = 0.08, 0.25
DRAWS = 10
"""Random choices of 8 rows for each model."""
HALVES = 4
"""Random halves of the rows from which the sampler chooses, when constants are compared."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors over the rows that were not sampled."""

    median: float
    p90: float

    @staticmethod
    def of(predicted: Array, rows: Rows) -> "Errors":
        """Of predicted seconds, a number for each row."""
        off = np.abs(predicted / np.array([row.seconds for row in rows]) - 1)
        return Errors(float(np.median(off)), float(np.percentile(off, 90)))

    @property
    def cells(self) -> tuple[str, str]:
        """As printed, in per cent."""
        return f"{self.median:.1%}", f"{self.p90:.1%}"

    @property
    def score(self) -> float:
        """Both, each as a share of its target."""
        return (self.median / MEDIAN_TARGET + self.p90 / P90_TARGET) / 2


@dataclass(frozen=True, slots=True)
class Result:
    """One model's errors, by whom they are made, and our interval's coverage."""

    ours: Errors
    optimus: Errors
    pollux: Errors
    covered: float

    @property
    def others(self) -> Errors:
        """The better of the other two, each figure by itself."""
        pair = (self.optimus, self.pollux)
        return Errors(min(errors.median for errors in pair), min(errors.p90 for errors in pair))


def learn(samples: Rows, prior: Prior = PRIOR) -> FittedSpeed:
    """Our model from some samples."""
    fitted = fit_placed(samples, prior)
    if isinstance(fitted, Unknown):
        raise ValueError(fitted.detail)
    return fitted


def choose(rows: Rows, count: int, prior: Prior = PRIOR) -> list[PlacedSample]:
    """The rows that the sampler asks for, each measured before the next is chosen."""
    measured = {row.setting: row for row in rows}
    taken: list[PlacedSample] = []
    while len(taken) < count:
        wanted = next_sample(fit_placed(taken, prior), list(measured), [row.setting for row in taken])
        if wanted is None:
            break
        taken.append(measured[wanted])
    return taken


def without(rows: Rows, taken: Rows) -> tuple[list[PlacedSample], list[StepSetting]]:
    """The rows that were not sampled, and their settings."""
    known = {row.setting for row in taken}
    rest = [row for row in rows if row.setting not in known]
    return rest, [row.setting for row in rest]


def means(estimates: Sequence[Estimate]) -> Array:
    """The predicted seconds."""
    return np.array([estimate.mean for estimate in estimates])


def judge(rows: Rows, taken: Rows) -> Result:
    """Everybody's errors on the rows not taken, having learnt from those taken."""
    rest, settings = without(rows, taken)
    estimates = learn(taken).all_seconds(settings)
    inside = [e.low <= row.seconds <= e.high for e, row in zip(estimates, rest, strict=True)]
    return Result(
        Errors.of(means(estimates), rest),
        Errors.of(optimus(taken)(settings), rest),
        Errors.of(pollux(taken)(settings), rest),
        fmean(inside),
    )


def floor(rows: Rows) -> Errors:
    """Our form, without prior, fitted to every row."""
    at, seconds = Arrays.of([row.setting for row in rows]), np.array([row.seconds for row in rows])
    unit, zero = Reference(float(np.median(seconds)), float(at.batch.mean())), np.zeros(len(rows))

    def off(x: Array) -> Array:
        return np.asarray(times(x, at, unit, zero, zero).step - np.log(seconds), dtype=np.float64)

    def by(x: Array) -> Array:
        return times(x, at, unit, zero, zero).step_by

    found = least_squares(off, PRIOR.middles, jac=by, loss="soft_l1", f_scale=0.1, bounds=(-14.0, 8.0))
    return Errors.of(np.exp(off(found.x)) * seconds, rows)


def main_table(models: Sequence[str]) -> dict[str, Result]:
    """Print the figures of 8 chosen samples."""
    results = {}

    def lines() -> Iterator[Sequence[str]]:
        for model in models:
            rows = load(model)
            result = results[model] = judge(rows, choose(rows, SAMPLES))
            cells = (*result.ours.cells, *result.optimus.cells, *result.pollux.cells)
            yield model, str(len(rows)), *cells, f"{result.covered:.0%}", *floor(rows).cells

    print(
        f"{SAMPLES} samples chosen by the sampler: median error and 90th percentile, on all other rows"
    )
    print_table("model rows ours p90 optimus p90 pollux p90 covered floor p90", lines())
    return results


def chosen_table(models: Sequence[str]) -> None:
    """Print which samples were chosen: nodes x devices at batch."""
    print("samples chosen, in order: nodes/devices@batch on each device")
    for model in models:
        taken = [row.setting for row in choose(load(model), SAMPLES)]
        print(f"{model:>12} ", *(f"{len(s.shape)}/{s.devices}@{s.batch}" for s in taken))
    print()


def count_table(models: Sequence[str]) -> None:
    """Print the figures of fewer and more samples."""

    def lines() -> Iterator[Sequence[str]]:
        for model in models:
            rows = load(model)
            for count in OTHER_COUNTS:
                result = judge(rows, choose(rows, count))
                yield model, str(count), *result.ours.cells, *result.optimus.cells, *result.pollux.cells

    print("other numbers of samples")
    print_table("model samples ours p90 optimus p90 pollux p90", lines())


def random_table(models: Sequence[str]) -> None:
    """Print the figures of random samples, without the sampler."""

    def lines() -> Iterator[Sequence[str]]:
        for model in models:
            rows, random = load(model), np.random.default_rng(0)
            draws = [random.choice(len(rows), SAMPLES, replace=False) for _ in range(DRAWS)]
            results = [judge(rows, [rows[i] for i in draw]) for draw in draws]
            ours = [result.ours for result in results]
            middles = (
                _middle(ours),
                _middle([result.optimus for result in results]),
                _middle([result.pollux for result in results]),
            )
            worst = Errors(max(e.median for e in ours), max(e.p90 for e in ours))
            yield model, *(cell for errors in (*middles, worst) for cell in errors.cells)

    print(f"{SAMPLES} random samples: the median of {DRAWS} draws, and our worst draw")
    print_table("model ours p90 optimus p90 pollux p90 worst p90", lines())


def _middle(errors: Sequence[Errors]) -> Errors:
    return Errors(median(e.median for e in errors), median(e.p90 for e in errors))


def variants() -> dict[str, Prior]:
    """The prior as it is, and with one thing changed."""
    spread = PRIOR.spread
    found = {"as-is": PRIOR}
    for name, values in {
        "step": (0.04, 0.09),
        "computing": (0.05, 0.12),
        "placement": (0.1, 0.22),
        "batch": (0.03, 0.08),
    }.items():
        for value in values:
            found[f"{name}={value}"] = replace(PRIOR, spread=replace(spread, **{name: value}))
    for weight in (2.0, 30.0):
        found[f"weight={weight:g}"] = replace(PRIOR, spread_weight=weight)
    for factor in (0.7, 1.4):
        wider = tuple(Belief(b.middle, b.deviation * factor) for b in PRIOR.beliefs)
        found[f"beliefs*{factor}"] = replace(PRIOR, beliefs=wider)
    return found


def mean_errors(rows: Rows, prior: Prior) -> Errors:
    """Our errors when the sampler may choose from all rows or from a random half of them, averaged."""
    random = np.random.default_rng(0)
    halves = [sorted(random.choice(len(rows), len(rows) // 2, replace=False)) for _ in range(HALVES)]
    errors = []
    for part in (rows, *([rows[i] for i in half] for half in halves)):
        taken = choose(part, SAMPLES, prior)
        rest, settings = without(rows, taken)
        errors.append(Errors.of(means(learn(taken, prior).all_seconds(settings)), rest))
    return Errors(fmean(e.median for e in errors), fmean(e.p90 for e in errors))


def prior_tables(models: Sequence[str]) -> None:
    """Print how the figures move with the constants, and those chosen for each model by the others."""
    found: dict[str, dict[str, Errors]] = {}

    def lines() -> Iterator[Sequence[str]]:
        for name, prior in variants().items():
            found[name] = {model: mean_errors(load(model), prior) for model in models}
            yield name, *(f"{e.median:.1%}/{e.p90:.0%}" for e in found[name].values())

    print(f"other constants: mean over all rows and {HALVES} random halves to choose from")
    print_table(" ".join(("variant", *models)), lines())
    print("constants chosen for each model by the other models alone")
    print_table("model chosen median p90", (_held_out(model, found) for model in models))


def _held_out(model: str, found: dict[str, dict[str, Errors]]) -> Sequence[str]:
    def by_others(name: str) -> float:
        return fmean(errors.score for other, errors in found[name].items() if other != model)

    best = min(found, key=by_others)
    return model, best, *found[best][model].cells


def plot(path: Path, models: Sequence[str]) -> None:
    """Draw predicted against measured."""
    panels = {}
    for model in models:
        rows = load(model)
        taken = choose(rows, SAMPLES)
        fitted = learn(taken)

        def points(some: Rows, fitted: FittedSpeed = fitted) -> list[tuple[float, float]]:
            predicted = means(fitted.all_seconds([row.setting for row in some]))
            return [(row.seconds, float(p)) for row, p in zip(some, predicted, strict=True)]

        panels[model] = (points(without(rows, taken)[0]), points(taken))
    draw(path, panels)


def bars(results: dict[str, Result]) -> None:
    """Print a line for every target."""
    for model, result in results.items():
        bar(f"t4-{model}-median-error", result.ours.median, MEDIAN_TARGET)
        bar(f"t4-{model}-p90-error", result.ours.p90, P90_TARGET)
        bar(f"t4-{model}-median-vs-best-other", result.ours.median / result.others.median, 1)
        bar(f"t4-{model}-p90-vs-best-other", result.ours.p90 / result.others.p90, 1)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the targets only, under 30 s")
    parser.add_argument(
        "--model", choices=MODELS, action="append", help="this model only; may be repeated"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="PATH", help="draw predicted against measured (SVG)"
    )
    parser.add_argument("--priors", action="store_true", help="also vary the constants (minutes)")
    asked = parser.parse_args()
    models = tuple(asked.model or MODELS)
    results = main_table(models)
    if not asked.quick:
        chosen_table(models)
        count_table(models)
        random_table(models)
    if asked.priors:
        prior_tables(models)
    if asked.plot:
        plot(asked.plot, models)
    bars(results)


if __name__ == "__main__":
    main()
