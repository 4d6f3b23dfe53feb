"""What a sweep does next: who enters the queue, who goes on, who pauses, who stops.

A sweep is one demand that can shrink: only as many of its members are in the queue as run, and a few
more, so that a thousand members neither crowd out other users nor slow down a decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.core.sweeps.rungs import losers, promotable
from muster.core.sweeps.sweep_state import SweepState

LEAST_WAITING = 8
"""Members in the queue at least: a cycle can start this many at once on an idle cluster; with each that
runs there is room for one more, so a large cluster is full after a few cycles."""


class Doing(StrEnum):
    """What a live member does now."""

    WAITS = "waits"
    RUNS = "runs"
    """Has tasks."""
    PAUSES = "pauses"
    """Waits at a rung, without tasks."""
    LEAVES = "leaves"
    """Has tasks that are being stopped."""


@dataclass(frozen=True, slots=True)
class NextSteps:
    """Members by position, in order."""

    promote: tuple[tuple[int, int], ...] = ()
    """Each with the rung that it goes on from."""
    pause: tuple[tuple[int, int], ...] = ()
    stop: tuple[tuple[int, int], ...] = ()
    """For good."""
    enter: tuple[int, ...] = ()
    ends: bool = False
    """Whether all of it is over."""


def next_steps(state: SweepState, live: Mapping[int, Doing]) -> NextSteps:
    """Return what follows from the members as they are."""
    out = losers(state)
    on = promotable(state)
    room = _room(state, live)
    stays = {place for place, _ in on if live.get(place) in (Doing.RUNS, Doing.WAITS)}
    # One that still has its tasks goes on without a pause, and takes nobody's place.
    promoted = [each for each in on if each[0] in stays]
    paused = [each for each in on if each[0] not in stays and live.get(each[0]) is Doing.PAUSES]
    promoted += paused if room is None else paused[:room]
    left = None if room is None else max(0, room - (len(promoted) - len(stays)))
    going = {place for place, _ in promoted}
    gone = {place for place, _ in out}
    pause = [
        (place, state.next_rung(place) - 1)
        for place, doing in live.items()
        if doing in (Doing.RUNS, Doing.WAITS)
        and state.is_paused(place)
        and place not in going
        and place not in gone
    ]
    enter = _entering(state, live, left)
    ends = not live and not state.to_come and not enter
    return NextSteps(tuple(promoted), tuple(pause), tuple(out), enter, ends)


def _room(state: SweepState, live: Mapping[int, Doing]) -> int | None:
    """Return how many more members may be in the queue or run; None: any number."""
    if not state.at_most:
        return None
    return max(0, state.at_most - sum(doing is not Doing.PAUSES for doing in live.values()))


def _entering(state: SweepState, live: Mapping[int, Doing], room: int | None) -> tuple[int, ...]:
    if state.sweep.awaited:
        return ()
    counted = list(live.values())
    most = max(LEAST_WAITING, counted.count(Doing.RUNS)) - counted.count(Doing.WAITS)
    most = min(most, state.to_come, state.to_come if room is None else room)
    return tuple(range(state.entered, state.entered + max(0, most)))
