"""The demo's jobs for real and through the simulator: does each end when the simulator says?

Runs `examples/demo` (a real daemon, real training, six jobs of three kinds on eight virtual devices),
reads from its journal what was measured,

steps      s of a step by kind and number of workers: all the time over all the steps
warm-up    s from the order of new tasks to the moment they train, by how many they are; of each job's
           first start what it took
release    s until tasks that have to go are gone
stop       s until all tasks of a job are
tail       s from a job's last step to its end

and has the simulator, with the same cluster, pools, policy and submissions, play the same jobs at those
speeds with those delays. Policies are told what the daemon would know (support/demo_beliefs.py).
Nothing is fitted to when jobs ended. Prints what was measured, how many workers each job had when, both
finishes of each job, and one line per target: the error, as a part of the real finish.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.daemon.learn.window import ENOUGH_SECONDS, ENOUGH_STEPS, SKIPPED
from muster.files.cluster.cluster_file import load_cluster
from muster.model.job import Job, Role
from muster.model.view import Phase
from muster.policy.registry import POLICIES
from muster.sim.engine import Engine, Setting
from muster.sim.executor import Pauses
from muster.sim.truth import Arrival
from support.bars import bar
from support.demo_beliefs import Captured, Heard
from support.demo_real import (
    DEMO,
    Story,
    first_starts,
    play,
    read_stories,
    read_waits,
    tail,
    timed,
    usual,
    warmup,
)
from support.measured import MeasuredJob
from support.sim_runs import print_wide

TARGET = 0.10
INTERVAL = 5.0
"""s between two cycles of the demo's daemon at most (`INTERVAL` there)."""
QUICK = ("--speed", "4", "--only", "cnn-small", "--only", "gpt-small")

Crews = list[tuple[float, int]]
"""When a job had how many workers."""


def main() -> None:
    """Play, measure, simulate, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two short jobs: half a minute")
    parser.add_argument("--policy", default="muster", choices=sorted(POLICIES), metavar="NAME")
    parser.add_argument("--again", type=Path, metavar="DIR", help="simulate what was run with --keep")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the daemon's folder there")
    asked = parser.parse_args()
    if asked.again is not None:
        compare(asked.again, asked.policy)
        return
    arguments = ["--policy", asked.policy, *(QUICK if asked.quick else ())]
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        play(folder, arguments)
        compare(folder, asked.policy)


def compare(folder: Path, policy: str) -> None:
    """Simulate what was run there, and print both."""
    stories = read_stories(folder)
    setting, truths = measured(stories, folder, policy)
    finishes, crews = simulated(setting, stories, truths)
    print("\nworkers of each job from s on, real and simulated")
    for name, story in stories.items():
        print(f"  {name:<11}real  {_crews(story.crews)}\n  {'':<11}sim   {_crews(crews[name])}")
    print("\ns from the first submission to each job's end")
    errors = {name: abs(finishes[name] - s.ended) / s.ended for name, s in stories.items()}
    print_wide(
        ("JOB", "REAL", "SIMULATED", "ERROR"),
        [
            (name, f"{s.ended:.1f}", f"{finishes[name]:.1f}", f"{finishes[name] / s.ended - 1:+.1%}")
            for name, s in stories.items()
        ],
    )
    for name, error in errors.items():
        bar(f"sim_real.{name}", error, TARGET)
    bar("sim_real.worst", max(errors.values()), TARGET)


def measured(
    stories: Mapping[str, Story], folder: Path, policy: str
) -> tuple[Setting, dict[str, MeasuredJob]]:
    """The simulator's setting and each job's truth, from what was measured; prints it."""
    every = list(stories.values())
    steps = timed(every, read_waits(folder))
    pauses = Pauses(
        start=0.0,
        resize=0.0,
        migrate=0.0,
        release=usual(story.releases for story in every),
        stop=usual(story.stops for story in every),
        warmup=warmup(every),
        first_starts=first_starts(every),
        leave_first=True,
    )
    after = tail(every, steps)
    site = load_cluster(DEMO / "cluster.yaml")
    devices = {kind.device_type: kind.devices for kind in site.cluster.configurations.values()}
    captured = {name: Captured(story.steps, story.batch) for name, story in stories.items()}
    setting = Setting(
        cluster=site.cluster,
        pools=site.pools,
        policy=POLICIES[policy],
        pauses=pauses,
        beliefs=lambda: Heard(devices, captured),
        interval=INTERVAL,
        steady=True,
        watched=first_window,
        noise=0.0,
    )
    print("\nmeasured: ms of a step by number of workers")
    for kind, found in steps.items():
        print(f"  {kind:<6}" + "  ".join(f"{each.workers}: {1e3 * each.step:.0f}" for each in found))
    warm = pauses.warmup
    print(
        f"  warm-up {warm.once:.1f} s + {warm.each:.1f} s a task, release {pauses.release:.1f} s, "
        f"stop {pauses.stop:.1f} s, tail {after:.1f} s"
    )
    truths = {
        name: MeasuredJob(story.steps, steps[story.kind], after, _most(story.job))
        for name, story in stories.items()
    }
    return setting, truths


def simulated(
    setting: Setting, stories: Mapping[str, Story], truths: Mapping[str, MeasuredJob]
) -> tuple[dict[str, float], dict[str, Crews]]:
    """When each job ends in the simulator, and its workers over time."""
    arrivals = [Arrival(s.submitted, s.job, truths[name]) for name, s in stories.items()]
    engine = Engine(setting, arrivals)
    crews: dict[str, Crews] = {name: [] for name in stories}
    finishes: dict[str, float] = {}
    for frame in engine.frames():
        for name, now in crews.items():
            state = frame.after.jobs.get(stories[name].job.number)
            begun = state is not None and state.phase is not Phase.STARTING
            placed = state.placement if state is not None and begun else None
            workers = placed.count(Role.WORKER) if placed is not None else 0
            if workers != (now[-1][1] if now else 0):
                now.append((frame.now, workers))
        finishes |= {life.job.name: at for life, at in engine.ended}
    return finishes | {life.job.name: at for life, at in engine.ended}, crews


def first_window(step: float) -> float:
    """s after a change until the daemon has a first measurement (`daemon.learn.window`)."""
    return SKIPPED * step + min((ENOUGH_STEPS + 1) * step, ENOUGH_SECONDS)


def _most(job: Job) -> int:
    return job.workers.most


def _crews(crews: Sequence[tuple[float, int]]) -> str:
    return "  ".join(f"{at:.0f}: {workers}" for at, workers in crews)


if __name__ == "__main__":
    main()
