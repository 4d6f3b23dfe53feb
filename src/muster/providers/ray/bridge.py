"""Talks to Ray for the daemon: a process of its own, since Ray takes 80 MB and may end its caller.

Reads orders and writes news as JSON lines. Ends with its standard input. What it has brought to the
nodes stays: the next bridge finds it by name.
"""

import argparse
import contextlib
import json
import logging
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO

import ray
from ray import cloudpickle
from ray.util import get_placement_group, placement_group, remove_placement_group
from ray.util.placement_group import PlacementGroup, placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from muster.providers.ray import keeper
from muster.providers.ray.ray_nodes import DEVICE, OWN, NodeNames, RayNode, RayNodes, read_nodes

NAMESPACE = "muster"
LOOK = 0.5
"""s between two looks at the control store: a poll of 1,000 nodes takes it some ms."""
BUSY = 10.0
"""s after which devices that Ray does not give count as used by others."""
END = 60.0
"""s for an agent to end."""
ABSENT = 3
"""Exit code: there is no Ray cluster at the address."""


class Bridge:
    """Holds devices of nodes, keeps agents there, and tells of what comes and goes."""

    def __init__(self, fleet: str, out: TextIO) -> None:
        """`fleet`: whose nodes; several daemons may share a Ray cluster, but no node."""
        self._fleet, self._out = fleet, out
        self._names = NodeNames()
        self._known: dict[str, RayNode] = {}
        self._held: dict[str, PlacementGroup] = {}
        self._asked: set[str] = set()
        self._kept: set[str] = set()
        self._waiting: dict[str, float] = {}

    def look(self) -> None:
        """Compare what Ray says with what was known; tell the difference, and hold new nodes."""
        now = read_nodes(ray.nodes(), _leaving(), self._names)
        self._bury(now)
        for node in now.alive:
            if self._known.get(node.id) != node:
                self._known[node.id] = node
                self._tell("node", **asdict(node))
            if node.leaves_at is None:
                self._hold(node)

    def bring(self, id: str, how: dict[str, Any]) -> None:
        """Run an agent on a held node, unless one of an earlier bridge runs there."""
        node, group = self._known.get(id), self._held.get(id)
        if node is None or group is None or id in self._kept:
            return
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        _remote_keeper(node.devices).options(
            name=self._name(id),
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            scheduling_strategy=strategy,
        ).remote(**how)
        self._kept.add(id)

    def release(self, id: str) -> None:
        """Give a node's devices back to Ray; its agent has ended or is about to."""
        self._held.pop(id, None)
        self._kept.discard(id)
        self._asked.discard(id)
        _remove(self._name(id))

    def _bury(self, now: RayNodes) -> None:
        """Tell of the dead once, and of those that a restarted control store has never seen."""
        why = {each.id: each.why for each in now.dead}
        alive = {each.id for each in now.alive}
        for id in [each for each in self._known if each not in alive]:
            node = self._known.pop(id)
            self.release(id)
            self._tell("dead" if id in why else "unknown", id=id, name=node.name, why=why.get(id, ""))

    def _hold(self, node: RayNode) -> None:
        """Take all devices of a node, and the cores that are free, against other users of Ray."""
        if node.id in self._asked:
            return
        if node.id not in self._held:
            self._held[node.id] = _group(self._name(node.id)) or self._new_group(node)
        group = self._held[node.id]
        if _exists(self._name(node.id)):  # of an earlier bridge
            self._kept.add(node.id)
            self._asked.add(node.id)
            self._tell("kept", id=node.id, name=node.name)
        elif group.wait(0):
            self._asked.add(node.id)
            self._tell("held", id=node.id, name=node.name)
        elif time.monotonic() > self._waiting.setdefault(node.id, time.monotonic() + BUSY):
            self._waiting[node.id] = math.inf
            self._tell("busy", id=node.id, name=node.name)

    def _new_group(self, node: RayNode) -> PlacementGroup:
        free = ray._private.state.available_resources_per_node().get(node.id, {})
        bundle = {DEVICE: float(node.devices)}
        if cores := int(free.get("CPU", 0)):
            bundle["CPU"] = float(cores)
        return placement_group(
            [bundle],
            name=self._name(node.id),
            strategy="STRICT_PACK",
            lifetime="detached",
            bundle_label_selector=[{OWN: node.id}],
        )

    def _name(self, id: str) -> str:
        return f"muster-{self._fleet}-{id[:24]}"

    def _tell(self, kind: str, **what: Any) -> None:
        self._out.write(json.dumps({"kind": kind, **what}) + "\n")
        self._out.flush()


