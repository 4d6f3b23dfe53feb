"""A cluster file that lies by a factor of ten does no harm for long: a training is soon as fast as with
the truth."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import support
from support.cases import payload_rate
from support.netns import NoNetworkError, check
from tests.live.daemons import LONG
from tests.live.hosts import Lab, lab

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TRAIN = Path(next(iter(support.__path__))) / "shaped_train.py"
RATES = {"narrow": 40.0, "wide1": 200.0, "wide2": 200.0, "wide3": 200.0}
"""Mbit/s of the hosts' links. Who owns parameters decides: the narrow one must not."""
LIES = {"narrow": 10.0, "wide1": 0.1}
"""What the file makes of links."""
BOAST = {"wide2": 10.0}
"""And of devices."""
SAMPLES, PACE, WIDTH = 48, 0.002, 500
"""Of a step, which takes half a second over the narrow link."""
BACK, COUNTED = 100, 25
"""Steps after which everything must be well, and those that are compared."""
SETTLED = 12
"""Steps after which it is with the truth."""


def claims(links: Mapping[str, float], devices: Mapping[str, float]) -> str:
    """A cluster file that is wrong by these factors."""
    kinds, rules = ["configurations:"], ["rules:"]
    for name, rate in RATES.items():
        width = 8e-6 * payload_rate(rate) * links.get(name, 1.0)
        nic = f"{{bandwidth: {width:.3f}Mbit/s, latency: 100us}}"
        speed = f"device_rate: {100 * devices.get(name, 1.0):g}G, device_bandwidth: 10GB/s"
        of = f"device: cpu, generation: cpu, {speed}"
        kinds.append(f"  {name}: {{{of}, devices: 1, cores: 1, memory: 1GB, nic: {nic}}}")
        rules.append(f"- {{match: {{name: {name}}}, configuration: {name}}}")
    return "\n".join((*kinds, *rules)) + "\n"


@contextmanager
def hosts(folder: Path, text: str) -> Iterator[Lab]:
    folder.mkdir()
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    names = tuple(RATES)
    options = ("--policy", "fifo", "--cluster", str(file))
    with lab(folder / "lab", names, *options, rates=tuple(RATES.values())) as made:
        made.start(*names, devices=1)
        yield made


def seconds(made: Lab, skip: int) -> float:
    """Train over all hosts; return the s of a step, the first ones not counted."""
    figure = made.daemon.folder / "figure"
    words = [sys.executable, str(TRAIN), "--figure", str(figure)]
    words += ["--steps", str(skip + COUNTED), "--skip", str(skip)]
    words += ["--samples", str(SAMPLES), "--width", str(WIDTH), "--pace", str(PACE)]
    job = made.daemon.submit(*words, name="training", devices=len(RATES))
    assert job.wait(5 * LONG).status == "succeeded", made.daemon.muster("logs", "training").stdout
    return float(figure.read_text(encoding="utf-8"))


def test_throughput_is_back_after_lies_about_links_and_devices(tmp_path: Path) -> None:
    try:
        check()
    except NoNetworkError as problem:
        pytest.skip(str(problem))
    with hosts(tmp_path / "truth", claims({}, {})) as made:
        best = seconds(made, SETTLED)
    with hosts(tmp_path / "lies", claims(LIES, BOAST)) as made:
        lied = seconds(made, BACK)
        links = {node.name: node.uplink for node in made.daemon.client.nodes()}
    assert lied <= best / 0.9
    narrow = links["narrow"]
    assert narrow is not None
    assert narrow.learnt is not None
    assert narrow.learnt < narrow.claimed / 5
