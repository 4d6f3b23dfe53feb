"""A free batch against the user's own: seconds until the same loss.

shaped    two workers in network namespaces whose links make a step cost the same for any batch: a CNN
          and a small GPT of examples/ with the user's batch, and with one that may grow
alone     one worker whose step grows with the batch, so that nothing is to be gained: what trying costs
--device cuda
          one worker on a GPU, by itself: needs torch, numpy and the standard library alone,
          PYTHONPATH=src python benchmarks/live_batch.py --device cuda

The batch is chosen by the runtime's own measurements (noise and seconds of steps), each workload with
the same seeds for both. Efficiency: samples that the user's batch needs over those that the free one
needs for the same loss of new data, against what the runtime believed while it trained. Prints a table
and a line per target, in about five minutes; 5 seeds, for the results, take eight.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from support.bars import bar, print_table
from support.batch_runs import Outcome, run_alone, run_apart
from support.netns import NoNetworkError, shaped_network

TIME, NOWHERE, EFFICIENCY, NOISES = 0.8, 1.05, 0.15, 2.0
"""Targets: time over that of the own batch where throughput grows and anywhere; error of the believed
efficiency; difference of the results in standard deviations of their means."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, the batches it may use, the loss to reach, and s of a sample on an emulated device."""

    model: str
    own: int
    largest: int
    target: float
    pace: float
    link: float
    """Mbit/s."""


SHAPED = (
    Workload("cnn", 32, 1024, 0.15, 0.0002, 20.0),
    Workload("gpt", 8, 256, 2.5, 0.0002, 160.0),
)
"""BatchNorm normalises over a worker's samples: below 16 it makes the loss worse by itself, which is no
noise of the gradient."""
GPU = tuple(replace(work, largest=1024, pace=0.0, link=0.0) for work in SHAPED)
ALONE = Workload("cnn", 32, 1024, 0.5, 0.003, 0.0)
"""A slow device: a sample takes 3 ms, whatever the batch."""
SOON = 0.5
"""The loss to reach with `--quick`."""

Run = Callable[[list[str]], Outcome]


def both(work: Workload, seeds: int, run: Run) -> tuple[list[Outcome], list[Outcome]]:
    """Train with the own and with the free batch, in turn."""
    own, free = [], []
    for seed in range(seeds):
        common = ["--model", work.model, "--own", str(work.own), "--target", str(work.target)]
        common += ["--seed", str(seed)]
        own.append(run(common))
        free.append(run([*common, "--largest", str(work.largest)]))
    return own, free


def mean(values: list[float]) -> float:
    """The mean."""
    return statistics.fmean(values)


def ratio(own: list[Outcome], free: list[Outcome]) -> float:
    """Time with the free batch over that with the own, over all seeds."""
    return sum(each.seconds for each in free) / sum(each.seconds for each in own)


def efficiencies(own: list[Outcome], free: list[Outcome]) -> tuple[float, float]:
    """The worth of a sample of the free batch, believed and measured, to the lowest loss of both."""
    losses = [max(o.best, f.best) for o, f in zip(own, free, strict=True)]
    needed = [o.samples_to(loss) for o, loss in zip(own, losses, strict=True)]
    taken = [f.samples_to(loss) for f, loss in zip(free, losses, strict=True)]
    believed = sum(f.worth_of(samples) for f, samples in zip(free, taken, strict=True))
    return believed / sum(taken), sum(needed) / sum(taken)


def row(work: Workload, own: list[Outcome], free: list[Outcome]) -> list[str]:
    """One line of the table."""
    believed, measured = efficiencies(own, free)
    cells = [work.model, mean([o.seconds for o in own]), mean([f.seconds for f in free])]
    cells += [ratio(own, free), mean([float(f.batch) for f in free]), believed, measured]
    cells += [mean([o.right for o in own]), mean([f.right for f in free])]
    return [each if isinstance(each, str) else f"{each:.3g}" for each in cells]


HEADING = "model own_s free_s ratio batch believed measured own_right free_right"


def report(name: str, own: list[Outcome], free: list[Outcome], most: float) -> None:
    """Print the targets of one workload."""
    bar(f"{name}_time", ratio(own, free), most)
    if most > 1:
        return
    believed, measured = efficiencies(own, free)
    bar(f"{name}_efficiency_error", abs(believed / measured - 1), EFFICIENCY)
    if len(own) > 1:
        rights = [o.right for o in own], [f.right for f in free]
        noise = sum(statistics.variance(each) / len(each) for each in rights) ** 0.5
        worse = (mean(rights[0]) - mean(rights[1])) / max(noise, 1e-9)
        bar(f"{name}_accuracy_lost_in_deviations", worse, NOISES)


def measured(cases: list[tuple[Workload, Run, float]], seeds: int) -> None:
    """Run all cases, print the table as it grows, then the targets."""
    done: list[tuple[Workload, list[Outcome], list[Outcome], float]] = []

    def rows() -> Iterator[list[str]]:
        for work, run, most in cases:
            own, free = both(work, seeds, run)
            done.append((work, own, free, most))
            yield row(work, own, free)

    print_table(HEADING, rows())
    for work, own, free, most in done:
        report(work.model if most <= 1 else f"{work.model}_alone", own, free, most)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="", help="a GPU to train on by itself, such as cuda")
    parser.add_argument("--seeds", type=int, default=3, help="of each workload")
    parser.add_argument("--only", choices=("cnn", "gpt", "alone"), help="one of them")
    parser.add_argument("--quick", action="store_true", help="one seed of the CNN, to a higher loss")
    asked = parser.parse_args()
    seeds = 1 if asked.quick else asked.seeds
    if asked.device:
        works = [work for work in GPU if asked.only in (None, work.model)]
        measured([(w, lambda args: run_alone(asked.device, args), TIME) for w in works], seeds)
        return
    wanted = [work for work in SHAPED if asked.only in (None, work.model)]
    wanted = [replace(SHAPED[0], target=SOON)] if asked.quick else wanted
    for work in wanted:
        try:
            with shaped_network([work.link, work.link]) as nodes:
                measured([(work, partial(run_apart, nodes, work.pace), TIME)], seeds)
        except NoNetworkError as problem:
            print(f"left out: {problem}")
    if asked.only in (None, "alone") and not asked.quick:
        slow = {"MUSTER_SAMPLE_SECONDS": str(ALONE.pace), "MUSTER_THREADS": "1"}
        measured([(ALONE, lambda args: run_alone("cpu", args, slow), NOWHERE)], seeds)


if __name__ == "__main__":
    main()
