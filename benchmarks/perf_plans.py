"""Chosen plans against the best there are, against plans made by hand, and what choosing costs.

Eight models on 30 mixed nodes (llama-7b does not fit into the memory of Dike's devices and gets a
cluster of its own). All plans are priced by `replay`, transfer by transfer. `found` is the best of all
plans that were replayed, the chosen one among them; `least` is what the optimum cannot be below: every
plan that was not replayed has a bound of at least that. A plan's figure is found / chosen; `of-least`,
least / chosen, is what it would be if such a plan reached its bound.
By hand: a worker on every device, batch and parameters split evenly, and one server for four workers on
the same nodes (`hand`), apart on nodes without devices (`apart`), or one ring over all (`ring`).
Then the same jobs as the cycle lays them out: with a worker on each device of the plan chosen, and with
a worker on each of the largest nodes.
Prints tables, then one line per target. --quick looks at fewer plans: `found` and `least` are of those.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from statistics import fmean, median
from time import process_time

from muster.files.profile.profile_file import shipped_profile, shipped_profiles
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Plan, Sync
from muster.perf.estimate import Unknown
from muster.perf.predict import Predictor
from muster.planner.candidates import PlacedPlan, PlacedWorkers, Workshop
from muster.planner.choose import Planner
from support.assign import ServerLoad, by_shares, optimus, shares_of
from support.bars import bar, print_table
from support.judge.replay import replay
from support.mxnet import mxnet
from support.plans import (
    Case,
    Enumeration,
    by_cycle,
    by_hand,
    case,
    eight_workers,
    made,
    on_64,
    servers_on,
    sixty_four,
    workers_on,
)

OPTIMUM, GAIN = 0.97, 0.81
PLAN_MS, FRESH_MS, MEMOISED_US = 50.0, 2.0, 50.0
CLOSE = 0.995
"""Plans whose bound is within half a per cent of the best found are not replayed."""
FEW = (1, 2, 4, 8, 12, 16, 24)
"""Server counts of a quick look."""
AGAIN = 200
"""Questions that are asked again, for their mean."""
QUICK_SECONDS, FULL_SECONDS = 1.0, 45.0
"""Of replaying for each model; what is left then lowers `least`."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer plans; under 30 s")
    parser.add_argument("--held-out", action="store_true", help="30 held-out nodes")
    parser.add_argument("--models", nargs="*", default=shipped_profiles(), help="only these")
    asked = parser.parse_args()
    results: list[Result] = []
    heading = (
        "model sync devices workers servers step found least of-found of-least plans replayed "
        "hand apart ring plan-ms"
    )
    cases = [case(model, held_out=asked.held_out) for model in asked.models]
    print_table(heading, (result.row for result in _compared(cases, asked.quick, results)))
    costs = [result.cost for result in results]
    print("The same jobs through the cycle, as the daemon decides")
    heading = "model sync devices workers servers step of-found of-chosen predicted"
    print_table(heading, (decided.row for decided in _through(cases, results)))
    print_table("model servers links rule largest requests closed replay", _assigned(asked.models))
    print_table("faster-than mean median", _faster(results))
    fresh, kept = _questions()
    which = "-held-out" if asked.held_out else ""
    for result in results:
        bar(f"plans-{result.model}-vs-optimum{which}", result.figure, OPTIMUM, above=True)
    bar("plans-mean-gain-over-manual", fmean(r.gains[0] for r in results), GAIN, above=True)
    bar("plan-30-nodes-ms", 1e3 * max(costs), PLAN_MS)
    bar("step-time-fresh-ms-64-devices", 1e3 * fresh, FRESH_MS)
    bar("step-time-memoised-us-64-devices", 1e6 * kept, MEMOISED_US)


def _faster(results: Sequence["Result"]) -> Iterator[tuple[str, ...]]:
    """Over all models for which a plan made by hand fits."""
    for i, how in enumerate(("hand", "apart", "ring")):
        gains = [result.gains[i] for result in results if isfinite(result.gains[i])]
        yield how, f"{fmean(gains):+.0%}", f"{median(gains):+.0%}"


