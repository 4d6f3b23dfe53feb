"""Real agents: the authority is replaced under them, and one is revoked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.store.store import open_store
from tests.live.daemons import until
from tests.live.fleets import AgentNode, FleetDaemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FleetDaemon]:
    made = FleetDaemon(tmp_path, lost_after=2.0)
    made.start()
    yield made
    made.end()


@pytest.fixture
def gpu1(daemon: FleetDaemon) -> Iterator[AgentNode]:
    made = AgentNode(daemon, "gpu1", "127.0.0.2")
    made.start()
    yield made
    made.end()


def previous_authority(daemon: FleetDaemon) -> str:
    store = open_store(str(daemon.data / "muster.db"))
    try:
        return str(json.loads(store.setting("authority") or "{}")["previous"])
    finally:
        store.close()


def test_agents_renew_by_themselves_when_the_authority_is_replaced(
    daemon: FleetDaemon, gpu1: AgentNode
) -> None:
    for unused in daemon.client.invitations():  # one that names the old authority keeps it
        daemon.client.revoke_token(unused.name)
    assert daemon.client.rotate("authority").waiting == ("gpu1",)
    until(lambda: not previous_authority(daemon), "the old authority is retired")
    node = daemon.node("gpu1")
    assert node is not None and node.state == "up"
    gpu1.kill()
    gpu1.start()
    daemon.await_node("gpu1", "up")


def test_a_revoked_node_is_out_until_it_is_let_in_again(daemon: FleetDaemon, gpu1: AgentNode) -> None:
    daemon.client.revoke_node("gpu1")
    until(lambda: not gpu1.runs, "the agent gives up")
    assert "node gpu1 was revoked" in gpu1.log.read_text()
    gpu1.launch()
    until(lambda: not gpu1.runs, "the agent is refused")
    assert "was revoked on" in gpu1.log.read_text()
    node = daemon.node("gpu1")
    assert node is None or node.state != "up"
    token = daemon.client.invite("gpu1").token
    gpu1.start("--join", str(token))
    daemon.await_node("gpu1", "up")
