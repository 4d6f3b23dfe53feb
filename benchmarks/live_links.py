"""A link at a tenth of what the cluster file claims, learnt by one job and gone around by the next.

A real daemon, and agents in network namespaces with links shaped by `tc tbf` (support/netns.py,
tests/live/hosts.py). The file claims equal links; that of the first host is a tenth. A first training
runs over all hosts; a second one, of another application, on two of them. Its throughput is compared
with two more daemons: one whose file has the true links, and one that does not learn them.

Needs root, the package iproute2 and torch. Prints a table, then one line per target.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the lab is the tests'

from tests.live.hosts import Lab, lab

from support.bars import bar, print_table
from support.netns import NoNetworkError, check, sweep

HOSTS, FAST, SLOW = 4, 200.0, 20.0
"""Hosts, the links' Mbit/s, and those of the first host."""
PAYLOAD = 0.956
"""TCP payload over the bytes that a token bucket counts, see support/cases.py."""
OF_TRUE, OVER_BLIND = 0.95, 1.5
"""Targets: throughput over that with true links in the file, and over that without learning."""
TRAIN = Path(__file__).parent / "support" / "shaped_train.py"
LONG = 300.0
"""s that a training may take."""


@dataclass(frozen=True, slots=True)
class Case:
    """A daemon: whether its file has the true links, whether it learns, and a first job before."""

    name: str
    true: bool = False
    learns: bool = True
    first: bool = True


CASES = (
    Case("learnt"),
    Case("true", true=True, learns=False, first=False),
    Case("blind", learns=False),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The second training: s of a step, its hosts, and what the daemon says of the first host."""

    seconds: float
    hosts: tuple[str, ...]
    network: str


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only whether the second job goes around the slow host, under half a minute",
    )
    options = parser.parse_args()
    try:
        check()
    except NoNetworkError as problem:
        parser.exit(2, f"{problem}\n")
    sweep()
    cases, hosts, steps = (CASES[:1], 3, (6, 8)) if options.quick else (CASES, HOSTS, (16, 30))
    found: dict[str, Outcome] = {}
    print_table("links s/step hosts slow-host", _rows(cases, hosts, steps, found))
    learnt = found["learnt"].seconds
    if options.quick:
        bar("links-around-the-slow-host", float("host0" not in found["learnt"].hosts), 1.0, above=True)
        return
    bar("links-learnt-of-true", found["true"].seconds / learnt, OF_TRUE, above=True)
    bar("links-learnt-over-blind", found["blind"].seconds / learnt, OVER_BLIND, above=True)


def _rows(
    cases: Sequence[Case], hosts: int, steps: tuple[int, int], found: dict[str, Outcome]
) -> Iterator[Sequence[str]]:
    for case in cases:
        outcome = found[case.name] = measure(case, hosts, *steps)
        yield case.name, f"{outcome.seconds:.3f}", ",".join(outcome.hosts), outcome.network


def measure(case: Case, count: int, first: int, second: int) -> Outcome:
    """Run a daemon with this many hosts, and steps of the first and the second training."""
    names = tuple(f"host{i}" for i in range(count))
    rates = [SLOW] + [FAST] * (count - 1)
    with tempfile.TemporaryDirectory(prefix="muster-links-") as where:
        folder = Path(where)
        claims = folder / "cluster.yaml"
        claims.write_text(_claims(names, rates if case.true else [FAST] * count), encoding="utf-8")
        learning = "--learn-links" if case.learns else "--no-learn-links"
        options = ("--policy", "fifo", "--cluster", str(claims), learning)
        with lab(folder / "lab", names, *options, rates=rates) as made:
            for name in names:  # in this order, by which equal places are taken
                made.start(name, devices=1)
            if case.first:
                _train(made, folder, "first", count, "--steps", str(first), "--width", "500")
            more = ("--steps", str(second), "--width", "700", "--depth", "1")
            seconds, hosts = _train(made, folder, "second", 2, *more)
            shown = made.daemon.muster("node", "show", names[0]).stdout.splitlines()
            network = next((line for line in shown if line.strip().startswith("network")), "")
            return Outcome(seconds, hosts, network.strip().removeprefix("network").strip())


def _train(
    made: Lab, folder: Path, name: str, workers: int, *options: str
) -> tuple[float, tuple[str, ...]]:
    """Run one training to its end; return the s of a step, and where it ran."""
    figure = folder / f"{name}.figure"
    words = (sys.executable, str(TRAIN), "--figure", str(figure), *options)
    job = made.daemon.submit(*words, name=name, devices=workers, application=name)
    made.daemon.await_status(name, "running", "succeeded", "failed")
    hosts = made.daemon.record(name).nodes
    ended = job.wait(LONG)
    if ended.status != "succeeded":
        raise RuntimeError(made.daemon.muster("logs", name).stdout)
    return float(figure.read_text(encoding="utf-8")), tuple(hosts)


def _claims(names: Sequence[str], rates: Sequence[float]) -> str:
    lines = ["rules:"]
    for name, rate in zip(names, rates, strict=True):
        nic = f"{{bandwidth: {rate * PAYLOAD:g}Mbit/s, latency: 100us}}"
        lines += [f"- match: {{name: {name}}}", f"  nic: {nic}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