@dataclass(frozen=True, slots=True)
class Result:
    """A model's plan: seconds of its step, of the best one found, and below which none can be."""

    model: str
    plan: Plan | None
    step: float
    found: float
    least: float
    counts: tuple[int, int]
    hands: tuple[float, ...]
    cost: float

    @property
    def figure(self) -> float:
        """The chosen plan's speed over that of the best plan found."""
        return self.found / self.step

    @property
    def gains(self) -> list[float]:
        """How much faster than each plan made by hand."""
        return [seconds / self.step - 1 for seconds in self.hands]

    @property
    def row(self) -> tuple[str, ...]:
        """As printed."""
        plan = self.plan
        kinds = (
            (str(plan.sync), plan.devices, plan.count(Role.WORKER), plan.count(Role.SERVER))
            if plan
            else ("none", 0, 0, 0)
        )
        return (
            self.model[:10],
            kinds[0][:10],
            *map(str, kinds[1:]),
            *(f"{seconds:.4f}" for seconds in (self.step, self.found, self.least)),
            f"{self.figure:.3f}",
            f"{self.least / self.step:.3f}",
            *map(str, self.counts),
            *(f"{gain:+.0%}" for gain in self.gains),
            f"{1e3 * self.cost:.1f}",
        )


def _compared(cases: Sequence[Case], quick: bool, results: list[Result]) -> Iterator[Result]:
    for of in cases:
        print(f"{of.job.name}: choosing, enumerating, replaying", file=sys.stderr, flush=True)
        results.append(_result(of, 5, quick=quick))
        yield results[-1]


def _result(of: Case, repeats: int, *, quick: bool) -> Result:
    predictor = Predictor(of.cluster)
    cost = median(_seconds(lambda: _planned(of, Predictor(of.cluster))) for _ in range(repeats))
    chosen = _planned(of, predictor)
    step = _priced(of, predictor, chosen.plan, chosen.placement) if chosen else float("inf")
    hands = tuple(_priced(of, predictor, *by_hand(of, how)) for how in ("beside", "apart", "ring"))
    looks = [Enumeration(of, min(step, *hands), counts=FEW, whole_nodes=True)]
    found, least, replayed = _best(of, predictor, looks[0], min(step, *hands), QUICK_SECONDS)
    if not quick:
        looks.append(Enumeration(of, CLOSE * found))
        found, least, more = _best(of, predictor, looks[1], found, FULL_SECONDS)
        replayed += more
    counts = (sum(look.looked_at for look in looks), replayed)
    plan = chosen.plan if chosen else None
    return Result(of.job.name, plan, step, found, min(least, found), counts, hands, cost)


@dataclass(frozen=True, slots=True)
class Decided:
    """What the cycle makes of a job: its plan, and the s of its step, replayed and predicted."""

    result: Result
    plan: Plan
    step: float
    predicted: float

    @property
    def row(self) -> tuple[str, ...]:
        """As printed."""
        plan, result = self.plan, self.result
        return (
            result.model[:10],
            str(plan.sync)[:10],
            *(str(n) for n in (plan.devices, plan.count(Role.WORKER), plan.count(Role.SERVER))),
            f"{self.step:.4f}",
            f"{result.found / self.step:.3f}",
            f"{result.step / self.step:.3f}",
            f"{self.predicted:.4f}",
        )


def _through(cases: Sequence[Case], results: Sequence[Result]) -> Iterator[Decided]:
    """Ask the cycle, as the daemon does: the policy says how many workers, a strategy where, the
    planner how many servers and how all share the work."""
    for of, result in zip(cases, results, strict=True):
        for workers, each in _asked(of, result):
            found = by_cycle(of, workers, each)
            if found is not None:
                plan, placement, predicted = found
                step = _priced(of, Predictor(of.cluster), plan, placement)
                yield Decided(result, plan, step, predicted)


