"""Jobs in containers: a root folder, run by each engine that works on this machine.

Podman needs one version of cgroups: where both are mounted, give the tests a view with version 2 alone,
`unshare -m sh -c 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; pytest …'`.
"""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from muster.client import ClientError
from muster.executors.containers import engines_here
from tests.live.daemons import MUSTER, Daemon, environment, until
from tests.live.person import Person
from tests.live.root_folder import make_root

ENGINES = ("bwrap", "apptainer", "podman")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image."""
    return make_root(tmp_path_factory.mktemp("image"))


@cache
def problem(engine: str, root: Path) -> str:
    """Why an engine runs nothing here, by the least that it can be asked; empty: it does."""
    if engine not in engines_here():
        return f"{engine} is not installed"
    own = ("--network=host", "--cgroups=disabled", "--ulimit=nofile=64:64", "--ulimit=nproc=64:64")
    probes = {
        "bwrap": ("--ro-bind", "/", "/"),
        "apptainer": ("exec", "--userns", str(root)),
        "podman": ("run", "--rm", *own, "--rootfs", f"{root}:O"),
    }
    probe = [engine, *probes[engine], "pwd"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"{engine} does not work here: {done.stderr.strip()[-200:]}" if done.returncode else ""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, root: Path) -> str:
    """Each engine that works here."""
    name = str(request.param)
    if why := problem(name, root):
        pytest.skip(why)
    return name


def said(daemon: Daemon, job: str) -> list[str]:
    """What a job has printed; without what the engine says about the image."""
    lines = (text.partition(" | ")[2] or text for text in daemon.client.logs(job, "worker-0"))
    return [line for line in lines if "WARNING" not in line]


def test_a_job_sees_its_image_and_its_own_folders(daemon: Daemon, root: Path, engine: str) -> None:
    line = (
        "cat /etc/os-release; echo $COLOUR $MUSTER_TASK; pwd; ls /usr/bin/env; "
        "echo kept > result; touch $MUSTER_CHECKPOINT.there /etc/x; exit 7"
    )
    image = {"image": str(root), "engine": engine}
    record = daemon.sh(line, name="inside", container=image, env={"COLOUR": "blue"}).wait()
    folder = daemon.work("inside")
    assert said(daemon, "inside")[:4] == ["ID=small", "blue worker-0", str(folder), "/usr/bin/env"]
    assert (folder / "result").read_text(encoding="utf-8") == "kept\n"
    assert not (root / "etc/x").exists(), "the image stays as it is"
    assert (record.status, record.exit_code) == ("failed", 7)


def test_signals_reach_a_job_in_a_container_and_a_visitor_gets_in(
    daemon: Daemon, root: Path, engine: str
) -> None:
    line = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    job = daemon.sh(line, name="inside", container={"image": str(root), "engine": engine})
    until(lambda: "ready" in "".join(daemon.client.logs("inside")), "it runs")
    done = daemon.client.exec(job.number, ["sh", "-c", "cat /etc/os-release -; pwd"], given=b"typed\n")
    lines = done.output.decode().splitlines()
    assert lines == ["ID=small", "typed", str(daemon.work("inside"))]
    job.stop()
    assert job.wait().status == "cancelled"
    assert said(daemon, "inside").count("saved") == 1


@pytest.mark.slow
def test_a_terminal_in_a_container_has_its_size_and_every_key(
    daemon: Daemon, root: Path, engine: str
) -> None:
    """The session itself, and a shell beside it."""
    around = {**environment(daemon.home), "PS1": "$ "}
    image = f"{{image: {root}, engine: {engine}}}"
    session = [*MUSTER, "run", "-i", "--name", "shell", "--container", image, "--", "sh"]
    with Person(session, around, 31, 91) as person:
        person.see("attached")
        person.type("stty size; cat /etc/os-release\r")
        person.see("31 91")
        person.see("ID=small")
        with Person([*MUSTER, "exec", "shell", "sh"], around, 23, 79) as beside:
            # Ctrl-C is for what reads: between two commands it would be the shell's.
            beside.type("stty size; sh -c 'echo re''ads; exec cat'\r")
            beside.see("23 79")
            beside.see("reads")
            beside.type("\x10")  # not the engine's
            beside.see("^P")
            beside.type("\x03")
            # And a prompt: until its shell reads again, a terminal may drop what is typed.
            beside.see("^C\n")
            beside.type("exit 5\r")
            assert beside.code() == 5
        person.type("exit 6\r")
        assert person.code() == 6


def test_a_job_that_is_killed_leaves_nothing_behind(daemon: Daemon, root: Path, engine: str) -> None:
    """It ignores SIGTERM, and so does its child."""
    line = "trap '' TERM; echo ready; sleep 4321 & while :; do sleep 0.05; done"
    job = daemon.sh(line, name="stubborn", container={"image": str(root), "engine": engine})
    until(lambda: "ready" in "".join(daemon.client.logs("stubborn")), "it runs")
    job.stop(force=True)
    assert job.wait().status == "cancelled"
    until(lambda: not programs("sleep", "4321"), "its processes are gone")
    if engine == "podman":
        until(lambda: "sleep 4321" not in listed(), "podman has forgotten it")


def listed() -> str:
    """All containers that podman knows."""
    words = ["podman", "ps", "--all", "--format", "{{.Names}} {{.Image}} {{.Command}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def programs(*words: str) -> list[Path]:
    """Processes that run this command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:-1] == [
                word.encode() for word in words
            ]:
                found.append(entry)
    return found


@pytest.fixture
def image(root: Path) -> Iterator[str]:
    """One that podman knows by name."""
    if why := problem("podman", root):
        pytest.skip(why)
    name = "localhost/muster-small"
    pack = subprocess.run(["tar", "-C", str(root), "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["podman", "import", "-", name], input=pack, capture_output=True, check=True)
    yield name
    subprocess.run(["podman", "rmi", "--force", name], capture_output=True, check=True)


def test_an_image_is_called_by_the_name_that_podman_has_for_it(daemon: Daemon, image: str) -> None:
    record = daemon.sh("cat /etc/os-release", name="named", container=image).wait()
    assert (record.status, said(daemon, "named")) == ("succeeded", ["ID=small"])


def test_an_engine_that_no_node_has_is_refused_at_submission(daemon: Daemon) -> None:
    if "enroot" in engines_here():
        pytest.skip("enroot is installed")
    with pytest.raises(ClientError, match="no node has enroot"):
        daemon.sh("true", name="inside", container={"image": "torch.sqsh", "engine": "enroot"})


def test_bubblewrap_shows_nothing_else_and_wants_a_folder(daemon: Daemon, root: Path) -> None:
    if why := problem("bwrap", root):
        pytest.skip(why)
    image = {"image": str(root), "engine": "bwrap"}
    daemon.sh("ls /home; touch /etc/x", name="inside", container=image).wait()
    assert said(daemon, "inside") == ["touch: cannot touch '/etc/x': Read-only file system"]
    image = {"image": str(root / "etc/os-release"), "engine": "bwrap"}
    job = daemon.sh("true", name="inside", container=image)
    assert "is not a folder on node" in str(job.wait().error)
