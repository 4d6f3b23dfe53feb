"""Command lines of container engines, as their documentation has them."""

import resource
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from muster.core.cycle.options import options
from muster.daemon.service.submitting.container_reach import container_problem
from muster.executors import containers
from muster.executors.containers import ContainerError, container_command, engines_here
from muster.model.job import AUTO, Container, Program, Role
from muster.model.offer import NodeOffer
from muster.model.task import TaskId, TaskOrder
from tests.builders import job, mixed, node_set

ENVIRON = {
    "PATH": "/usr/bin",
    "NVIDIA_VISIBLE_DEVICES": "2,3",
    "RANK": "0",
    "MUSTER_CHECKPOINT": "/data/jobs/7-train/checkpoint",
}


def order(image: str, engine: str = AUTO, **environ: str) -> TaskOrder:
    """A task in a container."""
    return TaskOrder(
        TaskId(7, 1, Role.WORKER, 0),
        "n0",
        (2, 3),
        ("python", "train.py"),
        {**ENVIRON, **environ},
        "/home/ada/train",
        "7-train/1/worker-0.log",
        private="/data/jobs/7-train",
        container=Container(image, engine),
    )


@pytest.fixture(autouse=True)
def every_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has all of them."""
    monkeypatch.setattr(containers, "engines_here", lambda: ("apptainer", "enroot", "podman", "bwrap"))


def test_apptainer_gets_devices_folders_and_where_to_begin() -> None:
    assert container_command(order("docker://pytorch/pytorch")) == [
        *("apptainer", "exec", "--nv", "--bind", "/data/jobs/7-train", "--bind", "/home/ada/train"),
        *("--pwd", "/home/ada/train", "docker://pytorch/pytorch"),
    ]
    assert "--nv" not in container_command(order("/images/a.sif", NVIDIA_VISIBLE_DEVICES=""))


def test_enroot_gets_each_variable_by_name_and_begins_by_a_shell() -> None:
    words = container_command(order("torch.sqsh"))
    assert words[:6] == [
        *("enroot", "start", "--mount", "/data/jobs/7-train:/data/jobs/7-train"),
        *("--mount", "/home/ada/train:/home/ada/train"),
    ]
    assert ("--env", "NVIDIA_VISIBLE_DEVICES") in pairwise(words)
    assert "PATH" not in words, "the image has its own"
    assert words[-5:] == ["torch.sqsh", "/bin/sh", "-c", 'cd "$0" && exec "$@"', "/home/ada/train"]


def test_podman_gets_devices_by_number_and_the_nodes_network() -> None:
    words = container_command(order("pytorch/pytorch", "podman"))
    pairs = list(pairwise(words))
    assert words[:3] == ["podman", "run", "--rm"]
    assert ("--device", "nvidia.com/gpu=2") in pairs
    assert ("--device", "nvidia.com/gpu=3") in pairs
    assert {"--network=host", "--ipc=host", "--userns=keep-id", "--cgroups=disabled"} <= set(words)
    assert ("--volume", "/home/ada/train:/home/ada/train") in pairs
    assert ("--workdir", "/home/ada/train") in pairs
    assert words[-1] == "pytorch/pytorch"


def test_podman_runs_a_folder_without_writing_to_it_and_within_the_tasks_limits() -> None:
    words = container_command(order("/images/root", "podman"))
    assert words[-2:] == ["--rootfs", "/images/root:O"]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert f"--ulimit=nofile={files[0]}:{files[1]}" in words


def test_podman_gets_a_terminal_only_where_there_is_one() -> None:
    assert "--tty" not in container_command(order("a", "podman"))
    on_terminal = container_command(order("a", "podman"), terminal=True)
    assert {"--tty", "--detach-keys="} <= set(on_terminal)
    for engine in ("apptainer", "enroot"):
        assert container_command(order("a", engine), terminal=True) == container_command(
            order("a", engine)
        )


def test_apptainer_of_a_root_with_fewer_capabilities_uses_a_user_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for whole in (True, False):
        monkeypatch.setattr(containers, "_has_all_capabilities", lambda whole=whole: whole)
        assert ("--userns" in container_command(order("/a.sif"), root=True)) is not whole
        assert "--userns" not in container_command(order("/a.sif"))


def test_podman_of_root_keeps_no_user() -> None:
    """It refuses to: `keep-id is only supported in rootless mode`."""
    words = container_command(order("pytorch/pytorch", "podman"), root=True)
    assert "--userns=host" in words
    assert "--userns=keep-id" not in words


def test_bwrap_shows_the_image_around_the_jobs_folders(tmp_path: Path) -> None:
    for place in ("usr/bin", "home/others", "data/sets"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    text = " ".join(container_command(order(str(tmp_path))))
    assert "--symlink usr/bin /bin" in text
    assert f"--ro-bind {tmp_path}/usr /usr" in text
    assert f"--dir /home --ro-bind {tmp_path}/home/others /home/others" in text
    assert "--bind /home/ada/train /home/ada/train" in text
    assert text.endswith("--die-with-parent --chdir /home/ada/train")


def test_a_checkpoint_folder_elsewhere_is_there_inside(tmp_path: Path) -> None:
    there = container_command(order("/a.sif", MUSTER_CHECKPOINT=str(tmp_path)))
    assert str(tmp_path) in there
    remote = container_command(order("/a.sif", MUSTER_CHECKPOINT="s3://bucket/a"))
    assert not any("s3" in word for word in remote)


def test_without_a_container_nothing_is_put_before_the_command() -> None:
    plain = order("a")
    assert container_command(TaskOrder(*(getattr(plain, n) for n in plain.__slots__[:7]))) == []


def test_a_node_without_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "engines_here", lambda: ("bwrap",))
    with pytest.raises(ContainerError, match="node n0 has no apptainer or podman to run docker://a"):
        container_command(order("docker://a"))


@pytest.mark.parametrize(
    ("image", "engines"),
    [
        ("/images/a.sif", ("apptainer",)),
        ("a.sqsh", ("enroot", "apptainer")),
        ("/images/root", ("bwrap", "apptainer", "podman")),
        ("docker://a/b", ("apptainer", "podman")),
        ("a/b:latest", ("podman", "enroot")),
    ],
)
def test_the_kind_of_image_says_what_can_run_it(image: str, engines: tuple[str, ...]) -> None:
    assert Container(image).engines == engines
    assert Container(image, "podman").engines == ("podman",)


def test_engines_are_found_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "podman").touch(0o755)
    assert engines_here(str(tmp_path)) == ("podman",)


def test_jobs_go_to_nodes_that_have_their_engine() -> None:
    bare, able = node_set("bare"), node_set("able")
    there = mixed((1, bare), (2, able))
    has = {"n0": (), "n1": ("bwrap",), "n2": ("bwrap", "podman")}
    nodes = tuple(
        replace(node, offer=NodeOffer(node.name, 1, 1, containers=has[node.name]))
        for node in there.nodes
    )
    there = replace(there, nodes=nodes)
    inside = job("a", program=Program(container=Container("/images/root")))
    assert options(inside, there) == (("able",),)
    assert options(job("b"), there) == (("bare", "able"),)
    assert container_problem(inside, there) == ""
    other = job("c", program=Program(container=Container("a.sqsh")))
    assert container_problem(other, there) == (
        "container: no node has enroot or apptainer to run a.sqsh (nodes have bwrap, podman); "
        "install it, or name another"
    )
