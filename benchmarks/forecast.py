"""Forecasts of live jobs' ends, and how they come true: coverage and loss, against other ways.

Each world is simulated with learnt beliefs under Muster's own policy. At some submissions the future is
played forward from the view of that moment, with what has been seen until then, and every live job gets
a median and an 80 % interval. What is scored: jobs submitted since the last question (AT: new), and
each once in the middle of its run (half), at the question next to its half-time: a long job that was
asked about more often counts no more than others. Half-time is known afterwards only: it leaves out
jobs that turn out longer or shorter, so that forecasts which hold 80 % of all outcomes hold more of
these. Questions are of the second to fourth fifth of the submissions:
before, nothing was seen; after, the workload's end is near, which nobody could know.

COVERED is the part of the ends within the 80 % interval, LOSS the mean pinball loss of the quantiles
0.1, 0.5 and 0.9 over the mean time left, X-... that of ours over others': today's forecast (everybody
keeps what it has), quantiles of the history by size and pool (where five jobs took longer than this one
so far), Slurm's reservations by users' limits; each over the forecasts that both make.
Users ask Slurm and Muster for the same duration: the next round one above twice what they expect, and
they expect the truth give or take a factor of 1.6.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from time import process_time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.foresight.asked_run import AskedRun
from muster.foresight.effort import WORLDS as PLAYED
from muster.foresight.forecaster import Forecaster
from muster.foresight.quantiles import HIGH, LOW, MIDDLE, TimeInterval
from muster.model.view import JobState
from support.bars import bar
from support.forecast_rivals import History, limits, slurm, today
from support.forecast_worlds import WORLDS, World, crowd
from support.sim_runs import print_wide, processes

OURS = "ours"
RIVALS = ("today", "history", "slurm")
COVERED, EACH, LOSS = (0.75, 0.85), (0.70, 0.90), 0.70
"""Targets: coverage overall and in each world, and most loss over others'."""


COST = 20.0
"""Target: most s of one core for 1,000 live jobs."""
HALF = 0.35, 0.65
"""Parts of its run that are its middle."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a way said about a job, when, and what came of it."""

    way: str
    job: tuple[int, int]
    """The seed of its run, and its number."""
    at: str
    """`new` or `half`."""
    now: float
    said: TimeInterval
    came: float

    @property
    def held(self) -> bool:
        return self.said.low <= self.came <= self.said.high

    @property
    def loss(self) -> float:
        quantiles = ((LOW, self.said.low), (MIDDLE, self.said.middle), (HIGH, self.said.high))
        return mean(max(p * (self.came - q), (p - 1) * (self.came - q)) for p, q in quantiles)


