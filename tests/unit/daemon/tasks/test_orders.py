"""From a gang's task to the order that an executor gets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.daemon.gang.state import GangState
from muster.daemon.tasks.orders import Orders, Surroundings, log_name
from muster.model.job import Job, Origin, Program, Role
from muster.model.task import TaskId, TaskOrdered
from muster.model.view import JobState
from tests.builders import job, placement, running

PLACED = placement(("n0", 0b0110), ("n1", 0b0001))
HOSTS = {"n0": "127.0.0.1", "n1": "10.0.0.2"}


def around(**fields: object) -> Surroundings:
    made = Surroundings(Path("/jobs"), "127.0.0.1:20001", "secret", HOSTS)
    return replace(made, **fields)  # type: ignore[arg-type]


def gang_of(asked: Job) -> tuple[JobState, GangState]:
    """A job with both of its tasks ordered."""
    state = running(asked, PLACED)
    tasks = tuple(
        TaskOrdered(asked.number, TaskId(asked.number, 1, slot.role, slot.index), slot, 0.0)
        for slot in PLACED.slots
    )
    return state, GangState(tasks=tasks, failures=1, losses=1)


def asked(**fields: Any) -> Job:
    return job("train", 2, number=7, command=("python", "train.py"), **fields)


def test_an_order_names_node_devices_command_log_and_folder() -> None:
    state, gang = gang_of(asked())
    order = Orders(around()).make(state, gang, gang.tasks[0].task)
    assert order is not None
    assert (order.node, order.devices) == ("n0", (1, 2))
    assert order.argv == ("python", "train.py")
    assert order.folder == "/jobs/7-train/work"
    assert order.log == "7-train/1/worker-0.log" == log_name(state.job, order.id)
    assert order.environ["MUSTER_TASK"] == "worker-0"
    assert order.environ["MUSTER_CHECKPOINT"] == "/jobs/7-train/checkpoint"
    assert order.environ["MUSTER_COORDINATOR"] == "127.0.0.1:20001"
    assert order.environ["TORCHELASTIC_RESTART_COUNT"] == "2"


def test_a_shell_line_a_folder_and_variables_are_the_users() -> None:
    program = Program(shell=True, folder="/home/ann", environ=(("SEED", "1"),))
    state, gang = gang_of(replace(asked(program=program), command=("echo $SEED | tee out",)))
    order = Orders(around()).make(state, gang, gang.tasks[1].task)
    assert order is not None
    assert order.argv == ("/bin/sh", "-c", "echo $SEED | tee out")
    assert (order.folder, order.environ["SEED"]) == ("/home/ann", "1")
    assert not order.own_folder, "it is the user's, and not made where it is missing"


def test_the_submitters_variables_stand_between_the_daemons_and_the_jobs() -> None:
    origin = Origin((("PATH", "/venv/bin"), ("VIRTUAL_ENV", "/venv"), ("RANK", "7"), ("TZ", "UTC")))
    program = Program(environ=(("TZ", "CET"), ("PYTHONUNBUFFERED", "")), origin=origin)
    state, gang = gang_of(asked(program=program))
    order = Orders(around()).make(state, gang, gang.tasks[1].task)
    assert order is not None
    assert (order.environ["PATH"], order.environ["VIRTUAL_ENV"]) == ("/venv/bin", "/venv")
    assert (order.environ["TZ"], order.environ["PYTHONUNBUFFERED"]) == ("CET", "")
    assert order.environ["RANK"] == "1", "what Muster sets is no matter of where it was submitted"


def test_a_task_that_has_ended_meanwhile_is_not_ordered() -> None:
    state, gang = gang_of(asked())
    gone = gang.tasks[0].task
    assert Orders(around()).make(state, replace(gang, tasks=gang.tasks[1:]), gone) is None
    assert Orders(around()).make(state, gang, TaskId(7, 1, Role.WORKER, 0, attempt=1)) is None


def test_workers_of_a_generation_meet_at_one_port() -> None:
    state, gang = gang_of(asked())
    orders = Orders(around())
    made = [orders.make(state, gang, each.task) for each in gang.tasks]
    assert len({order.environ["MASTER_PORT"] for order in made if order is not None}) == 1


def test_tasks_on_virtual_devices_get_threads_and_no_gpu() -> None:
    state, gang = gang_of(asked())
    orders = Orders(around(virtual=frozenset({"n1"}), threads=2))
    real, virtual = (orders.make(state, gang, each.task) for each in gang.tasks)
    assert real is not None
    assert virtual is not None
    assert (real.environ["MUSTER_THREADS"], real.environ["MUSTER_DEVICE"]) == ("0", "cuda:0")
    assert (virtual.environ["MUSTER_THREADS"], virtual.environ["MUSTER_DEVICE"]) == ("2", "cpu")


def test_a_token_survives_a_restart_and_is_of_one_job() -> None:
    first = asked()
    assert around().token(first) == around().token(first)
    assert around().token(first) != around().token(replace(first, number=8))
    assert around().token(first) != around(secret="another").token(first)
