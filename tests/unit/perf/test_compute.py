"""Seconds of computing: the prior, lines from measurements, and lines carried to another type."""

from dataclasses import replace

import pytest

from muster.files import shipped_profile
from muster.model.profile import LayerType, ModelProfile
from muster.perf.compute import (
    PRIOR_SPREAD,
    Computed,
    ComputeHistory,
    ComputeLine,
    DeviceKind,
    line,
    prior,
)
from muster.perf.devices import RATES, DeviceRate, data_sheet, rate_of_cores, rate_of_device
from muster.perf.estimate import BadMeasurementError, Unknown, WhyUnknown
from tests.builders import node_set
from tests.unit.perf.shapes import LAUNCH, MB, device_set, model

P100 = DeviceKind("P100", RATES["P100"])
V100 = DeviceKind("V100", RATES["V100"])
NEW = DeviceKind("BRAND-NEW", None)
RESNET = shipped_profile("resnet50")


def measured(profile: str, device_type: str, *points: tuple[float, float]) -> tuple[Computed, ...]:
    """Measurements of (batch, seconds)."""
    return tuple(Computed(profile, device_type, batch, seconds) for batch, seconds in points)


def known(profile: ModelProfile, kind: DeviceKind, *shown: Computed) -> ComputeLine:
    """The line, which must be known."""
    found = line(profile, kind, ComputeHistory(shown))
    assert isinstance(found, ComputeLine)
    return found


def test_the_prior_by_hand() -> None:
    # Two tensors; 3 * 2e9 operations, half at 0.65 and half at 2.25 * 0.65 of 1e12/s;
    # 11 passes of 3 MB at 0.75 of 1e11 bytes/s.
    profile = replace(
        model(MB, MB),
        operations=2e9,
        activations=3 * MB,
        layers=((LayerType.DENSE, 0.5), (LayerType.CONVOLUTION, 0.5)),
    )
    found = prior(profile, DeviceRate(1e12, 2e12, 1e11))
    assert found is not None
    assert found.fixed == pytest.approx(2 * LAUNCH)
    operations = 6e9 * (0.5 / 0.65 + 0.5 / (2.25 * 0.65)) / 1e12
    assert found.per_sample == pytest.approx(operations + 11 * 3e6 / 0.75e11)
    assert found.seconds(10) == pytest.approx(found.fixed + 10 * found.per_sample)


def test_half_precision_runs_at_the_half_rate() -> None:
    half = replace(model(MB), parameter_bytes=2)
    slow, fast = (
        prior(model(MB), DeviceRate(1e12, 4e12, 1e12)),
        prior(half, DeviceRate(1e12, 4e12, 1e12)),
    )
    assert slow is not None
    assert fast is not None
    assert slow.per_sample == pytest.approx(4 * fast.per_sample)


@pytest.mark.parametrize(
    ("name", "batch", "images"),
    [
        # One P100, synthetic data: tensorflow.org/guide/performance/benchmarks (2017).
        ("resnet50", 64, 219.0),
        ("resnet152", 64, 91.8),
        ("alexnet", 512, 2987.0),
        ("vgg16", 64, 154.0),
        ("inception3", 64, 142.0),
    ],
)
def test_the_prior_is_near_public_figures_of_one_device(name: str, batch: int, images: float) -> None:
    found = known(shipped_profile(name), P100)
    assert batch / found.seconds(batch) == pytest.approx(images, rel=0.25)


def test_the_priors_interval_is_a_factor_both_ways() -> None:
    estimate = known(RESNET, P100).estimate(64)
    assert estimate.low == pytest.approx(estimate.mean / PRIOR_SPREAD)
    assert estimate.high == pytest.approx(estimate.mean * PRIOR_SPREAD)


def test_one_measurement_scales_the_prior() -> None:
    before = known(RESNET, P100)
    slower = measured("resnet50", "P100", (64, 1.7 * before.seconds(64)))
    after = known(RESNET, P100, *slower)
    for batch in (1, 16, 128):
        assert after.seconds(batch) == pytest.approx(1.7 * before.seconds(batch), rel=1e-6)
    assert after.spread < before.spread


def test_two_measurements_give_the_line_up_to_a_weak_pull_towards_the_prior() -> None:
    # Twice the prior's fixed part and its own slope: both ends come out within 5 %.
    before = known(RESNET, P100)
    truth = ComputeLine(2 * before.fixed, before.per_sample, 1.0)
    shown = measured("resnet50", "P100", *((b, truth.seconds(b)) for b in (8, 64)))
    after = known(RESNET, P100, *shown)
    for batch in (8, 32, 64):
        assert after.seconds(batch) == pytest.approx(truth.seconds(batch), rel=0.05)


@pytest.mark.parametrize("fixed", [0.5, 5.0, 10.0])
def test_many_measurements_overcome_the_prior(fixed: float) -> None:
    before = known(RESNET, P100)
    truth = ComputeLine(fixed * before.fixed, 1.5 * before.per_sample, 1.0)
    points = [(b, truth.seconds(b)) for b in (8, 16, 32, 64)]
    after = known(RESNET, P100, *measured("resnet50", "P100", *points * 25))
    for batch in (8, 64, 128):
        assert after.seconds(batch) == pytest.approx(truth.seconds(batch), rel=0.05)


