"""Predicted against real training steps over real links: namespaces, shaped links, gloo.

Every case is predicted from its description before it is measured (support/cases.py); then each is run
for real (support/steps.py) on a network of its own (support/netns.py). Of each pair of cases the first
is then learnt from and the second predicted again. Then ten plans of one job on four unequal links are
run, and beside them the planner's own choice, which is held against the best of all.

Needs root, the package iproute2 and torch. What a step computes is measured beforehand for each number
of workers, since all share this machine's cores. Prints tables, then one line per target.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.profile import ModelProfile
from muster.perf.compute import Computed, ComputeHistory
from muster.perf.estimate import Estimate, Unknown
from muster.perf.history.steps import StepHistory, Stepped
from muster.perf.predict import Knowledge, Predictor
from muster.planner.choose import Chosen, Planner
from muster.planner.reason import headline
from support.bars import bar, print_table
from support.cases import (
    BATCH,
    BUCKET,
    Case,
    all_cases,
    device_type,
    one_worker_each,
    other_cases,
    plan_cases,
    quick_cases,
)
from support.netns import NoNetworkError, check, sweep


@dataclass(frozen=True, slots=True)
class Result:
    """A case, its prediction made before, and its measured step, in s."""

    case: Case
    predicted: Estimate
    measured: float

    @property
    def error(self) -> float:
        """Relative error of the prediction, positive where it was too slow."""
        return self.predicted.mean / self.measured - 1

    @property
    def held(self) -> bool:
        """Whether the interval holds the measurement."""
        return self.predicted.low <= self.measured <= self.predicted.high

    @property
    def samples(self) -> float:
        """Samples/s that were measured."""
        return sum(self.case.plan.batch) / self.measured


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="a few cases and no plans, under half a minute"
    )
    parser.add_argument("--only", choices=("cases", "plans"), help="one of the two parts")
    options = parser.parse_args()
    try:
        check()
    except NoNetworkError as problem:
        parser.exit(2, f"{problem}\n")
    sweep()
    if options.only != "plans":
        compare_cases(quick_cases() if options.quick else all_cases())
    if options.only == "plans" or not (options.quick or options.only):
        compare_plans(plan_cases()[6:9] if options.quick else plan_cases())


def compare_cases(cases: Sequence[Case]) -> None:
    """Predict and measure every case, then learn from one half for the other."""
    profile, known = prepare(cases)
    results = list(run(cases, profile, known))
    unseen = [r for r in results if r.case in other_cases()]
    if unseen:
        typical = statistics.median(abs(r.error) for r in unseen)
        print(f"held-out links: median error {typical:.1%}\n")
    bar("transfers-median-error", statistics.median(abs(r.error) for r in results), 0.10)
    taught = learnt(known, profile, results[::2])
    again = [Result(r.case, predicted(r.case, profile, taught), r.measured) for r in results[1::2]]
    print_table("again interval measured error case", map(row, again))
    after = statistics.median(abs(r.error) for r in again)
    for when, each in (("before", results), ("after", again)):
        held = sum(r.held for r in each)
        print(f"80 % interval {when} learning: holds {held} of {len(each)}")
    print()
    bar("transfers-median-error-after-learning", after, 0.05)


def compare_plans(cases: Sequence[Case]) -> None:
    """Run these plans and the planner's own; its samples/s against the most that were measured."""
    profile, known = prepare(cases)
    own = planned(cases, profile, known)
    results = list(run((*cases, own), profile, known))
    chosen = results[-1]
    best = max(results, key=lambda r: r.samples)
    print(f"chosen: {chosen.case.name}, {chosen.samples:.0f} samples/s")
    print(f"best:   {best.case.name}, {best.samples:.0f} samples/s\n")
    bar("real-plans-chosen-vs-best", chosen.samples / best.samples, 0.97, above=True)


def planned(cases: Sequence[Case], profile: ModelProfile, known: Knowledge) -> Case:
    """What the planner chooses on these links: the best over the numbers of workers of the cases."""
    found = []
    for case in {case.plan.count(Role.WORKER): case for case in cases}.values():
        workers = case.plan.count(Role.WORKER)
        role = RoleSpec(Role.WORKER, Need(devices=1), workers, workers, workers)
        job = Job("planned", roles=(role,), model=profile, batch=BATCH * workers)
        cluster = one_worker_each(case.cluster)
        planner = Planner(Predictor(cluster, known, bucket=BUCKET))
        choice = planner.choose(job, cluster.configurations, workers)
        if isinstance(choice, Chosen):
            found.append((choice.best.samples, case.rates, cluster, choice.best.candidate))
    _, rates, cluster, candidate = max(found, key=lambda each: each[0])
    words = headline(candidate.plan, len(candidate.placement.nodes()))
    return Case(f"the planner's own: {words}", rates, cluster, candidate.plan, candidate.placement)


def prepare(cases: Sequence[Case]) -> tuple[ModelProfile, Knowledge]:
    """The model's shape, and what computing alone takes for each number of workers in these cases."""
    from support.steps import measure, profile_model  # torch: only when something is measured

    profile = profile_model()
    computed = []
    for case in {case.plan.count(Role.WORKER): case for case in cases}.values():
        workers = case.plan.count(Role.WORKER)
        seconds = measure(case, profile, synchronise=False).compute.total
        computed.append(Computed(profile.name, device_type(workers), BATCH, seconds))
    rows = [(m.device_type, f"{m.seconds * 1e3:.1f}") for m in computed]
    print_table("computing ms", rows)
    return profile, Knowledge(compute=ComputeHistory(tuple(computed)))


def run(cases: Sequence[Case], profile: ModelProfile, known: Knowledge) -> Iterator[Result]:
    """Each case predicted, its prediction printed, then measured."""
    from support.steps import measure

    print(f"{'predicted':>10} {'measured':>10} {'error':>8} {'least':>8} {'most':>8}  case")
    for case in cases:
        before = predicted(case, profile, known)
        print(f"{before.mean:10.3f}", end=" ", flush=True)
        measured = measure(case, profile)
        result = Result(case, before, measured.step)
        if len(measured.digests) != 1:
            raise RuntimeError(f"{case.name}: the workers' parameters have come apart")
        least, most = min(measured.steps), max(measured.steps)
        print(f"{result.measured:10.3f} {result.error:+8.1%} {least:8.3f} {most:8.3f}  {case.name}")
        yield result
    print()


def predicted(case: Case, profile: ModelProfile, known: Knowledge) -> Estimate:
    """What Muster says of a case, s."""
    predictor = Predictor(case.cluster, known, bucket=BUCKET)
    answer = predictor.step_time(profile, case.plan, case.placement)
    if isinstance(answer, Unknown):
        raise RuntimeError(f"{case.name}: {answer.detail}")
    return answer


def learnt(known: Knowledge, profile: ModelProfile, results: Sequence[Result]) -> Knowledge:
    """What is known, and what these results have shown besides."""
    steps = (
        Stepped("", profile.name, r.case.plan.sync, r.case.plan.overlap, r.predicted.mean, r.measured)
        for r in results
    )
    return Knowledge(known.compute, known.links, known.interference, StepHistory(tuple(steps)))


def row(result: Result) -> tuple[str, ...]:
    """A result as cells of a table."""
    before = result.predicted
    interval = f"{before.low:.3f}-{before.high:.3f}"
    figures = (f"{before.mean:.3f}", interval, f"{result.measured:.3f}", f"{result.error:+.1%}")
    return (*figures, result.case.name)


if __name__ == "__main__":
    main()
