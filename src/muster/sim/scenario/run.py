"""Run one simulation."""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from time import process_time

from muster.sim.engine import Engine, Setting
from muster.sim.recorder import Samples, record, refusal
from muster.sim.result import JobResult, Result
from muster.sim.truth import Arrival

Progress = Callable[[int, float], None]
"""Called with the number of completed jobs and the simulated s."""


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Run the cyclic garbage collector a hundred times less often: it took a tenth of the time, and
    simulations make hardly any cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(100 * usual[0], *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@_rare_collections()
def simulate(
    setting: Setting,
    arrivals: Iterable[Arrival],
    configuration: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    *,
    stints: bool = False,
) -> Result:
    """Run to the end. Equal settings, arrivals and seed give equal results, except `cpu`."""
    configuration = configuration or {}
    begun = process_time()
    engine = Engine(setting, arrivals)
    engine.executor.stints = [] if stints else None
    types = setting.cluster.device_types()
    records: list[JobResult] = []
    samples = Samples()
    engine.observer = samples.see
    for frame in engine.frames():
        if engine.ended:
            records += [record(life, types, at) for life, at in engine.ended]
            engine.ended.clear()
            if progress is not None:
                progress(len(records), frame.now)
    records += [record(life, types, at) for life, at in engine.ended]
    records += [record(life, types, None) for life in engine.executor.lives.values()]
    samples.see(engine.view, engine.clock.now(), must=True)
    records += [refusal(arrival, types) for arrival in engine.admission.refused]
    refusals = [f"refused {n}: {why}" for why, n in engine.admission.why.most_common()]
    return Result(
        configuration=configuration,
        seed=setting.seed,
        policy=setting.policy.name,
        hash=digest(configuration, setting.seed),
        records=tuple(sorted(records, key=lambda each: (each.submitted, each.name))),
        samples=samples.all(),
        stints=tuple(engine.executor.stints or ()),
        cycles=engine.cycles,
        events=engine.events,
        cpu=process_time() - begun,
        notes=(*refusals, *engine.sweeps.notes(), *_others(engine, records), *_left_over(engine)),
    )


def digest(configuration: Mapping[str, object], seed: int) -> str:
    """Return twelve hexadecimal digits of configuration and seed: enough for millions."""
    text = json.dumps({"configuration": configuration, "seed": seed}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _others(engine: Engine, records: Iterable[JobResult]) -> Iterator[str]:
    """Yield what became of the jobs beside sweeps, whose members are jobs of their own at each rung."""
    names = engine.sweeps.names
    others = [each for each in records if each.name not in names]
    times = [each.ended - each.submitted for each in others if each.ended is not None]
    waits = [each.started - each.submitted for each in others if each.started is not None]
    if names and times and waits:
        yield f"the {len(times)} other jobs: mean {fmean(times):,.0f} s, wait {fmean(waits):,.0f} s"


def _left_over(engine: Engine) -> list[str]:
    """Return notes on the jobs that are neither completed nor refused."""
    left = Counter(state.phase for state in engine.view.jobs.values())
    why = "nothing more could happen" if engine.stuck else "the simulation was stopped"
    return [
        f"unfinished {n}: {phase} at {engine.clock.now():g} s, when {why}" for phase, n in left.items()
    ]
