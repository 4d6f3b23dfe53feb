"""Jobs in containers, with bubblewrap and a root folder."""

import shutil
from pathlib import Path

import pytest

from muster.client import ClientError
from tests.live.daemons import Daemon, until
from tests.live.root_folder import make_root

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image."""
    return make_root(tmp_path_factory.mktemp("image"))


def test_a_job_sees_its_image_and_its_own_folders_and_nothing_else(daemon: Daemon, root: Path) -> None:
    line = (
        "cat /etc/os-release; echo $COLOUR $MUSTER_TASK; pwd; ls /usr/bin/env /home; "
        "echo kept > result; touch $MUSTER_CHECKPOINT.there /etc/x; echo $?; exit 7"
    )
    job = daemon.sh(line, name="inside", container=str(root), env={"COLOUR": "blue"})
    record = job.wait()
    folder = daemon.work("inside")
    said = [text.partition(" | ")[2] or text for text in daemon.client.logs("inside", "worker-0")]
    assert said[:4] == ["ID=small", "blue worker-0", str(folder), "/usr/bin/env"]
    assert (folder / "result").read_text(encoding="utf-8") == "kept\n"
    assert "Read-only file system" in "\n".join(said)
    assert (record.status, record.exit_code) == ("failed", 7)


def test_signals_reach_a_job_in_a_container_and_a_visitor_gets_in(daemon: Daemon, root: Path) -> None:
    line = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    job = daemon.sh(line, name="inside", container={"image": str(root), "engine": "bwrap"})
    until(lambda: "ready" in "".join(daemon.client.logs("inside")), "it runs")
    done = daemon.client.exec(job.number, ["sh", "-c", "cat /etc/os-release; pwd"])
    assert done.output.decode().splitlines() == ["ID=small", str(daemon.work("inside"))]
    job.stop()
    assert job.wait().status == "cancelled"
    assert "saved" in "".join(daemon.client.logs("inside"))


def test_an_engine_that_no_node_has_is_refused_at_submission(daemon: Daemon, root: Path) -> None:
    if shutil.which("enroot") is None:
        with pytest.raises(ClientError, match="no node has enroot"):
            daemon.sh("true", name="inside", container={"image": "torch.sqsh", "engine": "enroot"})
    job = daemon.sh("true", name="inside", container=str(root / "etc/os-release"))
    assert "is not a folder on node" in str(job.wait().error)
