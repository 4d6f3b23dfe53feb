"""Brings agents to the nodes of a Ray cluster, which holds their devices against its other users.

The part that speaks with Ray is a process of its own, the bridge: it comes back when it ends, which it
does when Ray's head is away for a minute. Agents need neither.
"""

import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from muster.files.errors import InputError
from muster.ports import NodeDemand, ProviderNews
from muster.providers.ray.lent import Bring, Lent, Reaction
from muster.providers.settings import EngineSettings

log = structlog.get_logger()

BRIDGE = (sys.executable, "-m", "muster.providers.ray.bridge")
AGAIN = 5.0
"""s before the bridge is started again."""
LOOK = 1.0
"""s between two looks at deadlines."""
CHECK = 30.0
"""s for Ray to answer when `muster up` begins."""
TOKEN = 600.0
"""s that a join token is good for: Ray starts the actor, and that starts the agent."""
OPTIONS = ("folder",)
"""What `--engine-option` knows."""
KNOCK = 5.0
"""s for a connection to its head."""
FOLDER = "~/.local/state/muster/ray"
"""Of agents, on the nodes, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class RayFound:
    """A Ray cluster that answered."""

    address: str
    nodes: int
    """Nodes with devices."""
    bare: int
    """Nodes without."""


def find_ray(address: str) -> RayFound:
    """Return the Ray cluster at an address; "auto": the one that runs on this machine."""
    _knock(address)
    try:
        said = subprocess.run(
            [*BRIDGE, "--address", address, "--check"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CHECK,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(_no_cluster(address, f"no answer for {CHECK:.0f} s")) from None
    if b"No module named 'ray'" in said.stderr:
        raise InputError("Ray is not installed; install it with: pip install 'musterd[ray]'")
    first = said.stdout.decode().splitlines()[:1]
    answer: dict[str, Any] = json.loads(first[0]) if first else {}
    if answer.get("kind") != "ready":
        raise InputError(_no_cluster(address, answer.get("why", "Ray ended without a word")))
    return RayFound(answer["address"], answer["nodes"], answer["bare"])


def _knock(address: str) -> None:
    """Fail at once where nothing listens; Ray itself tries for a minute."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()
        except (OSError, OverflowError) as problem:
            raise InputError(
                _no_cluster(address, getattr(problem, "strerror", "") or str(problem))
            ) from None


def _no_cluster(address: str, why: str) -> str:
    where = "on this machine" if address == "auto" else f"at {address}"
    return (
        f"no Ray cluster {where} ({why.rstrip('.')}); start one with `ray start --head`, "
        "or give the address of another with --address HOST:PORT"
    )


def open_provider(settings: EngineSettings) -> "RayProvider":
    """Return the provider for a Ray cluster that answers; `InputError` without one. A daemon that has
    used it before starts without an answer: its agents and jobs run on, whatever became of Ray."""
    unknown = sorted(set(settings.extra) - set(OPTIONS))
    if unknown:
        raise InputError.at(f"--engine-option {unknown[0]}", f"Ray has only {', '.join(OPTIONS)}")
    address, fleet = settings.address or "auto", settings.folder / "fleet"
    try:
        found = find_ray(address)
    except InputError as problem:
        if not fleet.exists():
            raise
        log.warning(str(problem))
    else:
        address = found.address
        if not found.nodes:
            log.warning("no node of the Ray cluster has GPUs; nodes that come with some are used")
    return RayProvider(
        lambda node: str(settings.invite(node, 1, TOKEN)),
        settings.connected,
        _fleet_name(fleet),
        address=address,
        folder=settings.extra.get("folder", FOLDER),
    )


def _fleet_name(path: Path) -> str:
    """Return the name that all daemons of one store share, and no other."""
    if not path.exists():
        path.write_text(secrets.token_hex(4), encoding="ascii")
    return path.read_text(encoding="ascii")


