"""What the executor says of nodes, until the view agrees.

The fleet sees machines, the view jobs: a node may leave, or change its devices, while a task for it is
being ordered. A report that conflicts with the view is true all the same. It is made again with what
else must have happened (the tasks there are lost), or kept until nothing is in its way.
"""

from collections.abc import Sequence
from functools import partial

from muster.core.state.event_errors import EventError
from muster.core.state.lifecycle import LifecycleError
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.state import State
from muster.model.event import NodeAdded, NodeEvent, NodeLeft, NodeLost
from muster.model.task import Fact


class NodeNews:
    """Reports of nodes that were refused, in order, by node."""

    def __init__(self) -> None:
        self._owed: dict[str, list[NodeEvent]] = {}
        self._left: dict[str, list[NodeEvent]] = {}
        """What is owed once the last attempt is in the journal."""

    def entry(self, report: NodeEvent) -> Entry:
        """Return the entry of a report; what is owed of its node comes first."""
        name = _name(report)
        if name not in self._owed:
            return Entry([report], refused=partial(self._owe, report))
        self._owe(report)
        return self._retry(name)

    def retries(self) -> list[Entry]:
        """Return another attempt for each node of which something is owed."""
        return [self._retry(name) for name in self._owed]

    def _owe(self, report: NodeEvent) -> None:
        owed = self._owed.setdefault(_name(report), [])
        if isinstance(report, NodeAdded | NodeLeft):  # what came before no longer matters
            owed[:] = [each for each in owed if isinstance(report, NodeAdded) and _has_left(each)]
        owed.append(report)

    def _retry(self, name: str) -> Entry:
        return Entry(current=partial(self._facts, name), then=[partial(self._told, name)])

    def _facts(self, name: str, state: State) -> list[Fact]:
        facts, self._left[name] = agree(state, self._owed.get(name, []))
        return facts

    def _told(self, name: str) -> None:
        left = self._left.pop(name, [])
        if left:
            self._owed[name] = left
        else:
            self._owed.pop(name, None)


def agree(state: State, reports: Sequence[NodeEvent]) -> tuple[list[Fact], list[NodeEvent]]:
    """Return the facts by which the view agrees with these reports, and those that must wait: a node
    whose configuration set is another on other nodes."""
    facts: list[Fact] = []
    for place, report in enumerate(reports):
        attempts: list[list[Fact]] = [[report]]
        if isinstance(report, NodeAdded | NodeLeft):
            attempts.append([NodeLost(_name(report), report.at, _why(report)), report])
        for attempt in attempts:
            after = _after(state, attempt)
            if after is not None:
                state, facts = after, [*facts, *attempt]
                break
        else:
            if isinstance(report, NodeAdded):
                return facts, list(reports[place:])
            # Of a node that is not in the view: there is nothing to say.
    return facts, []


def _after(state: State, facts: list[Fact]) -> State | None:
    try:
        return state.after(facts)
    except (EventError, LifecycleError):
        return None


def _name(report: NodeEvent) -> str:
    return report.node.name if isinstance(report, NodeAdded) else report.node


def _why(report: NodeAdded | NodeLeft) -> str:
    return "its devices have changed" if isinstance(report, NodeAdded) else report.why


def _has_left(report: NodeEvent) -> bool:
    return isinstance(report, NodeLeft)
