"""What the shape of a model foretells of its steps, and how measured ones correct it."""

from dataclasses import replace
from math import exp

import pytest

from muster.files import shipped_profile
from muster.model.job import Job
from muster.model.topology import Link
from muster.perf.compute import Computed, ComputeHistory
from muster.perf.learnt.foretold import Foreteller
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner
from muster.perf.learnt.step_report import StepReport
from muster.perf.predict import Knowledge
from muster.perf.speed.fitted import PRIOR, Prior
from muster.perf.speed.foresight import Foresight
from muster.perf.speed.step_form import NAMES
from tests.builders import cluster, job, mixed, node_set

RESNET, VGG = shipped_profile("resnet50"), shipped_profile("vgg16")
FAST = node_set(device_type="V100")
SLOW = replace(FAST, nic=Link(0.125e9, 5e-6))
"""A tenth of a network card, and less: 1 Gbit/s."""


def train(name: str, **fields: object) -> Job:
    return replace(job(name, 1, most=32, application=name, batch=256), **fields)  # type: ignore[arg-type]


def foretold(learner: Learner, one: Job, nodes: Foreteller) -> Job:
    learner.foresee(one, nodes.of(RESNET))
    return one


def gain(learner: Learner, one: Job, workers: int) -> float:
    """How many times as fast as one worker these should be."""
    speed = learner.outlook(one, None, 0.0).speed
    return speed.rate("V100", workers) / speed.rate("V100", 1)


def test_slow_links_are_foretold_to_cost_an_application_never_seen_its_scaling() -> None:
    learner = Learner({"V100": 8})
    quick = foretold(learner, train("quick"), Foreteller(cluster(4, FAST)))
    stuck = foretold(learner, train("stuck"), Foreteller(cluster(4, SLOW)))
    assert 4 < gain(learner, quick, 8) < 8  # within a node both are alike
    assert gain(learner, quick, 32) > 1.5 * gain(learner, quick, 8)
    assert gain(learner, stuck, 32) < gain(learner, quick, 32) / 2


def test_a_model_of_larger_gradients_for_its_computing_is_foretold_to_scale_worse() -> None:
    learner, nodes = Learner({"V100": 8}), Foreteller(cluster(4, SLOW))
    heavy = train("heavy")
    learner.foresee(heavy, nodes.of(VGG))
    light = foretold(learner, train("light"), nodes)
    assert gain(learner, heavy, 32) < gain(learner, light, 32)


def test_the_seconds_of_known_steps_are_foretold_within_the_data_sheets_spread() -> None:
    learner = Learner({"V100": 8})
    one = foretold(learner, train("a", work=1_000.0), Foreteller(cluster(4, FAST)))
    left = learner.outlook(one, None, 0.0).left
    # 1,000 steps of 256 images at the 360 images/s published for a V100 (MLPerf's reference, fp32).
    assert 256_000 / 360 / 1.75 < left < 256_000 / 360 * 1.75


def test_first_measurements_pull_what_was_foretold() -> None:
    learner = Learner({"V100": 8})
    one = foretold(learner, train("a"), Foreteller(cluster(4, FAST)))
    before = gain(learner, one, 8)
    for shape, step in (((1,), 0.8), ((4,), 0.7), ((8,), 0.68)):
        learner.watch(one, Held("V100", shape), StepReport(step), 10.0)
    assert before > 4
    assert gain(learner, one, 8) == pytest.approx(0.8 / 0.68, rel=0.1)


def test_one_measured_step_tells_the_unit_and_leaves_the_foretold_form() -> None:
    learner, plain = Learner({"V100": 8}), Learner({"V100": 8})
    one = foretold(learner, train("a"), Foreteller(cluster(4, SLOW)))
    for each in (learner, plain):
        each.watch(one, Held("V100", (8,)), StepReport(0.12), 10.0)
    # Twice as many are hoped for; beyond them only a foretold one knows of the slow links.
    assert gain(learner, one, 32) <= gain(learner, one, 16) <= 2 * gain(learner, one, 8)


def test_computing_measured_elsewhere_is_believed_more_than_the_data_sheet() -> None:
    shown = tuple(Computed("resnet50", "V100", 32.0 * n, 0.5 * n) for n in (1, 2, 4))
    sheet = Foreteller(cluster(4, FAST)).of(RESNET)["V100"]
    known = Foreteller(cluster(4, FAST), Knowledge(ComputeHistory(shown))).of(RESNET)["V100"]
    assert known.seconds(64.0) == pytest.approx(1.0, rel=0.1)
    assert known.known < sheet.known


def test_on_devices_without_a_data_sheet_nothing_is_foretold() -> None:
    assert Foreteller(cluster(4, node_set(device_type="abacus"))).of(RESNET) == {}


def test_beliefs_are_weighed_by_how_sure_they_are() -> None:
    vague = Foresight(0.01, 0.01, known=10.0, across=2.0, links=10.0)
    sure = replace(vague, known=0.01, links=0.01)
    at = NAMES.index("net")
    found = [Prior(foresight=each).at(99.0).beliefs[at] for each in (vague, sure)]
    assert found[0].middle == pytest.approx(PRIOR.beliefs[at].middle, abs=0.02)
    assert exp(found[1].middle) == pytest.approx(2.0, rel=0.01)  # 2 s against 1 s of computing
    assert found[1].deviation < PRIOR.beliefs[at].deviation / 10


def test_steps_that_are_not_as_foretold_are_not_believed_to_scale_as_foretold() -> None:
    """A tiny model foretells that launches take its steps; loading data may take them instead."""
    tiny = Foresight(fixed=1e-4, per_sample=1e-9, known=0.3)
    gains = []
    for told in ({"V100": tiny}, {}):
        learner, one = Learner({"V100": 8}), train("loads")
        learner.foresee(one, told)
        for _ in range(4):
            learner.watch(one, Held("V100", (2,)), StepReport(0.11), 100.0)
            learner.watch(one, Held("V100", (1,)), StepReport(0.2), 100.0)
        gains.append(gain(learner, one, 2))
    assert gains[0] > 1.5
    assert gains[0] == pytest.approx(gains[1], rel=0.1)


def test_a_batch_that_a_device_cannot_hold_is_left_to_more_devices_or_a_larger_type() -> None:
    # 256 samples of ResNet-50 take more than 16 GB: four devices of the small type hold 64 each.
    small = replace(FAST, name="small", device_type="T4", device_memory=16 * 10**9)
    nodes = Foreteller(mixed((1, replace(FAST, device_memory=80 * 10**9)), (1, small)))
    learner, one = Learner({"V100": 8, "T4": 8}), train("one")
    learner.foresee(one, nodes.of(RESNET))
    speed = learner.outlook(one, None, 0.0).speed
    assert speed.rate("V100", 1) > 0.0
    assert speed.rate("T4", 1) == 0.0
    assert speed.rate("T4", 4) > 0.0
    learner.watch(one, Held("T4", (1,)), StepReport(1.0), 1.0)  # it runs there all the same
    assert learner.outlook(one, None, 1.0).speed.rate("T4", 1) > 0.0


def test_a_batch_that_no_device_is_believed_to_hold_is_tried() -> None:
    learner, one = Learner({"T4": 1}), replace(train("one"), roles=job("one", 1).roles)
    tiny = replace(node_set(device_type="T4"), device_memory=10**9)
    learner.foresee(one, Foreteller(cluster(1, tiny)).of(RESNET))
    assert learner.outlook(one, None, 0.0).speed.rate("T4", 1) > 0.0
