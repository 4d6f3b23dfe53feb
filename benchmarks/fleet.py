"""The daemon with 1,250 agents of 8 devices each: simulated machines, real protocol, real TLS.

join      from the start of the agents to the last node in the cluster
beats     the daemon's share of a core while all agents beat and nothing else happens
starts    20 jobs of one device per second, each over after a second: its share of a core, and the time
          from a submission to the start of its task
list      a list of all nodes with their jobs and health, as `muster node list` asks for
loss      a tenth of the agents are killed at once, each with a gang of 8: the longest time from a
          node's loss (its agent was silent for long enough) until it is in the daemon's journal and one
          who follows the events is told, and from the last of them until all gangs run elsewhere
memory    what an agent that is connected and has had jobs adds to the daemon

The agents are processes apart; on a machine with few cores they take a part of what the daemon could
have, so its share is CPU time over wall time. Prints tables, then one line per target.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.client import Client
from muster.client.connecting.settings import read_settings
from muster.executors.fleet.authority import new_request
from muster.executors.fleet.identities import Identities
from muster.store.store import open_store
from support.bars import bar, print_table
from support.fleet_agents import DEVICES
from support.load_daemon import free_port

AGENTS = Path(__file__).with_name("support") / "fleet_agents.py"
SHARE, FOLD, START_P50, LIST, PER_AGENT = 0.5, 2.0, 1.0, 0.5, 0.25
"""Targets: of a core, s, s, s, MB."""
PATIENCE = 300.0
TENTH = 10
LISTS = 5


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    agents: int = 1250
    seconds: float = 30.0
    rate: float = 20.0
    """Jobs per s."""
    lost_after: float = 30.0
    """s of silence; the daemon's own default. Agents beat six times as often."""


QUICK = Scale(agents=100, seconds=3.0, rate=10.0, lost_after=3.0)


class Running:
    """A daemon for agents, measured from outside."""

    def __init__(self, process: "subprocess.Popen[bytes]", client: Client, port: int) -> None:
        self.process, self.client, self.port = process, client, port

    def cpu(self) -> float:
        """s of CPU time so far, of all threads."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes that it holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def last_event(self) -> int:
        """The number of the last event in the journal."""
        return max(event.seq for event in self.client.events())


@contextmanager
def measured(running: Running, shares: dict[str, float], name: str) -> Iterator[None]:
    """Note the daemon's share of a core during a block."""
    cpu, wall = running.cpu(), time.monotonic()
    yield
    shares[name] = (running.cpu() - cpu) / (time.monotonic() - wall)


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 agents, a few seconds each")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else Scale()
    print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory(prefix="muster-fleet-") as folder:
        run(Path(folder), scale)


