"""The life of a node, as the fleet sees it: a value with reactions, without clock or socket.

  expected    in the journal; its agent has not called since the daemon started
  up          its agent is connected
  silent      its agent is not heard; its tasks may run
  lost        silent for too long: its tasks are given up
  returning   its agent is back, and tasks that it should not have are being killed
  left        no longer a node

A node whose tasks were given up takes no others until all of them are known to be dead.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from muster.model.cluster import Node, NodeState
from muster.model.event import NodeAdded, NodeDraining, NodeLeft, NodeLost, NodeReturned
from muster.model.task import TaskExited, TaskId
from muster.model.topology import ConfigurationSet

NONE: frozenset[TaskId] = frozenset()


class NodeStanding(StrEnum):
    """Where a node is in its life."""

    EXPECTED = "expected"
    UP = "up"
    SILENT = "silent"
    LOST = "lost"
    RETURNING = "returning"
    LEFT = "left"


IN = (NodeStanding.EXPECTED, NodeStanding.UP, NodeStanding.SILENT)
"""Standings in which the cluster counts on the node."""


@dataclass(frozen=True, slots=True)
class KillTask:
    """Kill a task that the node should not have."""

    task: TaskId


NodeReport = NodeAdded | NodeLost | NodeReturned | NodeDraining | NodeLeft
Effect = NodeReport | TaskExited | KillTask
Reaction = tuple["FleetNode", tuple[Effect, ...]]


@dataclass(frozen=True, slots=True)
class Call:
    """An agent has called: who it is, what its node counts as, and the tasks that live on it."""

    run: str
    node: Node
    configuration: ConfigurationSet
    living: frozenset[TaskId] = NONE


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node and what the fleet expects of it. Times `now` are monotonic, `at` the clock's, in s."""

    name: str
    standing: NodeStanding = NodeStanding.EXPECTED
    node: Node | None = None
    """What it counts as; None: not reported yet."""
    call: Call | None = None
    """The last of its agent."""
    heard: float = 0.0
    """When its agent was last heard."""
    tasks: frozenset[TaskId] = NONE
    """Ordered there, and not known to have ended."""
    unsent: frozenset[TaskId] = NONE
    """Those of them that no agent can have heard of."""
    doomed: frozenset[TaskId] = NONE
    """Tasks that live there and should not."""
    departing: str = ""
    """Why it will be taken back; empty: it will not."""

    @property
    def is_in(self) -> bool:
        """Whether the cluster counts on it: orders wait for its agent."""
        return self.standing in IN

    @property
    def is_empty(self) -> bool:
        """Whether it departs, and nothing of ours is left on it."""
        return (
            bool(self.departing)
            and self.standing is NodeStanding.UP
            and not (self.tasks or self.doomed)
        )

    @property
    def run(self) -> str:
        """Of its agent; empty: none has called."""
        return self.call.run if self.call else ""

    # --- its agent ---

    def refusal(self, call: Call, now: float, patience: float) -> str:
        """Return why an agent cannot be this node's; empty: it can. `patience`: s of silence after
        which another agent may take over."""
        quiet = now - self.heard
        connected = self.standing in (NodeStanding.UP, NodeStanding.RETURNING)
        if connected and call.run != self.run and quiet < patience:
            return (
                f"node {self.name} has another agent, heard {quiet:.0f} s ago; "
                "stop that one, or give this one another name with --node"
            )
        if self.is_in and self.tasks and self._has_other_devices(call.node):
            return (
                f"node {self.name} has other devices than before, and tasks that use those; "
                f"offer the same devices, or drain it first (muster node drain {self.name})"
            )
        return ""

    def called(self, call: Call, at: float, now: float) -> Reaction:
        """An agent that was not refused has said hello."""
        renewed = bool(self.departing) and call.run != self.run
        known = replace(
            self, call=call, heard=now, doomed=NONE, departing="" if renewed else self.departing
        )
        known, kills = known.doom(call.living - self.tasks)
        if self.is_in:
            known = replace(known, standing=NodeStanding.UP)
            changed, news = known._described(at)
            returned = (NodeReturned(self.name, at),) if renewed else ()
            return changed, (*kills, *news, *returned)
        known = replace(known, standing=NodeStanding.RETURNING)
        if known.doomed:
            return known, kills
        return known._back(at)

    def doom(self, tasks: frozenset[TaskId]) -> Reaction:
        """Tasks live there that should not."""
        known = replace(self, doomed=self.doomed | tasks)
        return known, tuple(KillTask(task) for task in sorted(tasks))

    def spoke(self, now: float) -> "FleetNode":
        """Its agent was heard."""
        standing = NodeStanding.UP if self.standing is NodeStanding.SILENT else self.standing
        return replace(self, heard=now, standing=standing)

    def cut(self, at: float) -> Reaction:
        """The connection to its agent has ended."""
        if self.departing and self.is_in and not self.tasks and not self.doomed:
            return self._left(at, self.departing)
        if self.standing is NodeStanding.UP:
            return replace(self, standing=NodeStanding.SILENT), ()
        return self, ()

    def passed(self, at: float, now: float, beat: float, lost_after: float) -> Reaction:
        """Time has passed: its agent may have been silent for too long."""
        silence = now - self.heard
        if silence > lost_after:
            if self.is_in:
                return self.lost(at, f"its agent has been silent for {silence:.0f} s")
            if self.standing is NodeStanding.RETURNING:
                return replace(self, standing=NodeStanding.LOST if self.node else NodeStanding.LEFT), ()
        if self.standing is NodeStanding.UP and silence > 2 * beat:
            return replace(self, standing=NodeStanding.SILENT), ()
        return self, ()

    # --- its engine ---

    def lost(self, at: float, why: str) -> Reaction:
        """Give it and its tasks up."""
        if not self.is_in:
            return self, ()
        exits = tuple(self._given_up(task, at) for task in sorted(self.tasks))
        doomed = self.doomed | (self.tasks - self.unsent)
        # Who still departs when it is back says so again.
        known = replace(
            self, standing=NodeStanding.LOST, tasks=NONE, unsent=NONE, doomed=doomed, departing=""
        )
        return known, (NodeLost(self.name, at, why), *exits)

    def gone(self, at: float, why: str) -> Reaction:
        """Nothing of it runs any more, says its engine."""
        known, effects = self.lost(at, why)
        left, more = known._left(at, why)
        return left, (*effects, *more)

    def departs(self, at: float, within: float, why: str) -> Reaction:
        """It will be taken back."""
        if not self.is_in or self.departing == why:
            return self, ()
        told = NodeDraining(self.name, at, at + within, why, taken=True)
        return replace(self, departing=why), (told,)

    # --- its tasks ---

    def ordered(self, task: TaskId, *, sent: bool) -> "FleetNode":
        """A task was ordered there."""
        unsent = self.unsent - {task} if sent else self.unsent | {task}
        return replace(self, tasks=self.tasks | {task}, unsent=unsent)

    def attached(self, tasks: frozenset[TaskId]) -> "FleetNode":
        """Tasks were ordered there by an earlier daemon."""
        return replace(self, tasks=self.tasks | tasks, doomed=self.doomed - tasks)

    def ended(self, task: TaskId, at: float) -> Reaction:
        """A task is known to be dead."""
        known = replace(
            self,
            tasks=self.tasks - {task},
            unsent=self.unsent - {task},
            doomed=self.doomed - {task},
        )
        if self.standing is NodeStanding.RETURNING and not known.doomed:
            return known._back(at)
        return known, ()

    # ---

    def _back(self, at: float) -> Reaction:
        """Nothing lives there any more that should not."""
        known = replace(self, standing=NodeStanding.UP)
        changed, news = known._described(at)
        return changed, news or (NodeReturned(self.name, at),)

    def _described(self, at: float) -> Reaction:
        """Report what it counts as, if that has changed."""
        assert self.call is not None
        node = self.call.node
        if self.node is not None and _bare(node) == _bare(self.node):
            return self, ()
        return replace(self, node=node), (NodeAdded(node, at, self.call.configuration),)

    def _has_other_devices(self, other: Node) -> bool:
        return self.node is not None and _devices(self.node) != _devices(other)

    def _given_up(self, task: TaskId, at: float) -> TaskExited:
        never = task in self.unsent
        why = (
            f"node {self.name} was lost before it was started" if never else f"node {self.name} is lost"
        )
        return TaskExited(task, at, error=why, begun=not never)

    def _left(self, at: float, why: str) -> Reaction:
        known = replace(self, standing=NodeStanding.LEFT, tasks=NONE, unsent=NONE, doomed=NONE)
        return known, (NodeLeft(self.name, at, why),) if self.node is not None else ()


def _bare(node: Node) -> Node:
    """A node without what jobs and administrators change of it."""
    return replace(
        node, free=0, millicores=0, memory=0, state=NodeState.UP, until=None, why="", taken=None
    )


def _devices(node: Node) -> tuple[object, ...]:
    offer = node.offer
    return (node.configuration, *((offer.devices, offer.device_type) if offer else ()))