def _remote_keeper(devices: int) -> Any:
    """Return the actor's class; it takes the devices, so that Ray sets its visible ones."""
    cloudpickle.register_pickle_by_value(keeper)
    return ray.remote(num_cpus=0, num_gpus=devices, max_restarts=-1, max_concurrency=2)(keeper.Keeper)


def _leaving() -> dict[str, int]:
    """Return the nodes that Ray drains, with deadlines in ms since 1970; 0: no deadline."""
    found: dict[str, int] = ray._private.state.state.get_draining_nodes()
    return found


def _group(name: str) -> PlacementGroup | None:
    try:
        return get_placement_group(name)
    except ValueError:
        return None


def _exists(name: str) -> bool:
    try:
        ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def _remove(name: str) -> None:
    """Remove an actor for good, and its placement group."""
    with contextlib.suppress(ValueError):
        ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
    if (group := _group(name)) is not None:
        remove_placement_group(group)


def release_all(fleet: str) -> list[str]:
    """End the agents of a fleet, or of all, and give their devices back; return the names of those."""
    prefix = f"muster-{fleet}"
    tables = placement_group_table().values()
    named = {str(row["name"]) for row in tables if row["state"] != "REMOVED"}
    found = sorted(name for name in named if name.startswith(prefix))
    for name in found:
        with contextlib.suppress(ValueError, ray.exceptions.RayError):
            ray.get(ray.get_actor(name, namespace=NAMESPACE).end.remote(), timeout=END)
        _remove(name)
    return found


def _orders(source: TextIO) -> Iterator[dict[str, Any]]:
    for line in source:
        yield json.loads(line)


def _read(source: TextIO, orders: "queue.Queue[dict[str, Any] | None]") -> None:
    for order in _orders(source):
        orders.put(order)
    orders.put(None)


def _run(bridge: Bridge, orders: "queue.Queue[dict[str, Any] | None]") -> None:
    """Look and obey until the orders end."""
    while True:
        bridge.look()
        limit = time.monotonic() + LOOK
        while (left := limit - time.monotonic()) > 0:
            try:
                order = orders.get(timeout=left)
            except queue.Empty:
                break
            if order is None:
                return
            if order["do"] == "bring":
                bridge.bring(order["id"], order["how"])
            else:
                bridge.release(order["id"])


def _own_output() -> TextIO:
    """Return the pipe to the daemon. Ray prints what it likes: that goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def main() -> int:
    """Run until standard input ends."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--address", default="auto")
    arguments.add_argument("--fleet", default="")
    arguments.add_argument("--check", action="store_true", help="only say whether there is a cluster")
    arguments.add_argument("--release", action="store_true", help="end all agents, and go")
    given = arguments.parse_args()
    out = _own_output()
    try:
        ray.init(given.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        said = str(problem).strip().splitlines()
        out.write(json.dumps({"kind": "absent", "why": said[0] if said else repr(problem)}) + "\n")
        out.flush()
        return ABSENT
    if given.release:
        out.write(f"{len(release_all(given.fleet))} nodes given back to Ray\n")
    else:
        found = read_nodes(ray.nodes(), _leaving(), NodeNames())
        address = ray.get_runtime_context().gcs_address
        ready = {"kind": "ready", "address": address, "nodes": len(found.alive), "bare": found.bare}
        out.write(json.dumps(ready) + "\n")
    out.flush()
    if not (given.check or given.release):
        orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=_read, args=(sys.stdin, orders), daemon=True).start()
        _run(Bridge(given.fleet, out), orders)
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