def test_on_a_device_without_data_sheet_two_measurements_give_the_line() -> None:
    shown = measured("m", "BRAND-NEW", (10, 0.012), (100, 0.102))  # 2 ms + 1 ms each
    found = known(model(MB), NEW, *shown)
    assert found.seconds(10) == pytest.approx(0.012, rel=0.05)
    assert found.seconds(100) == pytest.approx(0.102, rel=0.05)
    assert found.seconds(50) == pytest.approx(0.052, rel=0.05)


def test_far_from_every_measured_batch_less_is_known() -> None:
    found = known(RESNET, P100, *measured("resnet50", "P100", (32, 0.2), (64, 0.4)))

    def width(batch: float) -> float:
        estimate = found.estimate(batch)
        return estimate.high / estimate.mean

    assert width(33) == width(32) < width(1)


def test_no_line_falls_below_zero() -> None:
    # Measurements that would need a negative fixed part: 100 samples take more than ten times 10.
    found = known(model(MB), NEW, *measured("m", "BRAND-NEW", (10, 0.01), (100, 0.2)))
    assert found.fixed >= 0
    assert found.per_sample >= 0


def test_the_interval_shrinks_with_measurements_that_agree() -> None:
    point = (64.0, 0.3)
    few = known(RESNET, P100, *measured("resnet50", "P100", point, point))
    many = known(RESNET, P100, *measured("resnet50", "P100", *[point] * 30))
    assert 1 < many.spread < few.spread < 1.1


def test_a_new_type_is_told_by_a_model_known_on_both() -> None:
    # `other` is 2.5 times as slow on the new type; so will resnet50 be, which is known on a P100.
    shown = (
        *measured("other", "P100", (8, 0.1), (16, 0.2), (64, 0.8)),
        *measured("other", "BRAND-NEW", (8, 0.25), (16, 0.5), (64, 2.0)),
        *measured("resnet50", "P100", (32, 0.4)),
    )
    here = known(RESNET, P100, *shown)
    there = known(RESNET, NEW, *shown)
    assert there.seconds(32) == pytest.approx(2.5 * here.seconds(32), rel=0.02)
    assert there.spread > here.spread


def test_without_such_a_model_by_the_ratio_of_the_data_sheets() -> None:
    sheets = known(RESNET, V100).seconds(RESNET.batch) / known(RESNET, P100).seconds(RESNET.batch)
    shown = measured("resnet50", "P100", (32, 0.4))
    found = known(RESNET, V100, *shown)
    assert found.seconds(32) == pytest.approx(sheets * known(RESNET, P100, *shown).seconds(32))


def test_what_other_models_showed_on_other_types_does_not_matter_to_a_rated_one() -> None:
    assert known(RESNET, V100, *measured("other", "P100", (8, 9.9))) == known(RESNET, V100)


def test_an_unknown_type_is_told_with_what_to_write() -> None:
    found = line(RESNET, NEW, ComputeHistory())
    assert isinstance(found, Unknown)
    assert found.why is WhyUnknown.NO_RATE
    assert "BRAND-NEW" in found.detail
    assert "device_rate" in found.detail


@pytest.mark.parametrize(
    ("batch", "seconds"),
    [
        (8, -1.0),
        (8, 0.0),
        (8, float("nan")),
        (8, float("inf")),
        (0, 1.0),
        (-8, 1.0),
        (float("nan"), 1.0),
    ],
)
def test_a_measurement_that_cannot_be_is_refused(batch: float, seconds: float) -> None:
    with pytest.raises(BadMeasurementError):
        Computed("m", "P100", batch, seconds)


@pytest.mark.parametrize(
    ("name", "sheet"),
    [
        ("A100-80GB", "A100"),
        ("a100", "A100"),
        ("Tesla P100", None),
        ("RTX 2080 Ti", "RTX2080TI"),
        ("L40S", "L40"),
        ("P4", None),
    ],
)
def test_device_types_are_found_by_the_beginning_of_their_name(name: str, sheet: str | None) -> None:
    assert data_sheet(name) == (RATES[sheet] if sheet else None)


def test_a_cluster_file_overrides_the_data_sheet_and_keeps_its_ratio_of_precisions() -> None:
    kind = replace(node_set(device_type="V100"), device_rate=10e12)
    found = rate_of_device(kind)
    assert found is not None
    assert found.single == 10e12
    assert found.half == pytest.approx(10e12 * 125 / 15.7)
    assert found.memory == 900e9


def test_a_rate_without_bandwidth_is_not_enough_for_an_unknown_device() -> None:
    assert rate_of_device(replace(device_set(), device_bandwidth=None)) is None
    assert rate_of_device(device_set()) == DeviceRate(1e12, 1e12, 1e12)


def test_cores_compute_in_proportion() -> None:
    one, four = prior(RESNET, rate_of_cores(1)), prior(RESNET, rate_of_cores(4))
    assert one is not None
    assert four is not None
    assert one.per_sample == pytest.approx(4 * four.per_sample)
