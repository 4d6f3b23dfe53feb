"""The device type of each job, chosen together with all others.

On a type, k devices are worth v(k) to a job (its `Offer`); on the concave hull of v each further device
adds a step, and the C devices of the type go to the C largest steps of the jobs there. A job that joins
a type adds what its steps have beyond those that it pushes out:

    join = max over k of v(k) - L(k),    L(k) = the sum of the k smallest steps that are served there.

One job after the other, the most urgent first, is taken out and put where it adds most, being no cost
to itself. Then two jobs of two types change places while that adds something: on each type the one that
gains most by the other, for each of its devices. The sum of all steps served never falls, and after
`ROUNDS` there is an end. What a move costs is in the offers: a job has the type that it holds without
its pause.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from muster.policy.market.deal import Offer
from muster.policy.market.prices import Array, gains

ROUNDS = 4
"""Most times that every job is asked; two settle most deals."""
ABOUT = 1e-9
"""Relative gain below which a job stays."""

Steps = Mapping[str, Array]
"""What each further device of a type adds to one job, falling."""


def steps_of(offer: Offer) -> Array:
    """Return what each further device adds to the worth, on the concave hull."""
    return gains(offer.counts[1:], offer.values[1:])


class _Side:
    """One type: its devices and the steps of the jobs there, rising."""

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._steps: Array = np.zeros(0)

    def join(self, steps: Array) -> float:
        """Return what a job with these steps would add."""
        most = min(len(steps), self._devices)
        if not most:
            return 0.0
        own = np.cumsum(steps[:most])
        own[:] -= self._lost(most)
        return max(0.0, float(own.max()))

    @property
    def served(self) -> float:
        """What its devices add."""
        return float(self._steps[max(0, len(self._steps) - self._devices) :].sum())

    def put(self, steps: Array) -> None:
        """Let a job in."""
        rising = steps[::-1]
        self._steps = np.insert(self._steps, np.searchsorted(self._steps, rising), rising)

    def take(self, steps: Array) -> None:
        """Let a job out that was put in."""
        # Equal steps stand side by side: the n-th of a run is n - 1 beyond its first.
        rising = steps[::-1]
        first = np.searchsorted(self._steps, rising)
        run = np.arange(len(rising)) - np.searchsorted(rising, rising)
        self._steps = np.delete(self._steps, first + run)

    def _lost(self, most: int) -> Array:
        """Return what 1 to `most` devices less cost those that are served."""
        idle = max(0, self._devices - len(self._steps))
        begin = max(0, len(self._steps) - self._devices)
        served = self._steps[begin : begin + max(0, most - idle)]
        return np.cumsum(np.concatenate((np.zeros(min(idle, most)), served)))


def choose_types(
    offers: Sequence[Mapping[str, Offer]], devices: Mapping[str, int], held: Sequence[str]
) -> list[str]:
    """Return each job's type; `held`: the one it begins with, "" if none.

    A job stays where it is if no other type adds more; without one it goes to the type with most room.
    """
    steps = [{each: steps_of(offer) for each, offer in own.items()} for own in offers]
    sides = {each: _Side(count) for each, count in devices.items()}
    chosen = [type_ if type_ in own else "" for type_, own in zip(held, steps, strict=True)]
    for type_, own in zip(chosen, steps, strict=True):
        if type_:
            sides[type_].put(own[type_])
    order = sorted(range(len(steps)), key=lambda i: (bool(chosen[i]), -_height(steps[i]), i))
    for _ in range(ROUNDS):
        moved = sum(_moved(i, steps[i], sides, chosen) for i in order)
        if not moved + sum(_swapped(*pair, steps, sides, chosen) for pair in combinations(sides, 2)):
            break
    return chosen


def _height(own: Steps) -> float:
    """Return the most that a device adds to a job."""
    return max((float(each[0]) for each in own.values() if len(each)), default=0.0)


def _moved(i: int, own: Steps, sides: Mapping[str, _Side], chosen: list[str]) -> bool:
    """Put a job where it adds most; return whether that is another type than before."""
    before = chosen[i]
    if len(own) == 1 and before:
        return False
    if before:
        sides[before].take(own[before])
    worth = {each: sides[each].join(steps) for each, steps in own.items()}
    if not worth:
        return False
    best = max(worth, key=lambda each: (worth[each], each == before))
    if before and worth[best] <= worth[before] * (1 + ABOUT):
        best = before
    sides[best].put(own[best])
    chosen[i] = best
    return best != before


def _swapped(
    one: str, other: str, steps: Sequence[Steps], sides: Mapping[str, _Side], chosen: list[str]
) -> int:
    """Let pairs change places as long as it adds something; return how many did."""
    both = [i for i, own in enumerate(steps) if one in own and other in own]
    eager = {
        here: sorted(
            (i for i in both if chosen[i] == here), key=lambda i: (-_urge(steps[i], here, there), i)
        )
        for here, there in ((one, other), (other, one))
    }
    count = 0
    for i, j in zip(eager[one], eager[other], strict=False):
        before = sides[one].served + sides[other].served
        _exchange(i, j, one, other, steps, sides)
        if sides[one].served + sides[other].served <= before * (1 + ABOUT):
            _exchange(j, i, one, other, steps, sides)
            break
        chosen[i], chosen[j] = other, one
        count += 1
    return count


def _urge(own: Steps, here: str, there: str) -> float:
    """Return what a job would gain by another type, for each device that it could use."""
    gain = float(own[there].sum() - own[here].sum())
    return gain / max(1, len(own[there]))


def _exchange(
    i: int, j: int, one: str, other: str, steps: Sequence[Steps], sides: Mapping[str, _Side]
) -> None:
    """Take job i from one type to the other, and j the other way."""
    sides[one].take(steps[i][one])
    sides[other].take(steps[j][other])
    sides[one].put(steps[j][one])
    sides[other].put(steps[i][other])
