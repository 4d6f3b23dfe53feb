"""Several users of one daemon: names, what each sees, who may do what, and what is written down."""

from collections.abc import Iterator

import pytest

from muster.client import Client, ClientError
from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

SLEEP = ["sleep", "600"]


@pytest.fixture
def clients(make: Make) -> Iterator[tuple[Daemon, Client, Client]]:
    """A daemon of two devices, and two of its users."""
    daemon: Daemon = make(devices=2)
    daemon.start()
    with daemon.client_of("ada") as ada, daemon.client_of("bob") as bob:
        yield daemon, ada, bob


def test_users_share_a_daemon_and_stay_out_of_each_others_way(
    clients: tuple[Daemon, Client, Client],
) -> None:
    daemon, ada, bob = clients
    first = ada.submit({"name": "train", "command": SLEEP})
    second = bob.submit({"name": "train", "command": SLEEP})
    assert (ada.job("train").job.number, bob.job("train").job.number) == (first.number, second.number)
    with pytest.raises(ClientError, match="needs a letter"):
        bob.submit({"name": str(first.number), "command": SLEEP})
    until(lambda: all(job.devices for job in daemon.client.jobs()), "both run")
    assert "another user's job" in str(ada.nodes()[0].jobs)
    assert {event.number for event in bob.events(after=0)} == {second.number}
    stopped = daemon.muster("stop", "-y", "bob/train")
    assert stopped.stdout.startswith(f"job {second.number} (train)")
    daemon.kill()
    daemon.start()
    lines = daemon.muster("audit").stdout.splitlines()
    assert any("bob" in line and "submit" in line and "needs a letter" in line for line in lines)
    assert any("stop" in line and f"{second.number} (bob/train)" in line for line in lines)
