"""From a gang's task to the order that an executor gets."""

import contextlib
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.daemon.gang.state import GangState
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.daemon.tasks.node_place import NodePlace, place_of
from muster.daemon.tasks.orders import Orders, Surroundings, log_name
from muster.daemon.tasks.ports import PortRows
from muster.executors import environment
from muster.executors.accounts import Submitters
from muster.model.job import Job, Need, Origin, Program, Role, RoleSpec
from muster.model.offer import NodeOffer
from muster.model.task import TaskExited, TaskId, TaskOrdered
from muster.model.view import JobState
from tests.builders import cluster, job, placement, running

PLACED = placement(("n0", 0b0110), ("n1", 0b0001))
PLACES = {"n0": NodePlace("127.0.0.1"), "n1": NodePlace("10.0.0.2", interface="eth1", here=False)}


def around(**fields: object) -> Surroundings:
    made = Surroundings(Path("/jobs"), "127.0.0.1:20001", JobSecrets("secret"), PLACES.__getitem__)
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
    assert order.environ["MUSTER_USER"] == state.job.user
    assert "MUSTER_RESUME_FROM" not in order.environ
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


def test_a_job_that_resumes_from_another_is_told_where(tmp_path: Path) -> None:
    state, gang = gang_of(asked(program=Program(resume_from="/jobs/3-train/checkpoint")))
    order = Orders(around()).make(state, gang, gang.tasks[0].task)
    assert order is not None
    assert order.environ["MUSTER_RESUME_FROM"] == "/jobs/3-train/checkpoint"


def test_a_job_of_another_user_has_its_folder_and_login_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/root")
    monkeypatch.setenv("TMPDIR", "/root/tmp")
    somebody = next(entry for entry in pwd.getpwall() if entry.pw_uid)
    separate = around(submitters=Submitters("root", separate=True))
    state, gang = gang_of(replace(asked(), user=somebody.pw_name))
    order = Orders(separate).make(state, gang, gang.tasks[0].task)
    assert order is not None
    assert order.user == somebody.pw_name
    assert Path(order.folder).is_relative_to(somebody.pw_dir)
    assert order.folder == f"{order.private}/work"
    assert not {"HOME", "TMPDIR", "USER"} & set(order.environ)  # the executor knows them
    other = around(submitters=Submitters("root", separate=True), secrets=JobSecrets("another"))
    assert other.folder_of(state.job) != separate.folder_of(state.job)


def test_the_daemons_own_jobs_and_all_where_users_are_not_separated_stay_with_it() -> None:
    for submitters in (Submitters("root", separate=True), Submitters("root", separate=False)):
        state, gang = gang_of(replace(asked(), user="root"))
        order = Orders(around(submitters=submitters)).make(state, gang, gang.tasks[0].task)
        assert order is not None
        assert (order.user, order.folder) == ("", "/jobs/7-train/work")


def test_only_what_the_user_stated_is_a_limit() -> None:
    """A slot's need may be the planner's estimate, which is no reason to kill anybody."""
    state, gang = gang_of(asked())
    stated = replace(state.job.workers, need=Need(1, 1_500, 2_000_000_000))
    for need, roles in ((Need(1, 1_500, 2_000_000_000), (stated,)), (Need(1), (bare(state.job),))):
        named = replace(state, job=replace(state.job, roles=roles))
        order = Orders(around()).make(named, gang, gang.tasks[0].task)
        assert order is not None
        assert (order.memory, order.millicores) == (need.memory, need.millicores)


def bare(job: Job) -> RoleSpec:
    """Workers of which nothing but devices is stated."""
    return replace(job.workers, need=Need(1))


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


def port_of(orders: Orders, asked: Job, task: int = 0) -> int:
    state, gang = gang_of(asked)
    order = orders.make(state, gang, gang.tasks[task].task)
    assert order is not None
    return int(order.environ["MASTER_PORT"])


def test_a_restarted_daemon_gives_the_rest_of_a_gang_the_port_of_the_first(tmp_path: Path) -> None:
    """Killed between the orders of two workers, it would otherwise have them wait at two ports."""
    before = Orders(around(), PortRows(tmp_path / "ports"))
    first = port_of(before, asked(), task=0)
    after = Orders(around(), PortRows(tmp_path / "ports", {7}))
    assert port_of(after, asked(), task=1) == first


def test_rows_of_jobs_that_are_over_are_not_kept(tmp_path: Path) -> None:
    orders = Orders(around(), PortRows(tmp_path))
    port_of(orders, asked())
    port_of(orders, replace(asked(), number=8))
    orders.forget(8)
    assert [path.name for path in tmp_path.iterdir()] == ["7"]
    PortRows(tmp_path, ())
    assert not list(tmp_path.iterdir())


