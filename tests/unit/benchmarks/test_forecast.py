"""Losses are compared over the forecasts that both ways make, and not at all where there are none."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from muster.foresight.quantiles import TimeInterval

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as it is run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    module = importlib.import_module("forecast")
    monkeypatch.delitem(sys.modules, "forecast")
    return module


def _said(forecast: ModuleType, way: str, number: int, off: float) -> Any:
    """A forecast of a job that ends at 100 s, wrong by this many s."""
    said = TimeInterval(100.0 + off, 100.0 + off, 100.0 + off)
    return forecast.Said(way, (0, number), "new", 0.0, said, 100.0)


def test_a_loss_is_compared_over_the_jobs_that_both_foretell(forecast: ModuleType) -> None:
    ours = [_said(forecast, "ours", number, 10.0) for number in (1, 2)]
    said = [*ours, _said(forecast, "raw", 1, 10.0), _said(forecast, "today", 1, 20.0)]
    assert forecast.ratio(said, "today") == pytest.approx(0.5)


def test_a_rival_that_foretells_no_job_of_ours_has_no_ratio_and_no_bar(
    forecast: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = [_said(forecast, "ours", 1, 10.0), _said(forecast, "raw", 1, 10.0)]
    said = [*ours, _said(forecast, "today", 1, 20.0), _said(forecast, "history", 2, 20.0)]
    assert forecast.ratio(said, "history") is None
    forecast.show([("t4", said, 1.0)])
    shown = capsys.readouterr().out
    assert "loss-over-today" in shown and "loss-over-history" not in shown
