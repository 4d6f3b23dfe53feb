"""Xiao's measurements, predicted without a fit: one cluster file, public model shapes.

Figure 1a (TensorFlow: ResNet-50, VGG16 and Inception-v3 on four devices), figure 1b (CNTK: AlexNet and
ResNet-152 on two devices of one switch or of two sockets) and figure 2b (two one-device RNN jobs under
one switch). No constant is set per case. How each framework works is given: TensorFlow's synchronous
replicas push gradients as they are ready and pull after a barrier, from one parameter server as the
paper says; CNTK sums after the backward pass; the RNN's parameters lie in the host's memory. Prints the
table, how it moves when a figure of the cluster file is halved or doubled, then one line per target.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from muster.files.cluster.cluster_file import load_cluster
from muster.files.profile.profile_file import shipped_profile
from muster.model.cluster import Cluster
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Plan, Sync
from muster.model.topology import ConfigurationSet, Level, Link
from muster.perf.estimate import Unknown
from muster.perf.predict import Neighbour, Predictor
from support.bars import bar, print_table

CLUSTER = Path(__file__).parents[1] / "examples/clusters/xiao-measured.yaml"
NODES = tuple(f"p100-{i}" for i in range(1, 5))
ONE_SWITCH, TWO_SOCKETS = 0b11, 0b10001


@dataclass(frozen=True, slots=True)
class Setting:
    """A plan on devices: for each node the bits of its one worker, and the nodes of servers."""

    sync: Sync
    overlap: Overlap
    workers: Sequence[int]
    servers: Sequence[str] = ()
    beside: int = 0
    """Bits of a second job of the same kind on the first node."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measurement of the paper: the loss of speed in per cent (from, to) against a base setting."""

    name: str
    model: str
    paper: tuple[float, float]
    base: Setting
    spread: Setting


LOCAL = Setting(Sync.RING, Overlap.FULL, (0b1111,))
"""Four devices of one server, summed among themselves."""


def _served(*workers: int) -> Setting:
    return Setting(Sync.DEDICATED, Overlap.BARRIER, workers, NODES[:1])


def _cntk(bits: int) -> Setting:
    return Setting(Sync.RING, Overlap.NONE, (bits,))


def _rnn(beside: int) -> Setting:
    return Setting(Sync.SHARDED, Overlap.BARRIER, (0b1,), beside=beside)


CASES = (
    Case("2x2 devices", "resnet50", (28, 28), LOCAL, _served(0b11, 0b11)),
    Case("4x1 devices", "resnet50", (59, 59), LOCAL, _served(1, 1, 1, 1)),
    Case("2x2 devices", "inception3", (0, 0), LOCAL, _served(0b11, 0b11)),
    Case("local server", "vgg16", (90, 90), LOCAL, _served(0b1111)),
    Case("two sockets", "alexnet", (27, 27), _cntk(ONE_SWITCH), _cntk(TWO_SOCKETS)),
    Case("two sockets", "resnet152", (11, 11), _cntk(ONE_SWITCH), _cntk(TWO_SOCKETS)),
    Case("one switch", "lstm6", (12, 40), _rnn(0), _rnn(0b10)),
)


def placed(setting: Setting, first: Sequence[int]) -> Placement:
    """The placement of a setting with these bits for its workers."""
    workers = [
        Slot(Role.WORKER, i, NODES[i], bits, Need(devices=bits.bit_count()))
        for i, bits in enumerate(first)
    ]
    servers = [Slot(Role.SERVER, i, node, 0, Need()) for i, node in enumerate(setting.servers)]
    return Placement((*workers, *servers))


def seconds(predictor: Predictor, model: str, setting: Setting) -> float:
    """Predicted seconds of one step, every device with the model's usual batch."""
    profile = shipped_profile(model)
    batch = tuple(profile.batch * bits.bit_count() for bits in setting.workers)
    plan = Plan((), setting.sync, batch, overlap=setting.overlap)
    other = Neighbour(profile, plan, placed(setting, (setting.beside,)))
    neighbours = (other,) if setting.beside else ()
    found = predictor.step_time(profile, plan, placed(setting, setting.workers), neighbours)
    if isinstance(found, Unknown):
        raise SystemExit(f"{model}: {found.detail}")
    return found.mean


def loss(predictor: Predictor, case: Case) -> float:
    """Predicted loss of speed, in per cent."""
    base = seconds(predictor, case.model, case.base)
    return 100 * (1 - base / seconds(predictor, case.model, case.spread))


def difference(case: Case, predicted: float) -> float:
    """Points between prediction and paper; none inside a range that the paper gives."""
    low, high = case.paper
    return predicted - min(max(predicted, low), high)


def mean_difference(cluster: Cluster) -> float:
    """Mean absolute difference over all cases, in points."""
    predictor = Predictor(cluster)
    return sum(abs(difference(case, loss(predictor, case))) for case in CASES) / len(CASES)


def rows(cluster: Cluster) -> Iterator[Sequence[str]]:
    """One row for each case."""
    predictor = Predictor(cluster)
    for case in CASES:
        predicted = loss(predictor, case)
        low, high = case.paper
        paper = f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"
        what = case.name.replace(" ", "-")
        yield case.model, what, paper, f"{predicted:.1f}", f"{difference(case, predicted):+.1f}"


def changed(cluster: Cluster, what: str, factor: float) -> Cluster:
    """The cluster with one figure of its file scaled."""
    kind = next(iter(cluster.configurations.values()))
    return replace(cluster, configurations={kind.name: _scaled(kind, what, factor)})


def _scaled(kind: ConfigurationSet, what: str, factor: float) -> ConfigurationSet:
    def times(link: Link) -> Link:
        return Link(link.bandwidth * factor, link.latency)

    if what == "nic":
        return replace(kind, nic=times(kind.nic))
    if what == "host":
        return replace(kind, host=times(kind.host))
    if what == "device":
        return replace(kind, device_rate=10.6e12 * factor, device_bandwidth=732e9 * factor)
    level = Level[what.upper()]
    layers = tuple(
        replace(layer, link=times(layer.link)) if layer.level is level else layer
        for layer in kind.layers
    )
    return replace(kind, layers=layers)


def sensitivity(cluster: Cluster) -> Iterator[Sequence[str]]:
    """The mean difference with each figure halved, as it is, and doubled."""
    as_is = mean_difference(cluster)
    for what in ("nic", "host", "switch", "socket", "node", "device"):
        halved, doubled = (mean_difference(changed(cluster, what, factor)) for factor in (0.5, 2.0))
        yield what, f"{halved:.1f}", f"{as_is:.1f}", f"{doubled:.1f}"


def main() -> None:
    """Predict, print the tables, then the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no effect: it takes a second")
    parser.parse_args()
    cluster = load_cluster(CLUSTER).cluster
    print("Loss of speed in per cent")
    print_table("MODEL SETTING PAPER PREDICTED DIFFERENCE", rows(cluster))
    print("Mean absolute difference in points, one figure of the cluster file changed")
    print_table("FIGURE HALVED AS-IS DOUBLED", sensitivity(cluster))
    bar("xiao-mean-absolute-difference-points", mean_difference(cluster), 10.0)


if __name__ == "__main__":
    main()