def _asked(of: Case, result: Result) -> Iterator[tuple[int, int]]:
    """What a user could ask for: the devices of the plan chosen, one for each worker; whole nodes."""
    if result.plan is not None:
        yield result.plan.devices, 1
    kinds = [of.cluster.configuration_of(node).devices for node in of.cluster.nodes]
    yield kinds.count(max(kinds)), max(kinds)


def _planned(of: Case, predictor: Predictor) -> PlacedPlan | None:
    choice = Planner(predictor).choose(of.job, of.configurations, of.devices)
    return None if isinstance(choice, Unknown) else choice.best.candidate


def _best(
    of: Case, predictor: Predictor, look: Enumeration, best: float, seconds: float
) -> tuple[float, float, int]:
    """The best step of the plans looked at, what none of them can be below, and replays."""
    waiting = sorted(look.plans(), key=lambda plan: plan.least)
    until = process_time() + seconds
    for i, plan in enumerate(waiting):
        if plan.least >= CLOSE * best or process_time() > until:
            return best, plan.least, i
        best = min(best, _priced(of, predictor, plan.plan, plan.placement))
    return best, CLOSE * best, len(waiting)


def _priced(of: Case, predictor: Predictor, plan: Plan, placement: Placement) -> float:
    found = replay(predictor, of.profile, plan, placement)
    return float("inf") if isinstance(found, Unknown) else found


def _seconds(do: Callable[[], object]) -> float:
    begun = process_time()
    do()
    return process_time() - begun


def _assigned(models: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Rules for who holds which tensor: eight workers, and servers with equal or unequal cards."""
    for model in models:
        for count in (4, 8):
            for unequal in (False, True):
                yield from _rules(model, count, unequal=unequal)


def _rules(model: str, count: int, *, unequal: bool) -> Iterator[tuple[str, ...]]:
    profile, cluster = shipped_profile(model), eight_workers(count, unequal=unequal)
    of = replace(case(model), cluster=cluster)
    predictor = Predictor(cluster)
    tensors = profile.tensors
    slots: list[Slot] = []
    for node in cluster.nodes[count:]:
        slots += workers_on(cluster, node, 1, len(slots), whole=False)
    placed = PlacedWorkers(tuple(slots), (1,) * len(slots))
    hosts = cluster.nodes[:count]
    filled = Workshop(predictor, of.job, profile).dedicated(placed, hosts, count).plan.owners
    even = [ServerLoad(profile.gradients / count, len(tensors)) for _ in range(count)]
    rules = {
        "even": even,
        "mxnet": mxnet(tensors, count, profile.parameter_bytes),
        "optimus": optimus(tensors, count),
        "filled": by_shares(tensors, filled),
    }
    for name, loads in rules.items():
        owners = shares_of(loads)
        plan, placement = made(placed, Sync.DEDICATED, owners, servers_on(hosts, owners, profile))
        closed = predictor.step_time(profile, plan, placement)
        yield (
            model[:10],
            str(count),
            "unequal" if unequal else "equal",
            name,
            f"{max(owners):.3f}",
            str(max(load.requests for load in loads)),
            "-" if isinstance(closed, Unknown) else f"{closed.mean:.4f}",
            f"{_priced(of, predictor, plan, placement):.4f}",
        )


def _questions() -> tuple[float, float]:
    """CPU seconds of one question for 64 devices on 8 nodes, the first time and again: the worst."""
    profile, cluster = shipped_profile("resnet50"), sixty_four()
    fresh, kept = [], []
    for plan, placement in on_64(cluster, profile):
        predictors = [Predictor(cluster) for _ in range(21)]
        ask = partial(Predictor.step_time, profile=profile, plan=plan, placement=placement)
        fresh.append(median(_seconds(partial(ask, each)) for each in predictors))
        begun = process_time()
        for _ in range(AGAIN):
            predictors[0].step_time(profile, plan, placement)
        kept.append((process_time() - begun) / AGAIN)
    return max(fresh), max(kept)


if __name__ == "__main__":
    main()