def test_two_jobs_never_get_the_same_ports_before_they_are_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often chance proposes them."""
    proposed = [20_000, 20_001, 20_002, 20_500]
    monkeypatch.setattr(environment, "_drawn", lambda starts: iter(proposed))
    monkeypatch.setattr(environment, "_bound", lambda host, port: contextlib.nullcontext())
    orders = Orders(around())
    ports = [port_of(orders, replace(asked(), number=number)) for number in (1, 2)]
    assert ports == [20_000, 20_500]  # each has three


def test_the_master_binds_its_port_and_gets_another_after_a_stranger_took_it() -> None:
    orders = Orders(around())
    state, gang = gang_of(asked())
    master, other = (orders.make(state, gang, each.task) for each in gang.tasks)
    assert master is not None
    assert other is not None
    assert (master.ports, other.ports) == ((int(master.environ["MASTER_PORT"]),), ())
    orders.note_exit(TaskExited(master.id, 1.0, code=1))
    assert port_of(orders, asked()) == master.ports[0], "a failure of its own"
    orders.note_exit(TaskExited(master.id, 1.0, port=master.ports[0]))
    assert port_of(orders, asked()) != master.ports[0]


def test_ports_of_another_machine_are_of_its_range_and_of_one_job() -> None:
    far = NodePlace("10.0.0.9", ports=range(30_000, 30_100), here=False)
    orders = Orders(around(places=lambda node: far))
    ports = [port_of(orders, replace(asked(), number=number)) for number in (1, 2)]
    assert all(30_000 <= port <= 30_097 for port in ports)
    assert abs(ports[0] - ports[1]) >= 3  # each has three


def test_a_task_is_told_the_interface_of_its_address() -> None:
    state, gang = gang_of(asked())
    own, other = (Orders(around()).make(state, gang, each.task) for each in gang.tasks)
    assert own is not None
    assert other is not None
    assert "GLOO_SOCKET_IFNAME" not in own.environ
    assert other.environ["GLOO_SOCKET_IFNAME"] == other.environ["NCCL_SOCKET_IFNAME"] == "eth1"
    assert (own.environ["MUSTER_HOST"], other.environ["MUSTER_HOST"]) == ("127.0.0.1", "10.0.0.2")


def test_a_node_is_where_its_agent_says() -> None:
    offer = NodeOffer("n0", 1000, 2**30, address="10.0.0.7", interface="eth1", ports=(30_000, 30_009))
    there = cluster(2)
    there = replace(there, nodes=(replace(there.nodes[0], offer=offer), there.nodes[1]))
    found = place_of(there, "n0", "127.0.0.1")
    assert (found.host, found.interface, found.here) == ("10.0.0.7", "eth1", False)
    assert found.ports == range(30_000, 30_010)
    assert place_of(there, "n1", "127.0.0.1") == NodePlace("127.0.0.1", found.virtual)


def test_tasks_on_virtual_devices_get_threads_and_no_gpu() -> None:
    state, gang = gang_of(asked())
    orders = Orders(around(places=lambda node: NodePlace("127.0.0.1", virtual=node == "n1"), threads=2))
    real, virtual = (orders.make(state, gang, each.task) for each in gang.tasks)
    assert real is not None
    assert virtual is not None
    assert (real.environ["MUSTER_THREADS"], real.environ["MUSTER_DEVICE"]) == ("0", "cuda:0")
    assert (virtual.environ["MUSTER_THREADS"], virtual.environ["MUSTER_DEVICE"]) == ("2", "cpu")


def test_the_orders_of_a_large_gang_look_at_its_tasks_once() -> None:
    """512 orders would otherwise look at 512 tasks each."""
    places = placement(*((f"n{number}", 0b1) for number in range(64)))
    large = replace(asked(), roles=job("large", 64).roles)
    tasks = tuple(
        TaskOrdered(7, TaskId(7, 1, slot.role, slot.index), slot, 0.0) for slot in places.slots
    )
    looked: list[str] = []

    def place(node: str) -> NodePlace:
        looked.append(node)
        return NodePlace(f"10.0.0.{node[1:]}", here=False)

    orders, gang = Orders(around(places=place)), GangState(tasks=tasks)
    state = running(large, places)
    made = [orders.make(state, gang, each.task) for each in tasks]
    assert len({order.environ["RANK"] for order in made if order}) == 64
    assert len({order.environ["MASTER_PORT"] for order in made if order}) == 1
    assert len(looked) == 2 * 64


def test_a_gang_that_has_changed_is_looked_at_again() -> None:
    orders = Orders(around())
    state, gang = gang_of(asked())
    first = orders.make(state, gang, gang.tasks[0].task)
    alone = replace(gang, tasks=gang.tasks[:1])
    second = orders.make(state, alone, gang.tasks[0].task)
    assert first is not None and second is not None
    assert (first.environ["WORLD_SIZE"], second.environ["WORLD_SIZE"]) == ("2", "1")