class RayProvider:
    """One agent on each node of a Ray cluster that has devices; `ports.Provider` says the rest."""

    name = "ray"

    def __init__(
        self,
        invite: Callable[[str], str],
        connected: Callable[[], frozenset[str]],
        fleet: str,
        *,
        address: str = "auto",
        folder: str = FOLDER,
        agent: Sequence[str] = ("-m", "muster.agent"),
    ) -> None:
        """`invite` returns a one-time token for a node; `connected` the nodes whose agents are; `fleet`
        names the daemon whose agents they are; `folder` is the agents', on each node."""
        self._invite, self._connected = invite, connected
        self._fleet, self._folder = fleet, folder
        self._agent, self._address = tuple(agent), address
        self._lent = Lent()
        self._rows: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._bridge: subprocess.Popen[str] | None = None
        self._tell: Callable[[ProviderNews], None] = lambda news: None

    def begin(self, tell: Callable[[ProviderNews], None]) -> None:
        self._tell = tell
        for work in (self._listen, self._watch):
            threading.Thread(target=work, daemon=True, name=f"muster-ray{work.__name__}").start()

    def want(self, demand: NodeDemand) -> None:
        """Ray's nodes come and go by themselves: all that it has are used."""

    def close(self) -> None:
        self._over.set()
        with self._lock:
            bridge = self._bridge
        if bridge is not None and bridge.stdin is not None:
            bridge.stdin.close()
            bridge.wait()

    def _listen(self) -> None:
        """Run bridges, one after another, and follow what they say."""
        while not self._over.is_set():
            with self._lock:
                self._bridge = bridge = subprocess.Popen(
                    [*BRIDGE, "--address", self._address, "--fleet", self._fleet],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the daemon
                )
            assert bridge.stdout is not None
            for line in bridge.stdout:
                self._heard(json.loads(line))
            code = bridge.wait()
            if not self._over.wait(AGAIN):
                log.warning("Ray is away; agents and tasks keep running", code=code)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            self._react(lambda lent, now: lent.passed(now, self._connected()))

    def _heard(self, news: Mapping[str, Any]) -> None:
        kind, name, id = news["kind"], news.get("name", ""), news.get("id", "")
        match kind:
            case "ready":
                log.info("Ray found", address=news["address"], nodes=news["nodes"])
            case "node":
                self._rows[id] = dict(news)
                if news["leaves_at"] is not None:
                    within = max(0.0, news["leaves_at"] - time.time()) if news["leaves_at"] else None
                    self._react(lambda lent, now: lent.drained(name, id, within, now))
            case "held":
                self._react(lambda lent, now: lent.held(name, id))
            case "kept":
                self._react(lambda lent, now: lent.kept(name, id))
            case "dead":
                self._react(lambda lent, now: lent.died(name, id, news["why"], now))
            case "busy":
                log.info("waiting for other users of Ray to free the devices", node=name)
            case "absent":
                log.warning("no Ray cluster", why=news["why"])

    def _react(self, reaction: Callable[[Lent, float], Reaction]) -> None:
        with self._lock:
            self._lent, effects = reaction(self._lent, time.monotonic())
        for effect in effects:
            if isinstance(effect, Bring):
                self._bring(effect.id)
            else:
                self._tell(effect)

    def _bring(self, id: str) -> None:
        """Order an agent to a node. The token travels in the environment, which others cannot read."""
        row = self._rows.get(id)
        if row is None:
            return
        how = {
            "command": [*self._agent, *agent_options(row)],
            "environment": {"MUSTER_JOIN": self._invite(row["name"])},
            "folder": f"{self._folder}/{self._fleet}/{row['name']}",
            "simulated": simulated_options(row),
            "brought": secrets.token_hex(4),
        }
        self._order({"do": "bring", "id": id, "how": how})

    def _order(self, order: dict[str, Any]) -> None:
        with self._lock:
            bridge = self._bridge
        if bridge is None or bridge.stdin is None:
            return
        try:
            bridge.stdin.write(json.dumps(order) + "\n")
            bridge.stdin.flush()
        except OSError:  # it has ended; the next one tells of the node again
            log.warning("the bridge to Ray has ended")


def agent_options(row: Mapping[str, Any]) -> list[str]:
    """Return what the agent cannot find out by itself, from what Ray says of its node."""
    words = ["--engine", "ray", "--node", row["name"]]
    for name, text in row["labels"].items():
        words += ["--label", f"{name}={text}"]
    if row["rack"]:
        words += ["--rack", row["rack"]]
    return words


def simulated_options(row: Mapping[str, Any]) -> list[str]:
    """Return the devices that a node without a driver pretends to have, as Ray was told."""
    words = ["--devices", str(row["devices"]), "--virtual"]
    return [*words, "--device-type", row["device_type"]] if row["device_type"] else words
