"""A cluster file of rules, a real daemon and real agents: what joins counts as what the rules say."""

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.daemons import until
from tests.live.fleets import AgentNode, FleetDaemon

RULES = """\
configurations:
  box: {device: cpu, devices: 2, cores: 1, memory: 1GB}
rules:
  - match: box*
    configuration: box
  - match: {name: "gpu??*", label: {zone: "*"}}
    rack: r{1}
    domain: "{label.zone}"
pools:
  default: {reservation: 50%, limit: 100%}
  lab: {reservation: 25%}
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FleetDaemon]:
    cluster = tmp_path / "site.yaml"
    cluster.write_text(RULES)
    made = FleetDaemon(tmp_path, "--cluster", str(cluster))
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with too little space for tasks."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "muster", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def reserved(daemon: FleetDaemon, pool: str) -> int:
    found = next(each for each in daemon.client.pools() if each.name == pool)
    return sum(quota.reservation for quota in found.quotas if quota.device_type == "cpu")


def metrics(daemon: FleetDaemon) -> str:
    allowed = {"Authorization": f"Bearer {daemon.token}"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{daemon.url}/metrics", headers=allowed)
    ) as said:
        return str(said.read(), "utf-8")


def test_what_joins_counts_as_what_the_rules_say(daemon: FleetDaemon) -> None:
    """Nodes of a rule, of no rule and against a rule; pools follow; a restart changes nothing."""
    nodes = [
        AgentNode(daemon, "gpu0712", "127.0.0.2", devices=4),
        AgentNode(daemon, "other", "127.0.0.3", devices=4),
        AgentNode(daemon, "box1", "127.0.0.4", devices=4),
    ]
    ruled, other, refused = nodes
    try:
        ruled.start("--label", "zone=a")
        assert reserved(daemon, "lab") == 1
        other.start()
        assert reserved(daemon, "lab") == 2
        assert reserved(daemon, "default") == 4

        refused.launch()
        problem = "node 'box1' offers 4 cpu, but rule 1 says box, which has 2 cpu"
        until(lambda: problem in refused.log.read_text(encoding="utf-8"), "box1 is refused")

        listed = daemon.muster("node", "list").stdout
        assert "ENGINE" in listed and "127.0.0.2" in listed and "box1" not in listed
        page = daemon.muster("node", "show", "gpu0712").stdout
        assert "in rack a/r07, domain a" in page
        assert "connected, brought by machines" in page
        assert "zone=a" in page

        before = daemon.node("other")
        daemon.kill()
        daemon.start()
        until(lambda: all((found := daemon.node(n.name)) and found.connected for n in nodes[:2]))
        after = daemon.node("other")
        assert before is not None and after is not None
        assert (after.configuration, after.rack) == (before.configuration, "r0")
        assert reserved(daemon, "lab") == 2
    finally:
        for node in nodes:
            node.end()


@pytest.mark.slow  # agents measure every 15 s
def test_a_node_whose_disk_is_full_is_drained_by_itself_and_comes_back(
    daemon: FleetDaemon, small_disk: Path
) -> None:
    node = AgentNode(daemon, "gpu0101", "127.0.0.2")
    node.folder = small_disk / "agent"
    try:
        node.launch("--label", "zone=a")
        daemon.await_node("gpu0101", "draining")
        listed = daemon.muster("node", "list").stdout
        assert "unhealthy: its disk is full (less than 512 MB free)" in listed
        until(lambda: 'muster_nodes{engine="machines",state="draining"} 1.0' in metrics(daemon))
        assert 'muster_node_healthy{node="gpu0101"} 0.0' in metrics(daemon)
        subprocess.run(["mount", "-o", "remount,size=4g", str(small_disk)], check=True)
        daemon.await_node("gpu0101", "up")
    finally:
        node.end()
