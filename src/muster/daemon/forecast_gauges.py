"""Metrics of forecasts: what is expected, and how it comes true."""

from collections.abc import Mapping
from statistics import median

from prometheus_client import CollectorRegistry, Counter, Gauge

from muster.foresight.play import JobForecast
from muster.model.view import View


class ForecastGauges:
    """Series about the future of live jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Gauge(
            "muster_forecast_jobs",
            "Live jobs whose finish is forecast, by whether the interval says anything",
            ["known"],
            registry=registry,
        )
        self._wait = Gauge(
            "muster_expected_wait_seconds",
            "Median over a pool's waiting jobs of the time until their expected start",
            ["pool"],
            registry=registry,
        )
        self._drained = Gauge(
            "muster_expected_finish_seconds",
            "Time until the last of a pool's live jobs is expected to end",
            ["pool"],
            registry=registry,
        )
        self._took = Gauge(
            "muster_forecast_seconds", "Time that the last forecast took", registry=registry
        )
        self._scored = Counter(
            "muster_forecasts",
            "Forecasts that came true, by what, when they were made, and where the outcome lay",
            ["what", "made", "outcome"],
            registry=registry,
        )

    def show(self, forecasts: Mapping[int, JobForecast], view: View, took: float) -> None:
        """Set the gauges to the latest forecasts."""
        self._took.set(took)
        known = {number: each for number, each in forecasts.items() if each.known_finish is not None}
        self._jobs.labels("yes").set(len(known))
        self._jobs.labels("no").set(len(forecasts) - len(known))
        waits: dict[str, list[float]] = {}
        ends: dict[str, list[float]] = {}
        for number, each in forecasts.items():
            state = view.jobs.get(number)
            if state is None:
                continue
            if (start := each.known_start) is not None:
                waits.setdefault(state.job.pool, []).append(max(0.0, start.middle - each.made))
            if (finish := each.known_finish) is not None:
                ends.setdefault(state.job.pool, []).append(max(0.0, finish.middle - each.made))
        self._wait.clear()
        self._drained.clear()
        for pool, seconds in waits.items():
            self._wait.labels(pool).set(median(seconds))
        for pool, seconds in ends.items():
            self._drained.labels(pool).set(max(seconds))

    def score(self, what: str, made: str, outcome: str) -> None:
        """Count a forecast that came true: `outcome` is "early", "within" or "late"."""
        self._scored.labels(what, made, outcome).inc()
