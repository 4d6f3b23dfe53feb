"""A link that is not what the cluster file claims: learnt from one job, used for the next."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import support
from support.netns import NoNetworkError, check
from tests.live.daemons import LONG, until
from tests.live.hosts import Lab, lab

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

NAMES = ("gpu1", "gpu2", "gpu3")
FAST, SLOW = 200.0, 20.0
"""Mbit/s of links, and of the first host's."""
TRAIN = Path(next(iter(support.__path__))) / "shaped_train.py"
CLAIMS = """
rules:
- match: {name: "gpu*"}
  nic: {bandwidth: 190Mbit/s, latency: 100us}
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Lab]:
    try:
        check()
    except NoNetworkError as problem:
        pytest.skip(str(problem))
    claims = tmp_path / "cluster.yaml"
    claims.write_text(CLAIMS, encoding="utf-8")
    rates = (SLOW, FAST, FAST)
    options = ("--policy", "fifo", "--cluster", str(claims))
    with lab(tmp_path / "lab", NAMES, *options, rates=rates) as made:
        for name in NAMES:  # in this order, by which equal places are taken
            made.start(name, devices=1)
        yield made


def train(hosts: Lab, name: str, workers: int, steps: int = 12, width: int = 500) -> tuple[str, ...]:
    """Run a training to its end; return the hosts that it ran on."""
    figure = hosts.daemon.folder / f"{name}.figure"
    words = (str(TRAIN), "--figure", str(figure), "--steps", str(steps), "--width", str(width))
    job = hosts.daemon.submit(sys.executable, *words, name=name, devices=workers, application=name)
    hosts.daemon.await_status(name, "running", "succeeded")
    where = hosts.daemon.record(name).nodes
    assert job.wait(2 * LONG).status == "succeeded", hosts.daemon.muster("logs", name).stdout
    return tuple(sorted(where))


def learnt(hosts: Lab, name: str) -> float:
    """The bytes/s believed of a host's link, as a part of those claimed."""
    node = next(node for node in hosts.daemon.client.nodes() if node.name == name)
    assert node.uplink is not None
    return (node.uplink.learnt or node.uplink.claimed) / node.uplink.claimed


def test_a_slow_link_is_gone_around_remembered_and_believed_again_when_repaired(hosts: Lab) -> None:
    assert train(hosts, "first", 3) == NAMES
    assert learnt(hosts, "gpu1") < 0.2
    assert min(learnt(hosts, "gpu2"), learnt(hosts, "gpu3")) > 0.6
    assert "jobs over several nodes are laid out by this" in _shown(hosts, "gpu1")
    assert "muster_node_link_bytes_per_second" in hosts.daemon.client.metrics()
    assert train(hosts, "another-application", 2, width=700) == ("gpu2", "gpu3")

    hosts.daemon.kill()
    hosts.daemon.start()
    for name in NAMES:
        hosts.await_state(name, "up")
    until(lambda: learnt(hosts, "gpu1") < 0.2, "the next daemon knows the slow link")

    hosts.hosts["gpu1"].shape(FAST)
    assert train(hosts, "over-all", 3, steps=100) == NAMES, "it is used where there is nothing else"
    assert learnt(hosts, "gpu1") > 0.6
    assert train(hosts, "after-the-repair", 2) == ("gpu1", "gpu2")


def _shown(hosts: Lab, name: str) -> str:
    return hosts.daemon.muster("node", "show", name).stdout
