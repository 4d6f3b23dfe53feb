"""An application never seen has a curve before its first step: from its captured or named model."""

from dataclasses import replace
from typing import Any

import pytest

from muster.daemon.learn import Beliefs
from muster.files import shipped_profile
from muster.files.cluster.hardware import described
from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.model.offer import NodeOffer
from muster.model.outlook import Outlook
from muster.model.topology import Link
from muster.perf.learnt.held import Held
from muster.wire.tasks.messages import Captured, Changed, Message, StepDone
from tests.builders import cluster, job, node_set, view

TYPE = "V100"
FAST = cluster(4, node_set(device_type=TYPE))
SLOW = cluster(4, replace(node_set(device_type=TYPE), nic=Link(0.125e9, 5e-6)))
SHAPE: dict[str, Any] = {
    "parameters": [
        {
            "name": f"layer{i}",
            "count": 2_500_000,
            "bytes": 10_000_000,
            "type": "float32",
            "ready": i / 10,
        }
        for i in range(1, 11)
    ],
    "layers": [["Linear", 10]],
    "kinds": [["dense", 1.0]],
    "operations": 8e9,
    "activations": 50_000_000,
    "samples": 1_000_000,
    "sample_bytes": 600_000,
}
STEPS, BATCH = 1_000, 256


def train(number: int = 1, **fields: Any) -> Job:
    return job(f"j{number}", most=32, command=("python", "train.py"), number=number, **fields)


def told(beliefs: Beliefs, on: Cluster, one: Job) -> Outlook:
    return beliefs.outlooks(view(on, [one]), 1.0)[one.number]


def captured(on: Cluster) -> Beliefs:
    """Beliefs of a job that runs on one device and has said what it trains."""
    beliefs = Beliefs({TYPE: 8}, on)
    beliefs.holds(train(), Held(TYPE, (1,)), 0.0)
    hear(beliefs, Captured("worker-0", SHAPE, STEPS, BATCH))
    return beliefs


def hear(beliefs: Beliefs, message: Message, now: float = 0.0) -> None:
    beliefs.hear(train(), message, now)


def hear_steps(beliefs: Beliefs, one: Job, seconds: float) -> None:
    """Its only worker does 39 steps of this many s."""
    beliefs.hear(one, Changed("worker-0", 1, 0, ("worker-0",), 0.5, "start"), 0.0)
    for step in range(1, 40):
        times = (seconds / 2, seconds / 2, 0.0, 0.0, seconds)
        beliefs.hear(one, StepDone("worker-0", 1, step, 0, BATCH, 1.0, *times), step * seconds)


def gain(found: Outlook, workers: int) -> float:
    return found.speed.rate(TYPE, workers) / found.speed.rate(TYPE, 1)


def test_the_captured_model_foretells_the_curve_before_the_first_step() -> None:
    quick, stuck = (told(captured(on), on, train()) for on in (FAST, SLOW))
    assert gain(quick, 32) > gain(quick, 8) > 4
    assert gain(stuck, 32) < gain(quick, 32) / 2


def test_its_time_left_is_in_seconds_before_the_first_step() -> None:
    # Forward and backward passes of 256 samples, 8e9 operations each, at 15.7e12 operations/s at best.
    fastest = STEPS * BATCH * 3 * 8e9 / 15.7e12
    assert fastest < told(captured(FAST), FAST, train()).left < 4 * fastest


def test_the_next_job_of_the_script_has_it_before_it_starts() -> None:
    beliefs = captured(SLOW)
    found = [gain(told(beliefs, SLOW, train(number)), 32) for number in (1, 2)]
    assert found[0] == pytest.approx(found[1])


def test_a_model_named_in_the_job_file_foretells_it_before_anything_runs() -> None:
    one = train(model=shipped_profile("resnet50"), batch=BATCH)
    quick, stuck = (told(Beliefs({TYPE: 8}, on), on, one) for on in (FAST, SLOW))
    assert gain(quick, 32) > 2 * gain(stuck, 32)


def test_measured_steps_correct_it() -> None:
    beliefs = captured(FAST)
    before = told(beliefs, FAST, train())
    seconds = 10 * before.left / STEPS  # ten times as long as foretold
    hear_steps(beliefs, train(), seconds)
    left = told(beliefs, FAST, train()).left
    assert 0.9 < left / ((STEPS - 39) * seconds) < 1.1


def test_steps_of_unknown_length_are_as_long_as_the_users_duration_says() -> None:
    beliefs = Beliefs({"cpu": 4})  # nothing is known of this type: no model foretells a step on it
    one = train(duration=185.0)
    beliefs.holds(one, Held("cpu", (1,)), 0.0)
    beliefs.hear(one, Captured("worker-0", SHAPE, STEPS, BATCH), 0.0)
    boxes = cluster(1, node_set(device_type="cpu"))
    assert told(beliefs, boxes, one).left == pytest.approx(185.0)


CORES = described("box", NodeOffer("n0", 2_000, 256_000_000_000, devices=8, virtual=True))
"""A node of `muster up --devices 8`: what its devices compute is counted from the machine's cores."""


def on_cores(**fields: Any) -> tuple[Beliefs, Job]:
    """Beliefs of a job that runs on one of these devices and has said what it trains."""
    boxes = cluster(1, CORES)
    beliefs, one = Beliefs({"cpu": 8}, boxes), train(**fields)
    beliefs.holds(one, Held("cpu", (1,)), 0.0)
    beliefs.hear(one, Captured("worker-0", SHAPE, STEPS, BATCH), 0.0)
    return beliefs, one


def test_what_cores_might_compute_tells_nobody_when_a_training_ends() -> None:
    beliefs, one = on_cores()
    boxes = cluster(1, CORES)
    assert not told(beliefs, boxes, one).timed
    assert beliefs.finish(1, view(boxes, [one]), 1.0) is None
    hear_steps(beliefs, one, 2.0)
    assert told(beliefs, boxes, one).timed
    finish = beliefs.finish(1, view(boxes, [one]), 100.0)
    assert finish is not None and finish - 100.0 == pytest.approx((STEPS - 39) * 2.0, rel=0.1)


def test_what_cores_might_compute_tells_how_a_training_scales() -> None:
    beliefs, one = on_cores()
    found = told(beliefs, cluster(1, CORES), one).speed
    assert found.rate("cpu", 8) > 4 * found.rate("cpu", 1) > 0


def test_the_users_duration_is_believed_more_than_what_cores_might_compute() -> None:
    beliefs, one = on_cores(duration=185.0)
    found = told(beliefs, cluster(1, CORES), one)
    assert found.timed
    assert found.left == pytest.approx(185.0)


def test_a_data_sheet_tells_how_long_a_step_takes() -> None:
    assert told(captured(FAST), FAST, train()).timed


def test_steps_on_devices_of_unknown_rate_are_no_time() -> None:
    beliefs, one, boxes = Beliefs({"cpu": 4}), train(), cluster(1, node_set(device_type="cpu"))
    beliefs.holds(one, Held("cpu", (1,)), 0.0)
    beliefs.hear(one, Captured("worker-0", SHAPE, STEPS, BATCH), 0.0)
    assert not told(beliefs, boxes, one).timed


def test_a_job_that_reports_nothing_counts_seconds() -> None:
    one = train(duration=600.0)
    beliefs = Beliefs({"cpu": 4})
    beliefs.holds(one, Held("cpu", (1,)), 0.0)
    assert told(beliefs, cluster(1, CORES), one).timed
