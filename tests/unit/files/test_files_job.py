"""Job files that are right."""

from pathlib import Path

import pytest

from muster.files import load_job
from muster.model.job import Job, Locality, Need, Role, RoleSpec, StepProfile
from muster.model.topology import Level


def load(tmp_path: Path, text: str) -> Job:
    """The job of this text."""
    path = tmp_path / "resnet50.yaml"
    path.write_text(text)
    return load_job(path)


def test_the_command_alone_is_one_worker_with_one_device(tmp_path: Path) -> None:
    assert load(tmp_path, "command: python train.py --epochs 90\n") == Job(
        name="resnet50",
        command=("python", "train.py", "--epochs", "90"),
        roles=(RoleSpec(Role.WORKER, Need(devices=1), gang=1, least=1, most=1),),
        pause=1.0,
        resumes=False,
    )


def test_every_field(tmp_path: Path) -> None:
    text = """
name: bert
command: [python, train.py, --lr, 0.1]
user: ada
pool: vision
priority: -10
preemptible: false
devices: 2..8
any_of: [V100, P100]
same_generation: false
gang: 1
cores: 0.5
memory: 16GB
locality: {widest: rack, max_slowdown: 5%}
step: {compute: 250ms, gradients: 100MB}
duration: 2h
pause: 1m
"""
    assert load(tmp_path, text) == Job(
        name="bert",
        command=("python", "train.py", "--lr", "0.1"),
        user="ada",
        pool="vision",
        priority=-10,
        preemptible=False,
        roles=(RoleSpec(Role.WORKER, Need(1, 500, 16 * 10**9), gang=1, least=2, most=8),),
        device_types=("V100", "P100"),
        same_generation=False,
        locality=Locality(Level.RACK, 0.05),
        profile=StepProfile(0.25, 1e8),
        duration=7200.0,
        pause=60.0,
        resumes=False,
    )


@pytest.mark.parametrize(
    ("line", "starts_alike", "mixes"),
    [("", True, True), ("same_generation: true", True, False), ("same_generation: false", False, True)],
)
def test_whether_devices_must_be_of_one_generation(
    tmp_path: Path, line: str, starts_alike: bool, mixes: bool
) -> None:
    read = load(tmp_path, f"command: x\ndevices: 1..4\n{line}\n")
    assert (read.same_generation, read.mixes) == (starts_alike, mixes)


def test_roles(tmp_path: Path) -> None:
    text = """
command: a
roles:
  worker: {count: 2..8, gang: 2, devices: V100:2, cores: 4, memory: 16GB}
  server: {count: 1..2, cores: 2, memory: 8GB}
"""
    job = load(tmp_path, text)
    assert job.roles == (
        RoleSpec(Role.WORKER, Need(2, 4000, 16 * 10**9), gang=2, least=2, most=8),
        RoleSpec(Role.SERVER, Need(0, 2000, 8 * 10**9), gang=1, least=1, most=2),
    )
    assert job.device_types == ("V100",)


@pytest.mark.parametrize(
    ("devices", "gang", "least", "most", "types"),
    [
        ("4", 4, 4, 4, ()),
        ("1..8", 1, 1, 8, ()),
        ("V100:4", 4, 4, 4, ("V100",)),
        ("V100:1..8", 1, 1, 8, ("V100",)),
    ],
)
def test_devices(
    tmp_path: Path, devices: str, gang: int, least: int, most: int, types: tuple[str, ...]
) -> None:
    job = load(tmp_path, f"command: a\ndevices: {devices}\n")
    assert job.roles == (RoleSpec(Role.WORKER, Need(1), gang, least, most),)
    assert job.device_types == types


def test_a_job_on_cpus(tmp_path: Path) -> None:
    short = load(tmp_path, "command: a\ndevices: 0\ncores: 8\n")
    assert short.roles == (RoleSpec(Role.WORKER, Need(0, 8000), 1, 1, 1),)
    full = load(tmp_path, "command: a\nroles: {worker: {count: 3, devices: 0, memory: 1GB}}\n")
    assert full.roles == (RoleSpec(Role.WORKER, Need(0, 0, 10**9), 3, 3, 3),)


@pytest.mark.parametrize("level", [level for level in Level if level is not Level.DEVICE])
def test_locality_as_one_word(tmp_path: Path, level: Level) -> None:
    assert load(tmp_path, f"command: a\nlocality: {level.word}\n").locality == Locality(level)


def test_a_type_and_a_choice_that_agree(tmp_path: Path) -> None:
    assert load(tmp_path, "command: a\ndevices: V100:2\nany_of: [V100]\n").device_types == ("V100",)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python 'my file.py'", ("python", "my file.py")),
        (">\n  python\n  train.py", ("python", "train.py")),
        ("[sh, -c, 'a && b']", ("sh", "-c", "a && b")),
        ("[run, '']", ("run", "")),
    ],
)
def test_commands(tmp_path: Path, command: str, words: tuple[str, ...]) -> None:
    assert load(tmp_path, f"command: {command}\n").command == words
