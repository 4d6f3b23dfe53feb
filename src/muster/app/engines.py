"""The engine of a daemon with many machines: fleet, identities of agents, and the provider of nodes."""

import contextlib
import importlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import structlog

from muster.app.certificate import WILDCARDS, names_of_machine
from muster.app.options import UpOptions
from muster.daemon.assembly import Site
from muster.daemon.fleet.demand import node_demand
from muster.executors.fleet.executor import FleetExecutor
from muster.executors.fleet.identities import Identities
from muster.executors.private_folder import make_private
from muster.files.cluster.classify import Classifier
from muster.files.errors import InputError
from muster.files.source.tree import DEFAULT_LINKS
from muster.model.cluster import Cluster
from muster.model.view import View
from muster.ports import Provider
from muster.providers.settings import EngineSettings
from muster.store.store import Store
from muster.wire.agents.join_token import JoinToken, joined_address

log = structlog.get_logger()

MACHINES = "machines"
"""The engine whose nodes come by hand: nobody can be asked for more."""
FIRST_TOKEN = 3600.0
"""s that the join token which `muster up` prints is good for."""
AGENT_PORT_SETTING = "agent port"
"""The port at which the last daemon listened for agents."""
_ELSEWHERE = "192.0.2.1"
"""An address of nobody's (RFC 5737): the kernel says by which of ours it would go there."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """What brings nodes, and what runs tasks on them."""

    executor: FleetExecutor
    identities: Identities
    provider: Provider

    def begin(self) -> None:
        """Start bringing agents."""
        self.provider.begin(self.executor.hear_provider)

    def close(self) -> None:
        """Stop bringing agents; those with tasks stay, for the next daemon."""
        self.provider.close()

    def equip(self, site: Site, options: UpOptions) -> Site:
        """Return the site with the nodes and addresses of many machines."""
        return replace(
            site,
            cluster=replace(site.cluster, nodes=(), open=True),
            host=advertised(options),
            listen=options.agent_host,
            identities=self.identities,
            expect=self.executor.expect,
            gone=self.executor.hear_provider,
            agents=self.executor.agents,
            blind=self.executor.blind,
            busy=lambda: {name: each.busy for name, each in self.executor.agents().items()},
            want=self._want if self.provider.name != MACHINES else None,
        )

    def _want(self, view: View) -> None:
        self.provider.want(node_demand(view))

    def join_line(self) -> str | None:
        """Return what to run on another machine, where nodes come by hand."""
        if self.provider.name != MACHINES:
            return None
        return f"muster agent --join {self.identities.invite(seconds=FIRST_TOKEN)}"


def open_cluster(name: str) -> Cluster:
    """Return a cluster that nodes will join."""
    return Cluster(name, {}, (), DEFAULT_LINKS, open=True)


def open_engine(
    options: UpOptions, store: Store, folder: Path, classifier: Classifier
) -> RunningEngine:
    """Listen for agents and open the provider; InputError is one line. The store must be claimed."""
    assert options.engine is not None
    host = advertised(options)
    sock = _bound(options, store)
    try:
        port = int(sock.getsockname()[1])
        names = [host, "localhost", "127.0.0.1", *names_of_machine(options.agent_host)]
        identities = Identities(store, list(dict.fromkeys(names)), [joined_address(host, port)])
        provider = _provider(options, folder, identities, lambda: executor.connected())
        executor = FleetExecutor(
            folder,
            sock,
            identities,
            classifier.classify,
            store.next_epoch(),
            lost_after=options.lost_after,
            release=version("musterd"),
        )
    except BaseException:
        sock.close()
        raise
    return RunningEngine(executor, identities, provider)


def advertised(options: UpOptions) -> str:
    """Return the address at which nodes and their tasks reach this machine."""
    if options.advertise:
        return options.advertise
    if options.agent_host not in WILDCARDS:
        return options.agent_host
    return _address_by_route() or "127.0.0.1"


def _address_by_route() -> str | None:
    for family, where in ((socket.AF_INET, _ELSEWHERE), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((where, 9))  # sends nothing
            return str(probe.getsockname()[0])
    return None


def _bound(options: UpOptions, store: Store) -> socket.socket:
    """Listen for agents; if any port will do, at that of the previous daemon, which agents know."""
    family = socket.AF_INET6 if ":" in options.agent_host else socket.AF_INET
    port = options.agent_port or int(store.setting(AGENT_PORT_SETTING) or 0)
    try:
        sock = socket.create_server((options.agent_host, port), family=family)
        store.set_setting(AGENT_PORT_SETTING, str(sock.getsockname()[1]))
        return sock
    except OSError as error:
        where = joined_address(options.agent_host, port)
        raise InputError.at(
            "--agent-port", f"cannot listen on {where}: {error.strerror}; try another one"
        ) from None


def _provider(
    options: UpOptions, folder: Path, identities: Identities, connected: Callable[[], frozenset[str]]
) -> Provider:
    name = str(options.engine)
    own = folder / "engines" / name
    make_private(own)

    def invite(node: str | None, uses: int, seconds: float) -> JoinToken:
        return identities.invite(node, uses, seconds, engine=name)

    settings = EngineSettings(
        folder=own,
        invite=invite,
        connected=connected,
        address=options.engine_address,
        partition=options.engine_partition,
        nodes=options.engine_nodes,
        time=options.engine_time,
        extra=dict(options.engine_extra),
    )
    try:
        module = importlib.import_module(f"muster.providers.{name}.provider")
    except ImportError as problem:
        raise InputError.at("--engine", f"{name} cannot be used here: {problem}") from None
    found: Provider = module.open_provider(settings)
    return found
