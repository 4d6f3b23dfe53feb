"""What trainings show of themselves, for the planner: their models, their computing and their steps."""

from typing import Any

import pytest

from muster.daemon.learn import Beliefs
from muster.daemon.learn.captured import profile_of
from muster.daemon.learn.transfers import spots_of
from muster.model.job import Job
from muster.model.plan import ChosenPlan, Sync
from muster.model.profile import CapturedShape
from muster.model.view import View
from muster.perf.learnt.held import Held
from muster.perf.predict import Knowledge
from muster.wire.tasks.messages import Captured, Changed, StepDone
from tests.builders import cluster, job, node_set, placement, running, view

TYPE = "cpu"
SHAPE: dict[str, Any] = {
    "parameters": [
        {"name": "head", "count": 100, "bytes": 400, "type": "float32", "ready": 0.25},
        {"name": "body", "count": 900, "bytes": 3600, "type": "float32", "ready": 1.0},
        {"name": "frozen", "count": 9, "bytes": 36, "type": "float32", "ready": 0.0},
    ],
    "layers": [["Linear", 2]],
    "kinds": [["dense", 1.0]],
    "operations": 2000.0,
    "activations": 64,
    "samples": 1000,
    "sample_bytes": 40,
    "how": "meta",
    "why": "",
    "micro_batch": 0,
}
CLUSTER = cluster(2, node_set(device_type=TYPE))
PLACED = placement(("n0", 1), ("n1", 1))


def train(name: str = "a", number: int = 1, **fields: Any) -> Job:
    return job(name, 2, command=("python", "train.py"), number=number, **fields)


def seen(*jobs: Job, plan: ChosenPlan | None = None) -> View:
    return view(CLUSTER, [running(jobs[0], PLACED, plan=plan), *jobs[1:]])


def told(beliefs: Beliefs, *jobs: Job, now: float = 100.0) -> dict[int, CapturedShape]:
    return dict(beliefs.inform(seen(*jobs), now).shapes)


def knowledge(beliefs: Beliefs, now: float, plan: ChosenPlan | None = None) -> Knowledge:
    found = beliefs.inform(seen(train(), plan=plan), now).knowledge
    assert isinstance(found, Knowledge)
    return found


def captured(shape: dict[str, Any] | None = None) -> Captured:
    return Captured("worker-0", SHAPE if shape is None else shape, 500, 64)


def run(beliefs: Beliefs, way: str, formation: int, seconds: float, one: Job | None = None) -> None:
    """A job of two workers does enough steps of this length."""
    one = one or train()
    nodes = {"worker-0": "n0", "worker-1": "n1"}
    beliefs.holds(one, Held(TYPE, (1, 1)), 1.0, spots_of(CLUSTER, nodes))
    members = tuple(nodes)
    beliefs.hear(one, Changed("worker-0", formation, 0, members, 0.0, "plan", (), "", way), 1.0)
    for step in range(40 * formation, 40 * formation + 30):
        for task in members:
            times = (0.1, 0.2, seconds - 0.3, seconds)
            done = StepDone(task, formation, step, 0, 32, 1.0, *times, seconds=seconds)
            beliefs.hear(one, done, 1.0 + step * seconds)


@pytest.fixture
def beliefs() -> Beliefs:
    return Beliefs(CLUSTER.node_devices(), CLUSTER)


def test_a_captured_model_is_what_the_planner_needs(beliefs: Beliefs) -> None:
    assert told(beliefs, train()) == {}
    beliefs.hear(train(), captured(), 0.0)
    shape = told(beliefs, train())[1]
    assert shape.batch == 64
    assert [(t.name, t.bytes, t.ready) for t in shape.profile.tensors] == [
        ("head", 400, 0.25),
        ("body", 3600, 1.0),
    ]
    assert (shape.profile.operations, shape.profile.activations) == (2000.0, 64)
    assert shape.profile.parameter_bytes == 4


