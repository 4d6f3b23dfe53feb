"""Links as trainings measure them, against the rates to which they are shaped."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import support
from support.cases import payload_rate
from support.netns import NoNetworkError, check
from tests.live.daemons import LONG
from tests.live.hosts import Lab, lab

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

NAMES = ("fast1", "fast2", "fast3", "slow")
TIMES = 4
"""How much faster the other links are."""
STEPS = 12
"""Some of half a second each: more reports than one median needs."""
TRAIN = Path(next(iter(support.__path__))) / "shaped_train.py"


@pytest.fixture
def hosts(rate: float, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose last host has a link of this many Mbit/s; the cluster file claims nothing."""
    try:
        check()
    except NoNetworkError as problem:
        pytest.skip(str(problem))
    rates = (*(TIMES * rate,) * 3, rate)
    with lab(tmp_path / "lab", NAMES, "--policy", "fifo", rates=rates) as made:
        made.start(*NAMES, devices=1)
        yield made


def train(hosts: Lab, sync: str, rate: float) -> None:
    """Train over all hosts: half a second over the slow link for each pass of the gradients."""
    width = int((payload_rate(rate) * 0.5 / 4 / 2) ** 0.5)
    figure = hosts.daemon.folder / f"{sync}.figure"
    words = (str(TRAIN), "--figure", str(figure), "--steps", str(STEPS), "--width", str(width))
    given = {"devices": len(NAMES), "sync": sync}
    job = hosts.daemon.submit(sys.executable, *words, name=sync, **given)
    assert job.wait(2 * LONG).status == "succeeded", hosts.daemon.muster("logs", sync).stdout


@pytest.mark.parametrize(
    ("rate", "sync"),
    [(20.0, "sharded"), (40.0, "sharded"), (40.0, "ring"), (100.0, "sharded"), (400.0, "sharded")],
)
def test_a_link_is_measured_as_it_is_shaped(hosts: Lab, rate: float, sync: str) -> None:
    train(hosts, sync, rate)
    links = {node.name: node.uplink for node in hosts.daemon.client.nodes()}
    slow = links["slow"]
    assert slow is not None
    assert slow.learnt == pytest.approx(payload_rate(rate), rel=0.15)
    for name in NAMES[:3]:
        fast = links[name]
        assert fast is not None
        assert (fast.learnt or fast.claimed) > 2 * payload_rate(rate), f"{name} is no slow one"
