"""A lab with some jobs of every kind, for tests of all views and for the pictures of the docs."""

import sys
from functools import partial
from pathlib import Path

from tests.live.daemons import Daemon

CLUSTER = """
name: lab
configurations:
  ampere8: {device: A100, devices: 8, device_memory: 80GB, cores: 256, memory: 2TB, nic: 100Gbit/s}
nodes:
  left[1-3]: {configuration: ampere8, rack: left}
  right[1-3]: {configuration: ampere8, rack: right}
pools:
  vision: {reservation: {A100: 16}, share: 2}
  speech: {reservation: {A100: 8}}
  default: {}
"""
TRAIN = """
import json, math, os, pathlib, random, sys, time
import muster
rate, draws = float(sys.argv[1]), random.Random(1)
points = [(draws.gauss(0, 1), draws.gauss(0, 1)) for _ in range(400)]
labels = [x - 2 * y + 0.5 + draws.gauss(0, 0.7) > 0 for x, y in points]
a = b = c = 0.0
for epoch in range(1, 31):
    # A logistic regression, by gradient descent on all points.
    said = [1 / (1 + math.exp(-(a * x + b * y + c))) for x, y in points]
    loss = -sum(math.log(p if label else 1 - p) for p, label in zip(said, labels)) / len(points)
    right = sum((p > 0.5) == label for p, label in zip(said, labels)) / len(points)
    off = [p - label for p, label in zip(said, labels)]
    a -= rate * sum(each * x for each, (x, _) in zip(off, points)) / len(points)
    b -= rate * sum(each * y for each, (_, y) in zip(off, points)) / len(points)
    c -= rate * sum(off) / len(points)
    print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
    muster.report(epoch=epoch, loss=loss, accuracy=right)
    if epoch % 10 == 0:
        pathlib.Path(f"weights-{epoch}.json").write_text(json.dumps([a, b, c]))
    time.sleep(0.05)
while len(sys.argv) > 2:
    time.sleep(1)
"""


class Scene:
    """The lab's daemon, and the numbers of what runs on it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        cluster, self._script = folder / "lab.yaml", folder / "train.py"
        cluster.write_text(CLUSTER, encoding="utf-8")
        self._script.write_text(TRAIN, encoding="utf-8")
        self.daemon = Daemon(folder, "--simulate-devices", devices=48, cluster=cluster)
        self.trains, self.sweep = 0, 0

    def play(self) -> None:
        """Start it all; return when it looks as it shall."""
        daemon = self.daemon
        daemon.start()
        sleeps = partial(daemon.sh, "sleep 600", duration="10m")
        sleeps(name="pretrain", devices=14, pool="vision", labels={"team": "vision"})
        sleeps(name="whisper", devices=6, pool="speech", labels={"team": "speech"})
        sleeps(name="segment", devices=4, pool="vision")
        command = sys.executable, str(self._script), "0.5", "stay"
        job = daemon.submit(*command, name="resnet", devices=1, pool="vision", duration="20m")
        self.trains = job.number
        daemon.sh("exit 1", name="typo").wait()
        done = daemon.muster(
            *("run", "-y", "--name", "tune", "--pool", "default", "--sweep", "lr=0.2,0.5,1.0,2.0"),
            *("--", sys.executable, str(self._script), "{lr}"),
        )
        assert done.returncode == 0, done.stderr
        self.sweep = daemon.client.sweeps()[0].number
        for member in daemon.client.sweep_detail(self.sweep).members:
            assert member.number is not None
            assert daemon.client.handle(member.number).wait().status == "succeeded"
        sleeps(name="too-wide", devices=44, pool="vision")
        daemon.client.drain("right3")
        daemon.await_status("resnet", "running")