def test_a_like_job_is_known_before_it_starts_and_another_users_is_not(beliefs: Beliefs) -> None:
    beliefs.hear(train(), captured(), 0.0)
    found = told(beliefs, train(), train("b", 2), train("c", 3, user="mallory"))
    assert set(found) == {1, 2}
    assert found[2].profile is found[1].profile


def test_a_restarted_daemon_knows_the_models(beliefs: Beliefs) -> None:
    beliefs.hear(train(), captured(), 0.0)
    run(beliefs, "ring", 1, 0.5)
    later = Beliefs(CLUSTER.node_devices(), CLUSTER)
    later.restore(beliefs.observations())
    assert told(later, train("b", 2)) == told(beliefs, train("b", 2))


@pytest.mark.parametrize(
    "lie",
    [
        {},
        {**SHAPE, "parameters": []},
        {**SHAPE, "parameters": "many"},
        {**SHAPE, "operations": float("inf")},
        {**SHAPE, "operations": -1.0},
        {**SHAPE, "kinds": [["magic", 1.0]]},
        {**SHAPE, "in_parts": True},
    ],
)
def test_what_no_plan_can_be_made_from_is_ignored(beliefs: Beliefs, lie: dict[str, Any]) -> None:
    assert profile_of(lie, "x") is None
    beliefs.hear(train(), captured(lie), 0.0)
    assert told(beliefs, train()) == {}


def test_steps_are_measured_by_the_way_they_were_synchronised(beliefs: Beliefs) -> None:
    beliefs.hear(train(), captured(), 0.0)
    assert beliefs.has_news
    told(beliefs, train())
    assert not beliefs.has_news
    run(beliefs, "ring", 1, 0.5)
    assert beliefs.has_news, "a measured step calls for a cycle"
    run(beliefs, "sharded", 2, 0.4)
    assert told(beliefs, train())[1].measured == (
        ("ring", pytest.approx(0.5)),
        ("sharded", pytest.approx(0.4)),
    )
    assert beliefs.step_of(1, Sync.RING) == pytest.approx(0.5)


def test_other_tasks_void_what_was_measured(beliefs: Beliefs) -> None:
    beliefs.hear(train(), captured(), 0.0)
    run(beliefs, "ring", 1, 0.5)
    beliefs.holds(train(), Held(TYPE, (1,)), 90.0)
    assert told(beliefs, train())[1].measured == ()


def test_the_computing_of_devices_is_learnt_from_all_jobs(beliefs: Beliefs) -> None:
    beliefs.hear(train(), captured(), 0.0)
    run(beliefs, "ring", 1, 0.5)
    found = knowledge(beliefs, 50.0)
    (measured,) = found.compute.measured
    assert (measured.device_type, measured.batch) == (TYPE, 32)
    assert measured.seconds == pytest.approx(0.3)
    assert knowledge(beliefs, 70.0) is found, "nothing has changed"


def test_a_step_is_held_against_its_prediction(beliefs: Beliefs) -> None:
    beliefs.hear(train(), captured(), 0.0)
    plan = ChosenPlan(Sync.RING, 0.4, plain=0.4)
    knowledge(beliefs, 0.5, plan)
    run(beliefs, "ring", 1, 0.5)
    (step,) = knowledge(beliefs, 60.0, plan).steps.observed
    assert step.predicted == 0.4
    assert step.measured == pytest.approx(0.5)


def test_slow_computing_is_not_learnt_as_a_slow_way_to_synchronise(beliefs: Beliefs) -> None:
    """A virtual device sleeps: 0.3 s of computing where 1 ms was predicted, and little else.

    The next prediction knows that, and would count it twice."""
    beliefs.hear(train(), captured(), 0.0)
    plan = ChosenPlan(Sync.RING, 0.001, plain=0.001)
    knowledge(beliefs, 0.0, plan)
    run(beliefs, "ring", 1, 0.33)
    (step,) = knowledge(beliefs, 60.0, plan).steps.observed
    assert step.measured / step.predicted == pytest.approx(1.1)
