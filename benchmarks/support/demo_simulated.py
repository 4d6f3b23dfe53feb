"""The demo's jobs in the simulator, at steps that were once measured, with a forecast at each start.

A run takes two seconds of one core in place of three minutes, on a machine that may be busy. Policies
and forecasts are told what the daemon would know (`demo_beliefs`).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module

from muster.files.cluster.cluster_file import load_cluster
from muster.files.job.job_file import job_of
from muster.foresight.asked_run import AskedRun
from muster.foresight.forecaster import Forecaster
from muster.foresight.kept import FINISH, KeptForecast
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.executor import Pauses, Warmup
from muster.sim.truth import Arrival
from support.demo_beliefs import Captured, Heard
from support.demo_forecasts import Outcome
from support.demo_real import DEMO
from support.measured import MeasuredJob, TimedStep

STEPS = {
    "gpt": {1: 0.335, 3: 0.132, 4: 0.103, 6: 0.093},
    "cnn": {1: 0.321, 3: 0.122, 4: 0.098},
    "wide": {1: 0.264, 3: 0.102, 4: 0.084},
}
"""s by number of workers, measured with the rest in a real run (docs/explanation/benchmarks.md,
"Simulated against real")."""
BATCHES = {"gpt": 16, "cnn": 32, "wide": 64}
PAUSES = Pauses(
    start=0.0,
    resize=0.0,
    migrate=0.0,
    release=2.4,
    stop=2.1,
    warmup=Warmup(3.0, 0.9),
    leave_first=True,
)
TAIL = 2.6
INTERVAL = 5.0
"""s between two cycles at most."""
WINDOW = 14
"""Steps after a change until the daemon has a first measurement."""
NOISE = 0.03
BEFORE = 1e-3
"""s that the daemon has followed when the first job comes: it is up before."""
LONGEST = 400
"""s after which nothing starts."""


def simulated(seed: int) -> Iterator[Outcome]:
    """Yield the scored forecasts of one run."""
    arrivals = list(_arrivals(seed))
    site = load_cluster(DEMO / "cluster.yaml")
    devices = {kind.device_type: kind.devices for kind in site.cluster.configurations.values()}
    known = {each.job.name: _captured(each) for each in arrivals}
    setting = Setting(
        site.cluster,
        site.pools,
        POLICIES["muster"],
        pauses=PAUSES,
        beliefs=lambda: Heard(devices, known),
        interval=INTERVAL,
        steady=True,
        watched=lambda step: min(WINDOW * step, INTERVAL),
        noise=NOISE,
        seed=seed,
    )
    forecaster, placed = Forecaster(), set[int]()
    forecaster.restore(-BEFORE, ())
    run, kept = AskedRun(setting, arrivals, forecaster), list[KeptForecast]()
    for present in run.presents(map(float, range(LONGEST))):
        now = {number for number, state in present.view.jobs.items() if state.placement is not None}
        if not now <= placed:
            placed |= now
            forecaster.ask(present)
            kept += forecaster.taken()
    yield from _scored(seed, kept, run, arrivals)


def _arrivals(seed: int) -> Iterator[Arrival]:
    sys.path.insert(0, str(DEMO))
    demo = import_module("demo")
    for number, act in enumerate(demo.acts(list(demo.ACTS), 1.0, seed), 1):
        job = replace(job_of(act.record), number=number)
        steps = STEPS[job.name.partition("-")[0]]
        timed = tuple(TimedStep(n, s, max(0.0, s - steps[1] / n)) for n, s in steps.items())
        yield Arrival(act.at, job, MeasuredJob(job.work or 0.0, timed, TAIL, job.workers.most))


def _captured(arrival: Arrival) -> Captured:
    return Captured(int(arrival.job.work or 0), BATCHES[arrival.job.name.partition("-")[0]])


def _scored(
    seed: int, kept: Sequence[KeptForecast], run: AskedRun, arrivals: Sequence[Arrival]
) -> Iterator[Outcome]:
    by_number = {each.job.number: each for each in arrivals}
    for each in kept:
        if each.what != FINISH or each.number not in run.ended:
            continue
        said, made, came = each.said, each.made, run.ended[each.number][1]
        about = by_number[each.number]
        low, middle, high = said.low - made, said.middle - made, said.high - made
        after, known = made - about.at, said.is_known(made)
        yield Outcome(
            seed, about.job.name, each.mark, after, low, middle, high, came - made, known=known
        )