@dataclass(slots=True)
class Asked:
    """A simulation that was asked as it went."""

    world: World
    questions: int
    played: int
    declared: bool
    """Whether users tell Muster the durations that they would tell Slurm."""
    open: list[tuple[str, float, JobState, TimeInterval]] = field(default_factory=list)
    seconds: float = 0.0

    def run(self) -> list[Said]:
        """Simulate, ask, and score."""
        forecaster, history = Forecaster(self.played), History()
        setting, arrivals = self.world.setting, self.world.arrivals
        users = limits(arrivals, setting.cluster.device_types())
        if self.declared:
            arrivals = tuple(
                replace(each, job=replace(each.job, duration=users[each.job.number]))
                for each in arrivals
            )
        trial, known = AskedRun(setting, arrivals, forecaster), 0
        for present in trial.presents(self._moments()):
            for state, at in list(trial.ended.values())[known:]:
                history.note(state, at)
            known = len(trial.ended)
            view, now = present.view, present.now
            begun = process_time()
            raw, found = forecaster.both(present)
            self.seconds += process_time() - begun
            ways = {
                OURS: {number: each.finish for number, each in found.items()},
                "raw": {number: each.finish for number, each in raw.items()},
                "today": today(view, now, forecaster.past),
                "history": history.forecast(view, now),
                "slurm": slurm(view, now, forecaster.past, users),
            }
            for way, said in ways.items():
                self.open += [(way, now, view.jobs[number], each) for number, each in said.items()]
        return list(self._scored(trial))

    def _moments(self) -> list[float]:
        at = [each.at for each in self.world.arrivals]
        first, last = len(at) // 5, 4 * len(at) // 5
        return [at[first + i * (last - first) // self.questions] for i in range(self.questions)]

    def _scored(self, trial: AskedRun) -> Iterator[Said]:
        asked = sorted({now for _, now, _, _ in self.open})
        halves: dict[tuple[str, int], tuple[float, Said]] = {}
        for way, now, state, said in self.open:
            if state.number not in trial.ended or state.number not in trial.began:
                continue
            began, (_, came) = trial.began[state.number], trial.ended[state.number]
            last = max((each for each in asked if each < now), default=now - 1.0)
            part = (now - began) / max(came - began, 1.0)
            job = self.world.setting.seed, state.number
            if state.submitted > last:
                yield Said(way, job, "new", now, said, came)
            elif HALF[0] <= part <= HALF[1]:
                place = way, state.number
                known = halves.get(place)
                if known is None or abs(part - 0.5) < known[0]:
                    halves[place] = abs(part - 0.5), Said(way, job, "half", now, said, came)
        yield from (said for _, said in halves.values())


def _row(name: str, at: str, said: Sequence[Said], seconds: float) -> tuple[str, ...]:
    ours = [each for each in said if each.way == OURS]
    raw = [each for each in said if each.way == "raw"]
    cells = [f"{mean(each.held for each in ours):.2f}", f"{mean(each.held for each in raw):.2f}"]
    left = mean(each.came - each.now for each in ours)
    cells.append(f"{mean(each.loss for each in ours) / left:.3f}")
    cells.append(f"{mean(each.loss for each in raw) / left:.3f}")
    ratios = (ratio(said, rival) for rival in RIVALS)
    cells += ["-" if each is None else f"{each:.2f}" for each in ratios]
    return (name, at, str(len(ours)), *cells, f"{seconds:.0f}")


def ratio(said: Sequence[Said], rival: str) -> float | None:
    """Return our loss over another's, where both say something; None: nowhere."""
    ours, theirs = ({(e.job, e.now): e.loss for e in said if e.way == way} for way in (OURS, rival))
    both = ours.keys() & theirs.keys()
    if not both:
        return None
    return mean(ours[each] for each in both) / mean(theirs[each] for each in both)


def _played(job: tuple[int, int, int, int, bool, int]) -> tuple[str, list[Said], float]:
    which, jobs, questions, played, declared, seed = job
    asked = Asked(WORLDS[which](jobs, seed), questions, played, declared)
    return asked.world.name, asked.run(), asked.seconds


def _cost(jobs: int, played: int) -> None:
    """Print the processor time of one question about this many live jobs."""
    world, forecaster = crowd(jobs, 0), Forecaster(played)
    at = world.arrivals[-1].at + 1.0
    present = next(AskedRun(world.setting, world.arrivals, forecaster).presents([at]))
    begun = process_time()
    forecaster.ask(present)
    spent = process_time() - begun
    print(f"{len(present.view.jobs):,} live jobs forecast in {spent:.1f} s of one core")
    bar("seconds-of-one-question", spent * 1000 / len(present.view.jobs), COST)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one world, few questions")
    parser.add_argument("--only", default="", help="one world: t4, philly, diurnal, bursts or failing")
    parser.add_argument("--jobs", type=int, default=200, help="jobs of a world")
    parser.add_argument("--questions", type=int, default=12, help="questions to a world")
    parser.add_argument("--seed", type=int, default=0, help="of the first run of a world")
    parser.add_argument("--seeds", type=int, default=1, help="runs of a world")
    parser.add_argument("--played", type=int, default=PLAYED, help="futures played for a question")
    parser.add_argument(
        "--undeclared", action="store_true", help="users tell Slurm a job's duration, and not Muster"
    )
    parser.add_argument("-j", type=int, default=2, help="processes")
    parser.add_argument("--cost", type=int, metavar="N", help="only what N live jobs cost")
    options = parser.parse_args()
    if options.cost:
        _cost(options.cost, options.played)
        return
    if options.quick:
        options.jobs, options.questions, options.played = 60, 3, 6
    names = [make.__name__ for make in WORLDS]
    which = [i for i, name in enumerate(names) if options.only in ("", name)]
    if options.quick and not options.only:
        which = which[2:3]
    seeds = range(options.seed, options.seed + options.seeds)
    size = options.jobs, options.questions, options.played, not options.undeclared
    runs = [(i, *size, seed) for i in which for seed in seeds]
    with processes(options.j) as spread:
        found = list(spread(_played, runs))
    show(found)


def show(found: Sequence[tuple[str, list[Said], float]]) -> None:
    """Print a row for each world and moment, and the targets."""
    by_name: dict[str, list[Said]] = {}
    spent: dict[str, float] = {}
    for name, said, seconds in found:
        by_name.setdefault(name, []).extend(said)
        spent[name] = spent.get(name, 0.0) + seconds
    rows = [
        _row(name, at, chosen, spent[name])
        for name, said in by_name.items()
        for at in ("new", "half")
        if any(chosen := [each for each in said if each.at == at])
    ]
    heading = (
        "WORLD",
        "AT",
        "N",
        "COVERED",
        "RAW",
        "LOSS",
        "RAW",
        *(f"X-{each}" for each in RIVALS),
        "CPU",
    )
    print_wide(heading, rows)
    covered = {
        name: mean(each.held for each in said if each.way == OURS) for name, said in by_name.items()
    }
    everything = [each for said in by_name.values() for each in said if each.way == OURS]
    overall = mean(each.held for each in everything)
    for name, figure, (low, high) in (
        ("overall", overall, COVERED),
        *((name, figure, EACH) for name, figure in covered.items()),
    ):
        bar(f"covered-at-least-{name}", figure, low, above=True)
        bar(f"covered-at-most-{name}", figure, high)
    for rival in RIVALS:
        ratios = [ratio(said, rival) for said in by_name.values()]
        if known := [each for each in ratios if each is not None]:
            bar(f"loss-over-{rival}", mean(known), LOSS)


if __name__ == "__main__":
    main()
