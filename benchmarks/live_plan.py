"""The plan that the cycle decides, under a real daemon, against every plan forced by hand; its cost.

`live`: hosts are network namespaces with links shaped by `tc tbf` and an agent each (support/netns.py,
tests/live/hosts.py); devices are virtual, and their computing is emulated. One training runs under each
plan that its user could force (`sync`, servers), then under the one that the cycle decides. On equal
links, with one slow link, and with idle hosts that parameter servers could use. Figures are samples/s
over those of the best plan forced. Needs root, iproute2 and torch.

`cycle`: 4,096 devices and 1,000 jobs (the mixes of core.py), all of whose models are known: the time of
a cycle over that of one that knows no model, in turns; the first cycle of all, and later ones.
Prints tables, then one line per target.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the lab is the tests'

from core import MIXES, scene
from muster.core.cycle.cycle import Cycle, Memory
from muster.files.profile.profile_file import shipped_profile, shipped_profiles
from muster.model.profile import CapturedShape
from muster.model.view import View
from muster.perf.predict import Knowledge
from muster.policy.published.fifo import Fifo
from support.bars import bar, print_table
from support.netns import NoNetworkError, check, sweep

OF_BEST, CYCLE_RATIO = 0.95, 2.0
DEVICES, JOBS = 4_096, 1_000
TRAIN = Path(__file__).parent / "support" / "shaped_train.py"
SAMPLES = 48
"""Of a step."""
LATENCY = "100us"
PAYLOAD = 0.956
"""TCP payload over the bytes that a token bucket counts, see support/cases.py."""
SERVER_CORES = 0.5
"""Of a server, which sums in a fraction of the time of a step; less would be what limits it."""
LONG = 300.0
"""s that a training may take."""


@dataclass(frozen=True, slots=True)
class Case:
    """Links in Mbit/s, one host each; workers; servers that there may be; and the training."""

    name: str
    rates: tuple[float, ...]
    workers: int
    servers: int = 0
    width: int = 700
    pace: float = 0.002


CASES = (
    Case("equal", (100, 100, 100), 3),
    Case("one-slow", (200, 200, 200, 40), 4),
    Case("idle-hosts", (100, 100, 100, 200, 200), 3, servers=2),
)


@dataclass(frozen=True, slots=True)
class Forced:
    """A plan as a job's file has it."""

    name: str
    sync: str = "auto"
    servers: str = ""


def plans(case: Case) -> Iterator[Forced]:
    """Yield every plan that a user could force."""
    yield Forced("ring", "ring")
    yield Forced("sharded", "sharded")
    for count in range(1, case.servers + 1):
        yield Forced(f"{count}-servers", "dedicated", str(count))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("all", "live", "cycle"), default="all")
    parser.add_argument("--case", choices=[case.name for case in CASES], help="only this one")
    parser.add_argument("--quick", action="store_true", help="the cycle, and one short case")
    asked = parser.parse_args()
    if asked.part != "live":
        cycle(3 if asked.quick else 9)
    if asked.part == "cycle":
        return
    try:
        check()
    except NoNetworkError as problem:
        parser.exit(2, f"{problem}\n")
    sweep()
    chosen = [c for c in CASES if asked.case in (None, c.name)]
    if asked.quick:
        small = next(replace(c, width=400) for c in CASES if c.name == "one-slow")
        compare(small, 9, 3, quick=True)
        return
    for case in chosen:
        compare(case, 40, 12, quick=False)


# --- the cycle ---


def cycle(repeats: int) -> None:
    """A cycle with known models over one without, one after the other: the first ones, which know no
    answer yet, and those that follow."""
    ratios: dict[str, float] = {}
    print_table("MIX CYCLE PLAIN/ms PLANNED/ms PLANS", _cycles(repeats, ratios))
    for name, ratio in ratios.items():
        bar(f"plan-cycle-{DEVICES}-devices-{JOBS}-jobs-{name}-ratio", ratio, CYCLE_RATIO)


