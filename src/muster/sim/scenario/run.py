"""One simulation from its configuration to its result."""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import process_time

from muster.sim.engine import Engine, Setting
from muster.sim.recorder import Samples, record, refusal
from muster.sim.result import JobRecord, Result
from muster.sim.truth import Arrival

Progress = Callable[[int, float], None]
"""Told how many jobs are done, and the s that have passed."""


def simulate(
    setting: Setting,
    arrivals: Iterable[Arrival],
    configuration: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    *,
    stints: bool = False,
) -> Result:
    """Run to the end. Equal settings, arrivals and seed give equal results, `cpu` apart."""
    with _rare_collections():
        return _simulate(setting, arrivals, configuration or {}, progress, stints=stints)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for circles of garbage a hundred times less often than usual: a simulation makes millions of
    values and hardly any circles, and looking took a tenth of its time."""
    usual = gc.get_threshold()
    gc.set_threshold(100 * usual[0], *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _simulate(
    setting: Setting,
    arrivals: Iterable[Arrival],
    configuration: Mapping[str, object],
    progress: Progress | None,
    *,
    stints: bool,
) -> Result:
    begun = process_time()
    engine = Engine(setting, arrivals)
    engine.executor.stints = [] if stints else None
    types = setting.cluster.device_types()
    records: list[JobRecord] = []
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
    records += [refusal(arrival, types) for arrival in engine.gate.refused]
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
        notes=(*_refusals(engine), *_left_over(engine)),
    )


def digest(configuration: Mapping[str, object], seed: int) -> str:
    """Twelve hexadecimal digits of configuration and seed: enough to tell millions apart."""
    text = json.dumps({"configuration": configuration, "seed": seed}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _refusals(engine: Engine) -> list[str]:
    return [f"refused {n}: {why}" for why, n in engine.gate.why.most_common()]


def _left_over(engine: Engine) -> list[str]:
    """What became of the jobs that are neither done nor refused."""
    left = Counter(state.phase for state in engine.view.jobs.values())
    why = "nothing more could happen" if engine.stuck else "the simulation was told to stop"
    return [
        f"unfinished {n}: {phase} at {engine.clock.now():g} s, when {why}" for phase, n in left.items()
    ]
