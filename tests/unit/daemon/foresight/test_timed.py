"""Forecasts that are made again though nothing was decided: steps measured, intervals outlasted."""

import asyncio
from pathlib import Path

from muster.foresight.play import JobForecast
from muster.foresight.quantiles import TimeInterval
from muster.model.view import Phase
from muster.wire.tasks.messages import Captured, Changed, StepDone
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until

STEP, STEPS = 2.0, 480
HOUR = 3600.0
SHAPE = {
    "parameters": [{"name": "w", "count": 100, "bytes": 400, "type": "float32", "ready": 1.0}],
    "kinds": [["dense", 1.0]],
    "operations": 40_000.0,
    "activations": 2_000,
    "samples": 4_096,
    "sample_bytes": 80,
}


def test_a_training_has_a_finish_once_its_first_steps_are_measured(tmp_path: Path) -> None:
    async def lives() -> None:
        async with running_daemon(tmp_path) as made:
            daemon, foresight = made.daemon, made.foresight
            assert foresight is not None
            number = (await made.service.submit(ANN, program("train", "live"))).number
            await until(made, lambda: daemon.view.jobs[number].phase is Phase.RUNNING)
            job, now = daemon.view.jobs[number].job, daemon.clock.now()
            daemon.beliefs.hear(job, Captured("worker-0", SHAPE, STEPS, 64), now)
            await foresight._refresh()
            assert foresight.forecasts[number].known_finish is None
            assert not foresight._is_timed_now()
            members = ("worker-0",)
            daemon.beliefs.hear(job, Changed("worker-0", 1, 0, members, 0.0, "start"), now)
            for step in range(1, 40):
                times = (STEP / 2, STEP / 2, 0.0, 0.0, STEP)
                done = StepDone("worker-0", 1, step, 0, 64, 1.0, *times)
                daemon.beliefs.hear(job, done, now)
            assert foresight._is_timed_now()
            await foresight._refresh()
            known = foresight.forecasts[number].known_finish
            assert known is not None
            left = (STEPS - 39) * STEP
            assert 0.8 * left < known.middle - now < 1.5 * left

    asyncio.run(lives())


def test_a_forecast_is_made_again_once_a_job_has_outlasted_its_interval(tmp_path: Path) -> None:
    async def lives() -> None:
        async with running_daemon(tmp_path, begin=False) as made:
            foresight = made.foresight
            assert foresight is not None
            now = foresight.made = made.daemon.clock.now() - 10.0
            later = TimeInterval(now + HOUR, now + HOUR / 2, now + 2 * HOUR)
            soon = TimeInterval(now + 3.0, now + 2.0, now + 5.0)
            foresight.forecasts = {1: JobForecast(None, later, own=True, made=now)}
            assert not foresight._is_old()
            foresight.forecasts = {1: JobForecast(None, soon, own=True, made=now)}
            assert foresight._is_old()
            foresight.busy = 60.0  # a long queue, of which somebody is always late
            assert not foresight._is_old()

    asyncio.run(lives())
