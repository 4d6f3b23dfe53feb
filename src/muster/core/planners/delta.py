"""What has changed between two views: what a planner needs to follow the centre's.

Compact: changed nodes and jobs, and of a job that was sent before only its state. States, nodes and
beliefs are frozen, so comparing identities finds all changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, TypeVar

from muster.model.cluster import Cluster, Node
from muster.model.job import Job
from muster.model.view import JobState, View

V = TypeVar("V")

STATE = tuple(each.name for each in fields(JobState) if each.name != "job")
_state = attrgetter(*STATE)


@dataclass(frozen=True, slots=True)
class ViewDelta:
    """The changes that lead from one view to the next."""

    base: int | None
    """Version of the view it changes; None: `whole` stands alone."""
    version: int
    whole: View | None = None
    nodes: tuple[Node, ...] = ()
    jobs: tuple[tuple[int, Job | None, tuple[Any, ...]], ...] = ()
    """Number, job if it is new or other, and the fields `STATE`."""
    gone: tuple[int, ...] = ()
    outlooks: tuple[tuple[int, Any], ...] = ()
    shapes: tuple[tuple[int, Any], ...] = ()
    beliefs: tuple[tuple[str, Any], ...] = ()
    """Other fields of the view that have changed."""


_BELIEFS = ("knowledge", "slowdowns", "uplinks")


def delta(old: View | None, new: View) -> ViewDelta:
    """Return what leads from the old view to the new one."""
    if old is None or not _alike(old, new):
        return ViewDelta(None, new.version, replace(new, names={}))
    changed = map(is_not, map(old.jobs.get, new.jobs), new.jobs.values())
    fresh = compress(new.jobs.values(), changed)
    return ViewDelta(
        old.version,
        new.version,
        None,
        tuple(compress(new.cluster.nodes, map(is_not, old.cluster.nodes, new.cluster.nodes))),
        tuple((state.number, _job(old, state), _state(state)) for state in fresh),
        tuple(old.jobs.keys() - new.jobs.keys()),
        _changed(old.outlooks, new.outlooks),
        _changed(old.shapes, new.shapes),
        tuple((n, getattr(new, n)) for n in _BELIEFS if getattr(old, n) is not getattr(new, n)),
    )


def _alike(old: View, new: View) -> bool:
    """Whether the same nodes and pools are there."""
    one, other = old.cluster, new.cluster
    same = one.configurations is other.configurations and one.links is other.links
    return same and old.pools is new.pools and one.index is other.index


def _job(old: View, state: JobState) -> Job | None:
    before = old.jobs.get(state.number)
    return None if before is not None and before.job is state.job else state.job


def _changed(old: Mapping[int, V], new: Mapping[int, V]) -> tuple[tuple[int, V | None], ...]:
    """Return what is believed otherwise of jobs; None: nothing any more."""
    if old is new:
        return ()
    fresh = compress(new.items(), map(is_not, map(old.get, new), new.values()))
    return (*fresh, *((number, None) for number in old.keys() - new.keys()))


class ViewFollower:
    """A view that follows another by what has changed, with its nodes in an order of its own."""

    def __init__(self, place: int, planners: int) -> None:
        """`place`: which of the planners it is for, from 0. Of equal places the first is taken, so
        planners that begin with racks of their own seldom want the same devices."""
        self._place, self._planners = place, planners
        self.view: View | None = None

    def follow(self, change: ViewDelta) -> View:
        """Return the view after the change."""
        if change.whole is not None:
            self.view = replace(change.whole, cluster=self._turned(change.whole.cluster))
            return self.view
        old = self.view
        if old is None or old.version != change.base:
            raise ValueError(f"a change of version {change.base} does not follow what is here")
        jobs, names = dict(old.jobs), dict(old.names)
        for number in change.gone:
            del names[jobs.pop(number).job.full_name]
        for number, job, state in change.jobs:
            known = job or jobs[number].job
            jobs[number] = JobState(known, *state)
            names[known.full_name] = number
        self.view = replace(
            old,
            version=change.version,
            cluster=_renewed(old.cluster, change.nodes),
            jobs=jobs,
            names=names,
            outlooks=_merged(old.outlooks, change.outlooks),
            shapes=_merged(old.shapes, change.shapes),
            **dict(change.beliefs),
        )
        return self.view

    def _turned(self, cluster: Cluster) -> Cluster:
        """Return the cluster with every n-th rack first, from its own place on: whatever part of the
        racks is free, each planner begins with as many of them."""
        if self._planners == 1:
            return cluster
        racks: dict[tuple[str, str], list[Node]] = {}
        for node in cluster.nodes:
            racks.setdefault((node.domain, node.rack), []).append(node)
        numbered = enumerate(racks.values(), -self._place)
        order = sorted(numbered, key=lambda each: each[0] % self._planners)
        return replace(cluster, nodes=tuple(node for _, nodes in order for node in nodes))


def _renewed(cluster: Cluster, nodes: tuple[Node, ...]) -> Cluster:
    if not nodes:
        return cluster
    every = list(cluster.nodes)
    for node in nodes:
        every[cluster.index[node.name]] = node
    return cluster.with_nodes(tuple(every))


def _merged(old: Mapping[int, V], changed: tuple[tuple[int, V | None], ...]) -> Mapping[int, V]:
    if not changed:
        return old
    merged = {**old, **dict(changed)}
    return {number: value for number, value in merged.items() if value is not None}