def run(folder: Path, scale: Scale) -> None:
    """Bring the agents, work, and lose a tenth of them."""
    names = [f"gpu{number:04}" for number in range(1, scale.agents + 1)]
    port = free_port()
    make_identities(folder, names, port)
    shares: dict[str, float] = {}
    with daemon(folder, port, scale) as running, contextlib.ExitStack() as stack:
        before = running.memory()
        began = time.monotonic()
        with measured(running, shares, "join"):
            dying = stack.enter_context(agents(folder, port, names[: len(names) // TENTH]))
            stack.enter_context(agents(folder, port, names[len(names) // TENTH :]))
            devices = scale.agents * DEVICES
            _until(lambda: running.client.status().devices == devices, "all agents have joined")
        joined = time.monotonic() - began
        listed = list_nodes(running, scale)
        with measured(running, shares, "beats"):
            time.sleep(scale.seconds)
        with measured(running, shares, "starts"):
            numbers = submit(running, scale)
        waits = waits_of(running, numbers)
        total = running.memory()
        per_agent = (total - before) / scale.agents
        gangs = fill(running, scale)
        folded = lose(running, dying, scale)
        lost = time.monotonic()
        _until(lambda: _running(running, gangs), "the gangs run elsewhere")
        moved = time.monotonic() - lost
        for number in gangs:
            running.client.stop(str(number), force=True)
    print_table(
        "agents join_s join list_s beats starts wait_p50 wait_p99 MB MB/agent folded_s moved_s",
        [
            [
                str(scale.agents),
                f"{joined:.1f}",
                f"{shares['join']:.2f}",
                f"{listed:.3f}",
                *(f"{shares[name]:.2f}" for name in ("beats", "starts")),
                f"{waits[len(waits) // 2]:.3f}",
                f"{waits[int(len(waits) * 0.99)]:.3f}",
                f"{total / 1e6:.0f}",
                f"{per_agent / 1e6:.2f}",
                f"{folded:.2f}",
                f"{moved:.1f}",
            ]
        ],
    )
    bar("fleet_beats_share_of_a_core", shares["beats"], SHARE)
    bar("fleet_starts_share_of_a_core", shares["starts"], SHARE)
    bar("fleet_start_p50_s", waits[len(waits) // 2], START_P50)
    bar("fleet_tenth_lost_folded_s", folded, FOLD)
    bar("fleet_node_list_s", listed, LIST)
    bar("fleet_daemon_mb_per_agent", per_agent / 1e6, PER_AGENT)


def make_identities(folder: Path, names: list[str], port: int) -> None:
    """Give each agent its certificate, before the daemon begins."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    store = open_store(str(data / "muster.db"))
    identities = Identities(store, ["localhost"], [f"127.0.0.1:{port}"])
    token = identities.invite(uses=len(names)).secret
    for name in names:
        key, request = new_request(name)
        admitted = identities.join(token, name, request, "127.0.0.1")
        (folder / f"{name}.pem").write_text(admitted.certificate + key, encoding="ascii")
        (folder / "authority.pem").write_text(admitted.authority, encoding="ascii")
    store.close()


@contextmanager
def daemon(folder: Path, port: int, scale: Scale) -> Iterator[Running]:
    """Run a daemon for agents while the block lasts."""
    command = [str(Path(sys.executable).with_name("muster")), "up", "--engine", "machines"]
    command += ["--agent-host", "127.0.0.1", "--agent-port", str(port), "--port", "0"]
    command += [
        "--data",
        str(folder / "data"),
        "--lost-after",
        f"{scale.lost_after:g}s",
        "--policy",
        "fifo",
    ]
    environ = {**os.environ, "MUSTER_HOME": str(folder)}
    with (folder / "daemon.log").open("ab") as log, (folder / "daemon.out").open("wb") as said:
        process = subprocess.Popen(
            [*command, "--run-as", "daemon", "--log-level", "warning"],
            env=environ,
            stdout=said,
            stderr=log,
        )
    try:
        _until(lambda: b"muster down" in (folder / "daemon.out").read_bytes(), "the daemon listens")
        settings = read_settings({"MUSTER_HOME": str(folder)})
        with Client(settings.url, settings.token) as client:
            yield Running(process, client, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        sys.stderr.write((folder / "daemon.log").read_text(encoding="utf-8")[-2000:])


@contextmanager
def agents(folder: Path, port: int, names: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run agents in a process of their own while the block lasts."""
    command = [sys.executable, str(AGENTS), str(folder), str(port), *names]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def list_nodes(running: Running, scale: Scale) -> float:
    """List all nodes, which are up; return the median of the s that it takes."""
    took = []
    for _ in range(LISTS):
        began = time.monotonic()
        states = [node.state for node in running.client.nodes()]
        took.append(time.monotonic() - began)
        assert states == ["up"] * scale.agents
    return sorted(took)[LISTS // 2]


def submit(running: Running, scale: Scale) -> list[int]:
    """Submit jobs at a steady rate; return their numbers."""
    count = int(scale.rate * scale.seconds)
    numbers: list[int] = []
    began = time.monotonic()
    for place in range(count):
        time.sleep(max(0.0, began + place / scale.rate - time.monotonic()))
        fields = {"command": ["sleep", "1"], "name": f"job-{place}", "folder": "/tmp", "devices": 1}
        numbers.append(running.client.submit(fields).number)
    return numbers


def waits_of(running: Running, numbers: list[int]) -> list[float]:
    """Return s from each submission to the start of its task, sorted; once all have ended."""
    for number in numbers:
        running.client.handle(str(number)).wait(PATIENCE)
    found = [running.client.record(str(number)) for number in numbers]
    return sorted((each.started or 0.0) - each.submitted for each in found)


def fill(running: Running, scale: Scale) -> list[int]:
    """Start a gang as large as a node for each node that will be lost."""
    fields = {"command": ["sleep", "600"], "folder": "/tmp", "devices": DEVICES}
    gangs = range(scale.agents // TENTH)
    handles = [running.client.submit({**fields, "name": f"gang-{place}"}) for place in gangs]
    numbers = [handle.number for handle in handles]
    _until(lambda: _running(running, numbers), "the gangs run")
    return numbers


def lose(running: Running, dying: "subprocess.Popen[bytes]", scale: Scale) -> float:
    """Kill the agents of a process; return the longest s from a node's loss until it is told."""
    lags: list[float] = []
    after = running.last_event()
    dying.kill()
    dying.wait()
    for event in running.client.events(after=after, follow=True):
        if event.kind == "NodeLost":
            lags.append(time.time() - event.at)
        if len(lags) == scale.agents // TENTH:
            break
    return max(lags)


def _running(running: Running, numbers: list[int]) -> bool:
    return all(running.client.record(str(number)).status == "running" for number in numbers)


def _until(reached: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > limit:
            raise TimeoutError(f"never came true: {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
