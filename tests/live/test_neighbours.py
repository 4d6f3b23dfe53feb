"""Real trainings that slow each other down on one node: found out, told, and kept apart."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.daemons import until
from tests.live.fleets import AgentNode, FleetDaemon

CONTEND = Path(__file__).with_name("scripts") / "contend.py"
MEASURED = 40
"""Steps after which the daemon has measured some: the first three do not count, the next eleven do."""

SLOW = 0.3
"""More than a busy machine does; loud trainings double each other's steps."""


class Street:
    """A daemon, its nodes, and trainings that do or do not need what their node's jobs share."""

    def __init__(self, folder: Path) -> None:
        self.daemon = FleetDaemon(folder, "--policy", "fifo")
        self.buses = folder / "buses"
        self.nodes: list[AgentNode] = []

    def add(self, name: str) -> None:
        """A node of four devices joins."""
        self.nodes.append(AgentNode(self.daemon, name, f"127.0.0.{len(self.nodes) + 2}", devices=4))
        self.nodes[-1].start()

    def train(self, name: str, *, loud: bool) -> str:
        """A training that has begun; a loud one is slowed by other loud ones."""
        needs = ("--buses", str(self.buses)) if loud else ()
        kind = "loud" if loud else "quiet"
        self.daemon.submit(sys.executable, str(CONTEND), *needs, name=name, application=kind)
        self.ahead(name, 1)
        return name

    def ahead(self, name: str, steps: int = MEASURED) -> None:
        """Wait until a training has done this many more steps."""
        goal = (self.daemon.record(name).step or 0) + steps
        until(lambda: (self.daemon.record(name).step or 0) >= goal, f"{name} does step {goal}")

    def node(self, name: str) -> tuple[str, ...]:
        return self.daemon.record(name).nodes

    def end(self) -> None:
        for node in self.nodes:
            node.end()
        self.daemon.end()


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    found = Street(tmp_path)
    found.buses.mkdir()
    try:
        found.daemon.start()
        found.add("gpu1")
        yield found
        found.daemon.clear()
    finally:
        found.end()


@pytest.mark.slow
def test_a_training_is_placed_apart_from_those_that_would_slow_it(street: Street) -> None:
    daemon = street.daemon
    first = street.train("first", loud=True)
    street.ahead(first)
    street.train("quiet", loud=False)
    street.ahead(first)  # beside a job that it does not mind
    assert (daemon.record(first).slowed or 0.0) < SLOW
    second = street.train("second", loud=True)
    until(lambda: (daemon.record(first).slowed or 0.0) > SLOW, "the first is known to be slowed")
    assert daemon.record(first).beside == daemon.record(second).number
    told = daemon.muster("show", first).stdout
    assert f"beside job {daemon.record(second).number}" in told
    street.add("gpu2")
    other = street.train("other", loud=False)
    assert street.node(other) == ("gpu2",)
    # By numbers alone it would go where most are: there nobody loses more than already.
    third = street.train("third", loud=True)
    assert street.node(third) == ("gpu2",)
    changes = daemon.muster("show", "--all", third).stdout
    assert "steps get" in changes
