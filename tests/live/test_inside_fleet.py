"""Ways into a job on another node: through the daemon and the node's agent."""

import os
from pathlib import Path

import httpx
import pytest

from muster.client import ClientError
from tests.live.daemons import MUSTER, environment, until
from tests.live.fleets import AgentNode, FleetDaemon
from tests.live.person import Person


@pytest.mark.slow
def test_commands_files_and_terminals_of_a_node_go_through_its_agent(tmp_path: Path) -> None:
    daemon = FleetDaemon(tmp_path / "fleet")
    node = AgentNode(daemon, "far", "127.0.0.1")
    try:
        daemon.start()
        node.start()
        job = daemon.sh("exec sleep 600", name="far-job")
        until(lambda: [t.status for t in daemon.detail("far-job").tasks] == ["running"], "it runs")
        given = os.urandom(1_000_000)
        done = daemon.client.exec(job.number, ["sh", "-c", "echo $MUSTER_NODE >&2; cat"], given=given)
        assert (done.code, done.errors, done.output == given) == (0, b"far\n", True)
        daemon.client.copy_to(job.number, Path(__file__), "copied")
        assert (daemon.work("far-job") / "copied").read_bytes() == Path(__file__).read_bytes()
        address = f"{daemon.url}/v1/jobs/{job.number}/files/content?path=copied"
        read = httpx.get(address, headers={"Authorization": f"Bearer {daemon.token}"}, timeout=60)
        assert read.content == Path(__file__).read_bytes()
        command = [*MUSTER, "run", "-i", "--name", "shell", "--", "sh"]
        job.stop(force=True)
        job.wait()
        with Person(command, environment(daemon.home)) as person:
            person.see("attached")
            person.type("stty size; exit 3\r")
            person.see("24 80")
            assert person.code() == 3
        gone = daemon.sh("exec sleep 600", name="gone")
        until(lambda: [t.status for t in daemon.detail("gone").tasks] == ["running"], "it runs")
        node.kill()
        until(lambda: not daemon.node("far").connected, "the daemon knows")  # type: ignore[union-attr]
        with pytest.raises(ClientError, match="the agent of node far is not connected"):
            daemon.client.exec(gone.number, ["true"])
    finally:
        node.end()
        daemon.end()
