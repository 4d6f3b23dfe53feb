"""The Slurm provider against a real Slurm: what it asks for, finds again and gives back."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.ports import NodeDemand, NodeDeparts, NodeGone, ProviderNews
from muster.providers.slurm.options import SlurmOptions
from muster.providers.slurm.provider import SlurmProvider
from tests.engines.slurm_lab import SlurmLab, missing, slurm_lab
from tests.live.daemons import until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

AGENT = (sys.executable, "-c", "import signal; signal.pause()")
"""In place of an agent: these tests are about allocations; test_slurm.py is about agents."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Three nodes of four GPUs."""
    with slurm_lab(tmp_path_factory.mktemp("slurm")) as lab:
        yield lab


Make = Callable[..., SlurmProvider]


@pytest.fixture
def make(lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes providers, as a daemon on the submit host would; no pilot is left in the end."""
    for name, text in lab.environ.items():
        monkeypatch.setenv(name, text)
    made: list[SlurmProvider] = []

    def one(**options: object) -> SlurmProvider:
        asked = SlurmOptions(**{"partition": "gpu", "most": 3, "time": 3600.0, **options})  # type: ignore[arg-type]
        provider = SlurmProvider(asked, lambda: "token", tmp_path, agent=AGENT, look=1.0)
        made.append(provider)
        return provider

    yield one
    for provider in made:
        provider.close()
    lab.slurm("scancel", "--partition=gpu", "--full", "--signal=KILL")
    lab.slurm("scancel", "--partition=gpu")
    lab.until(lambda: not lab.jobs(), "every allocation is given back")


def running(lab: SlurmLab) -> tuple[str, ...]:
    """The nodes of the pilots that run, as the daemon will call them."""
    said = lab.slurm("squeue", "--noheader", "--states=R", "--partition=gpu", "--format=%N-%i")
    return tuple(said.split())


def test_pilots_follow_the_queue_and_a_later_daemon_finds_them_again(lab: SlurmLab, make: Make) -> None:
    news: list[ProviderNews] = []
    first = make(least=1)
    first.begin(news.append)
    first.want(NodeDemand({}))
    until(lambda: len(running(lab)) == 1, "one node is held")
    first.want(NodeDemand({"v100": 5}, nodes=running(lab)))
    until(lambda: len(running(lab)) == 3, "five devices are two nodes more")
    first.want(NodeDemand({}, nodes=running(lab)))  # all have tasks
    first.close()

    second = make(least=1, idle=0.0)
    second.begin(news.append)
    nodes = running(lab)
    assert len(nodes) == 3, "a daemon that stops leaves nodes with tasks to the next"

    def given_back() -> bool:
        second.want(NodeDemand({}, nodes=nodes, idle=nodes))
        return len(running(lab)) == 1

    until(given_back, "idle nodes are given back, the least stays")
    until(lambda: sum(isinstance(each, NodeGone) for each in news) == 2, "both are told of")
    gone = {each.node for each in news if isinstance(each, NodeGone)}
    assert gone == {each.node for each in news if isinstance(each, NodeDeparts)}
    assert gone.isdisjoint(running(lab))


@pytest.mark.slow
def test_what_slurm_takes_back_is_announced_and_slurmctld_may_be_away(
    lab: SlurmLab, make: Make
) -> None:
    news: list[ProviderNews] = []
    provider = make(least=2)
    provider.begin(news.append)
    provider.want(NodeDemand({}))
    until(lambda: len(running(lab)) == 2, "two nodes are held")
    nodes = running(lab)
    provider.want(NodeDemand({}, nodes=nodes))
    host, _, _ = nodes[0].rpartition("-")
    other, _, _ = nodes[1].rpartition("-")
    lab.restart_controller()
    lab.slurm("scontrol", "update", f"nodename={other}", "state=drain", "reason=bad fan")
    try:
        lab.slurm("sbatch", "--partition=urgent", f"--nodelist={host}", "--exclusive", "--wrap=true")
        until(lambda: len(news) >= 2, "both are announced")
        told = {each.node: each for each in news if isinstance(each, NodeDeparts)}
        assert told[nodes[0]].why == "preempted by Slurm"
        assert told[nodes[0]].within == lab.grace
        assert told[nodes[1]].why.startswith("drained in Slurm: bad fan")
    finally:
        lab.slurm("scontrol", "update", f"nodename={other}", "state=resume")


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"partition": "gpx"}, "--partition: 'gpx' is not a partition of Slurm (did you mean 'gpu'?)"),
        ({"time": 1e6}, "--time: partition gpu allows 1d at most; Muster renews allocations"),
        ({"gres": "gpu:9"}, "--engine slurm: allocation failure: Requested node configuration"),
        ({"extra": ("--foo",)}, "--engine slurm: unrecognized option '--foo'"),
    ],
)
def test_what_slurm_would_refuse_is_refused_at_once_in_one_line(
    make: Make, wrong: dict[str, object], line: str
) -> None:
    with pytest.raises(InputError) as refused:
        make(**wrong)
    assert str(refused.value).startswith(line)


def test_a_machine_without_slurm_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="--engine slurm: sbatch not found in PATH; run the daemon"):
        SlurmProvider(SlurmOptions(partition="gpu"), lambda: "token", tmp_path)