def _cycles(repeats: int, ratios: dict[str, float]) -> Iterator[Sequence[str]]:
    for mix in ("roomy", "crowded"):
        plain = scene(MIXES[mix], DEVICES, JOBS, seed=1)
        views = plain, replace(plain, shapes=_shapes(plain), knowledge=Knowledge())
        kept = Cycle(Fifo()), Cycle(Fifo())
        count = sum(
            decision.plan is not None
            for cycle, view in zip(kept, views, strict=True)
            for decision in cycle.decide(view, float(JOBS), Memory()).decisions
        )
        assert count, "a cycle that plans nothing would say nothing"
        first = [[_timed(Cycle(Fifo()), replace(view)) for view in views] for _ in range(repeats)]
        later = [
            [_timed(cycle, replace(view)) for cycle, view in zip(kept, views, strict=True)]
            for _ in range(repeats)
        ]
        for name, turns in (("first", first), ("later", later)):
            without, with_plans = (statistics.median(times) for times in zip(*turns, strict=True))
            ratios[f"{mix}-{name}"] = with_plans / without
            yield mix, name, f"{1e3 * without:.1f}", f"{1e3 * with_plans:.1f}", str(count)


def _shapes(view: View) -> dict[int, CapturedShape]:
    """Eight models, and 32 samples for each device of a gang."""
    models = [shipped_profile(name) for name in shipped_profiles() if name != "llama-7b"]
    return {
        number: CapturedShape(models[number % len(models)], 32 * state.job.workers.gang)
        for number, state in view.jobs.items()
    }


def _timed(cycle: Cycle, view: View) -> float:
    """Seconds of this process' own time."""
    begun = time.process_time()
    cycle.decide(view, float(JOBS), Memory())
    return time.process_time() - begun


# --- under a daemon ---


def compare(case: Case, steps: int, skip: int, *, quick: bool) -> None:
    """One set of links: a row for each plan, then the figure of the decided one."""
    print(f"{case.name}: links of {'-'.join(f'{rate:g}' for rate in case.rates)} Mbit/s")
    seconds: dict[str, float] = {}
    forced = [Forced("ring", "ring")] if quick else list(plans(case))
    servers = f"0..{case.servers}" if case.servers else ""
    with tempfile.TemporaryDirectory(prefix="muster-plan-") as folder:
        runs = (*forced, Forced("decided", servers=servers))
        print_table(
            "plan s/step samples/s text", _run_all(Path(folder), case, runs, steps, skip, seconds)
        )
    best = min(seconds[each.name] for each in forced)
    bar(f"plan-{case.name}-of-best-forced", best / seconds["decided"], OF_BEST, above=True)
    print()


def _run_all(
    folder: Path,
    case: Case,
    runs: Sequence[Forced],
    steps: int,
    skip: int,
    seconds: dict[str, float],
) -> Iterator[Sequence[str]]:
    from tests.live.hosts import lab

    names = tuple(f"host{i}" for i in range(len(case.rates)))
    rules = folder / "cluster.yaml"
    rules.write_text(_rules(case, names), encoding="utf-8")
    options = ("--policy", "fifo", "--cluster", str(rules))
    with lab(folder / "lab", names, *options, rates=case.rates) as made:
        made.start(*names, devices=1)
        for run in runs:
            figure = folder / f"{run.name}.figure"
            words = [sys.executable, str(TRAIN), "--figure", str(figure)]
            words += ["--steps", str(steps), "--skip", str(skip)]
            words += ["--width", str(case.width), "--pace", str(case.pace)]
            words += ["--samples", str(SAMPLES)]
            job = made.daemon.submit(*words, name=run.name, sync=run.sync, **_asks(case, run))
            text, until = "", time.monotonic() + LONG
            while made.daemon.record(run.name).ended is None and time.monotonic() < until:
                plan = made.daemon.detail(run.name).plan
                text = plan.text if plan is not None else text
                time.sleep(0.5)
            ended = job.wait(1)
            assert ended.status == "succeeded", made.daemon.muster("logs", run.name).stdout
            seconds[run.name] = float(figure.read_text(encoding="utf-8"))
            yield run.name, f"{seconds[run.name]:.3f}", f"{SAMPLES / seconds[run.name]:.1f}", text


def _asks(case: Case, run: Forced) -> dict[str, object]:
    worker = {"count": str(case.workers), "devices": "1"}
    if not run.servers:
        return {"roles": {"worker": worker}}
    return {"roles": {"worker": worker, "server": {"count": run.servers, "cores": SERVER_CORES}}}


def _rules(case: Case, names: Sequence[str]) -> str:
    lines = ["rules:"]
    for name, rate in zip(names, case.rates, strict=True):
        nic = f"{{bandwidth: {rate * PAYLOAD:g}Mbit/s, latency: {LATENCY}}}"
        lines += [f"- match: {{name: {name}}}", f"  nic: {nic}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
