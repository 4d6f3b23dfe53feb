"""Whether anything has happened since a cycle that had nothing to do.

Running jobs go on, which is what the policy expected of them: on the path that it plans, prices stay
the same while no job comes, ends or changes, and so does the deal (see `policy/prices`). Until
something happens, the policy wants to be asked again, or `RESTS` s have passed, such a cycle has the
same answer.

Something has happened if a job, a node, a pool or a belief is another than before. Work left and
measured speeds are new with every report: they count only where they are off what was expected by more
than measurements are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter, is_

import numpy as np
from numpy.typing import NDArray

from muster.model.outlook import Outlook
from muster.model.view import Phase, View

RESTS = 30.0
"""s after which it is worked out again whatever has happened: what opens by time alone, such as the
patience of a waiting job or a change that has settled, may open that much later."""
ABOUT = 0.05
"""Speeds and work left this close count as equal: the precision of measured steps."""

_BELIEVED = attrgetter(*(each.name for each in fields(Outlook) if each.name not in ("left", "here")))
"""All of an outlook but what changes with every step."""


_STEADY = {Phase.WAITING, Phase.RUNNING}


def may_rest(view: View) -> bool:
    """Whether no job is being changed: what that frees is for somebody."""
    return {state.phase for state in view.jobs.values()} <= _STEADY


def nothing_new(before: View, after: View, seconds: float) -> bool:
    """Whether only time, in s, has passed between two views."""
    return (
        before.pools is after.pools
        and _same(before.jobs.values(), after.jobs.values())
        and before.cluster.index is after.cluster.index
        and _same(before.cluster.nodes, after.cluster.nodes)
        and before.knowledge is after.knowledge
        and before.shapes == after.shapes
        and before.slowdowns == after.slowdowns
        and before.uplinks == after.uplinks
        and _as_expected(before.outlooks, after.outlooks, seconds)
    )


def _same(one: Iterable[object], other: Iterable[object]) -> bool:
    """Whether both are the same objects, in C: they are thousands."""
    found, wanted = tuple(one), tuple(other)
    return len(found) == len(wanted) and all(map(is_, found, wanted))


def _as_expected(old: Mapping[int, Outlook], new: Mapping[int, Outlook], seconds: float) -> bool:
    """Whether jobs have gone on as they were."""
    if old.keys() != new.keys() or any(map(_differ, old.values(), map(new.get, old))):
        return False
    left, here = _progress(old.values())
    left_now, here_now = _progress(new[number] for number in old)
    off = ABOUT * left + seconds * here * (1 + ABOUT)
    return bool(
        (np.abs(left_now - left) <= off).all() and (np.abs(here_now - here) <= ABOUT * here).all()
    )


def _differ(one: Outlook, other: Outlook | None) -> bool:
    return other is not one and (other is None or _BELIEVED(one) != _BELIEVED(other))


def _progress(outlooks: Iterable[Outlook]) -> NDArray[np.float64]:
    """Return work left and measured speeds, (2, jobs); 0: not measured."""
    rows = [(each.left, each.here or 0.0) for each in outlooks]
    return np.array(rows, dtype=np.float64).reshape(-1, 2).T
