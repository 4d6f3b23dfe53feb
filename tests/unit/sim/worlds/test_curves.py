"""Optimus' world: terms from sizes and links, convergence from the loss curve."""

from pathlib import Path

import numpy as np
import pytest

from muster.files.loss_file import load_losses
from muster.model.profile import LayerType
from muster.perf.devices import DeviceRate
from muster.perf.epochs.loss_curve import fit, prepare, thin
from muster.perf.learnt.held import Held
from muster.sim.worlds.curves import (
    CurveKind,
    Curves,
    CurveSpeed,
    Hardware,
    ModelSize,
    epochs_until_converged,
    falling,
    terms_of,
)
from muster.sim.worlds.optimus_types import CONTAINERS, TYPES, JobType

CURVES = Path(__file__).parents[4] / "examples/training/curves"

SYNCHRONOUS = CurveSpeed(CurveKind.SYNCHRONOUS, (0.01, 0.1, 0.4, 0.02, 0.03), 100, 1000)
ASYNCHRONOUS = CurveSpeed(CurveKind.ASYNCHRONOUS, (0.5, 0.4, 0.02, 0.03), 10, 1000)
FITTED_TO = {
    "resnext-110": "resnet-digits-momentum",
    "resnet-50": "tuning/resnet-digits-sgd",
    "inception-bn": "cnn-digits-adam",
    "kaggle-ndsb": "tuning/cnn-digits-sgd",
    "cnn-rand": "cnn-digits-cosine",
    "dssm": "factors-words-sgd",
    "rnn-lstm": "lstm-text-adam",
    "seq2seq": "tuning/gru-text-adam",
    "ds2": "tuning/gru-text-cosine",
}
"""The recorded curve of each type's loss."""


def test_a_synchronous_step() -> None:
    # w = 4, p = 2: 0.01·100/4 + 0.1 + 0.4·4/2 + 0.02·4 + 0.03·2 = 0.25 + 0.1 + 0.8 + 0.08 + 0.06
    assert SYNCHRONOUS.step(4, 2) == pytest.approx(1.29)
    assert SYNCHRONOUS.synchronising(4, 2) == pytest.approx(0.94)
    # 100 of 1000 samples a step
    assert SYNCHRONOUS.rate("GPU", 4, 2) == pytest.approx(0.1 / 1.29)


def test_an_asynchronous_step() -> None:
    # w = 4, p = 2: (0.5 + 0.4·4/2 + 0.02·4 + 0.03·2) / 4 = 1.44 / 4
    assert ASYNCHRONOUS.step(4, 2) == pytest.approx(0.36)
    assert ASYNCHRONOUS.synchronising(4, 2) == pytest.approx(0.94 / 4)


def test_servers_that_are_not_given_are_as_many_as_the_workers() -> None:
    assert SYNCHRONOUS.rate("GPU", 3) == SYNCHRONOUS.rate("GPU", 3, 3)
    assert SYNCHRONOUS.rate("GPU", 0) == 0.0


def test_terms_follow_from_the_model_and_the_links() -> None:
    # 1e6 parameters are 4 MB. Computing: 3 · 1e9 / (1e12 · 0.65) s a sample; 10 tensors launch in
    # 0.3 ms; w/p: 2 · 4 MB / 125 MB/s = 64 ms and 3 · 4 MB / (2 cores · 10 GB/s) = 0.6 ms; messages
    # of a connection: 4 · 0.1 ms.
    size = ModelSize(1e6, 10, 1e9, LayerType.DENSE)
    site = Hardware(DeviceRate(1e12, 1e12, 1e11), server_cores=2, link=125e6)
    each = 3e9 / 0.65e12
    synchronous = (each, 3e-4, 0.0646, 4e-4, 4e-4)
    assert terms_of(CurveKind.SYNCHRONOUS, size, site, 32) == pytest.approx(synchronous)
    asynchronous = (32 * each + 3e-4, 0.0646, 4e-4, 4e-4)
    assert terms_of(CurveKind.ASYNCHRONOUS, size, site, 32) == pytest.approx(asynchronous)


def test_a_job_ends_when_ten_epochs_have_lowered_the_loss_by_too_little() -> None:
    # l(k) = 1 / (k + 1): epoch k lowers it by 1/k - 1/(k+1) = 1/(k(k+1)); below 5 % from k = 5 on
    # (1/20 is not below, 1/30 is), so epochs 5 to 14 are the ten.
    curve = falling(1.0, 0.0)
    assert curve.loss(0.0) == 1.0
    assert epochs_until_converged(curve, 0.0499) == 14.0


def test_a_job_that_hardly_learns_ends_after_ten_epochs_and_a_slow_one_after_a_hundred() -> None:
    assert epochs_until_converged(falling(0.001, 0.5), 0.05) == 10.0
    assert epochs_until_converged(falling(1.0, 0.0), 1e-6) == 100.0


def test_a_job_reports_its_steps_and_what_each_is_worth() -> None:
    truth = Curves(20.0, SYNCHRONOUS, falling(1.0, 0.0))
    crew = Held("GPU", (2, 2), servers=2)
    shown = truth.shown(crew, 3.0)
    assert truth.pace(crew, 3.0).rate == pytest.approx(shown.gain / shown.step)
    assert shown.sync == pytest.approx(0.94)
    assert truth.outlook(5.0).left == 15.0
    assert truth.curve.loss(3.0) == pytest.approx(0.25)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_losses_are_those_of_recorded_trainings(kind: JobType) -> None:
    points = load_losses(CURVES / f"{FITTED_TO[kind.name]}.csv")
    epochs, losses = np.array([p.epoch for p in points]), np.array([p.loss for p in points])
    fitted = fit(thin(prepare(epochs, losses)))[0]
    assert (kind.b0, kind.b2) == pytest.approx((fitted.b0, fitted.b2), rel=0.01)


@pytest.mark.parametrize("on", CONTAINERS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_more_workers_with_their_servers_speed_up_asynchronous_jobs(kind: JobType, on: str) -> None:
    terms = terms_of(CurveKind.ASYNCHRONOUS, kind.size, CONTAINERS[on].site, kind.minibatch)
    speed = CurveSpeed(CurveKind.ASYNCHRONOUS, terms, kind.minibatch, kind.samples)
    rates = [speed.rate("", k, k) for k in range(1, 11)]
    assert rates == sorted(rates)
