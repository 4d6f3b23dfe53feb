"""`muster sim forecast`: ask a simulation about its future, and see what came of it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from muster.cli.parse import parse_time, parsed
from muster.cli.render.table import table
from muster.cli.render.words import counted
from muster.files.errors import InputError
from muster.foresight.asked_run import AskedRun
from muster.foresight.forecaster import Forecaster
from muster.foresight.play import JobForecast, Present
from muster.foresight.quantiles import TimeInterval
from muster.model.duration import clock
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare


@dataclass(frozen=True, slots=True)
class Answer:
    """What was forecast at a moment."""

    present: Present
    forecasts: Mapping[int, JobForecast]


def run_forecast(configuration: Configuration, moments: str, *, as_json: bool) -> str:
    """Simulate, ask at each moment, and return the forecasts beside what came."""
    at = [parsed("--at", each, parse_time) for each in moments.split(",")]
    prepared, forecaster = prepare(configuration), Forecaster(seed=configuration.seed)
    run = AskedRun(prepared.setting, prepared.jobs.arrivals(), forecaster)
    answers = [Answer(each, forecaster.ask(each)) for each in run.presents(at)]
    if not answers:
        raise InputError.at("--at", "the simulation is over by then; ask earlier")
    if as_json:
        return json.dumps([_as_data(each, run) for each in answers], indent=2)
    return "\n".join(line for each in answers for line in _as_text(each, run))


def _as_text(answer: Answer, run: AskedRun) -> Iterator[str]:
    now, found = answer.present.now, answer.forecasts
    held = [_held(found[n].finish, run, n) for n in found if n in run.ended]
    yield f"After {clock(now)}: {counted(len(found), 'live job')}"
    heading = ("JOB", "STATUS", "START", "FINISH", "80% INTERVAL", "CAME", "RESTS ON")
    yield table(heading, [_row(answer, run, number) for number in found], left=(0, 1, 6))
    if held:
        yield f"{sum(held)} of {len(held)} ends were within their 80% interval."
    yield ""


def _row(answer: Answer, run: AskedRun, number: int) -> tuple[str, ...]:
    now, each, state = answer.present.now, answer.forecasts[number], answer.present.view.jobs[number]
    start = "" if each.start is None else _words(each.start, now)[0]
    finish, interval = _words(each.finish, now)
    came = f"in {clock(run.ended[number][1] - now)}" if number in run.ended else "-"
    rests = counted(each.jobs, "similar job") if each.jobs else "its own progress"
    return state.job.name, state.phase.value, start, finish, interval, came, rests


def _words(said: TimeInterval, now: float) -> tuple[str, str]:
    if not said.is_known(now):
        return "unknown", f"{clock(max(said.low - now, 0.0))} or more"
    middle, low, high = (clock(max(each - now, 0.0)) for each in (said.middle, said.low, said.high))
    return f"in {middle}", f"{low} to {high}"


def _held(said: TimeInterval, run: AskedRun, number: int) -> bool:
    return said.low <= run.ended[number][1] <= said.high


def _as_data(answer: Answer, run: AskedRun) -> dict[str, Any]:
    jobs = []
    for number, each in answer.forecasts.items():
        state, came = answer.present.view.jobs[number], run.ended.get(number)
        told = {"name": state.job.name, "status": state.phase.value, **asdict(each)}
        known = each.finish.is_known(answer.present.now)
        jobs.append({**told, "known": known, "came": None if came is None else came[1]})
    return {"at": answer.present.now, "jobs": jobs}
