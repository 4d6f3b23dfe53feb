"""Asynchronous successive halving: who goes on from a rung, and who never will.

Of n members that have reached a rung, the best n/eta go on (rounded down); the others pause, since
more members may come, and with them more places. Nobody waits for a rung to be complete. Once even all
that may still come would not give a member a place, it stops for good. A rung that fewer than eta
members can reach stops nobody: the last ones train to their own end.

Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, algorithm 2.
"""

from dataclasses import dataclass

from muster.core.sweeps.sweep_state import RungState, SweepState
from muster.model.sweep import Asha


@dataclass(frozen=True, slots=True)
class RungRanking:
    """A rung, the best member first."""

    ranked: tuple[int, ...]
    """Without those whose metric is no number."""
    places: int
    """How many of them go on."""
    most: int
    """How many may do so once all have come that can."""

    @property
    def best(self) -> tuple[int, ...]:
        """The members that go on."""
        return self.ranked[: self.places]


def rankings(state: SweepState) -> list[RungRanking]:
    """Return who is among the best of each rung now."""
    asha = state.sweep.asha
    found: list[RungRanking] = []
    if asha is None:
        return found
    may_come = _may_come(state)
    for number, rung in enumerate(state.rungs):
        ranking = _ranking(asha, rung, len(rung.values) + may_come)
        found.append(ranking)
        # The next rung: those that went on and have not come yet, and whoever may still go on.
        after = state.rung(number + 1).values
        under_way = sum(place not in after for place in rung.promoted if place not in state.over)
        waiting = ranking.ranked[: ranking.most]
        may_come += under_way + sum(place not in rung.promoted for place in waiting)
    return found


def _ranking(asha: Asha, rung: RungState, most: int) -> RungRanking:
    """Rank the members of a rung, which a limited number can reach."""
    known = [(asha.better_first(value), place) for place, value in rung.values.items()]
    ranked = tuple(place for key, place in sorted(known) if key != float("inf"))
    if most < asha.eta:  # too few to compare: the last ones train to their own end
        return RungRanking(ranked, len(ranked), len(ranked))
    return RungRanking(ranked, len(rung.values) // asha.eta, most // asha.eta)


def promotable(state: SweepState) -> list[tuple[int, int]]:
    """Return paused members that may go on, with their rung: the highest rung first, then the best."""
    found = [
        (place, number)
        for number, ranking in reversed(list(enumerate(rankings(state))))
        for place in ranking.best
        if place not in state.rungs[number].promoted
    ]
    return _live(state, found)


def losers(state: SweepState) -> list[tuple[int, int]]:
    """Return paused members that cannot go on whatever comes, with their rung."""
    found = []
    for number, ranking in enumerate(rankings(state)):
        rung, hopeful = state.rungs[number], set(ranking.ranked[: ranking.most])
        out = rung.values.keys() - hopeful - rung.promoted
        found += [(place, number) for place in sorted(out)]
    return _live(state, found)


def _live(state: SweepState, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [
        (place, rung) for place, rung in found if place not in state.over and place not in state.losers
    ]


def _may_come(state: SweepState) -> int:
    """Return how many members may still reach the first rung."""
    reached = state.rung(0).values
    return state.to_come + sum(
        place not in reached and place not in state.over for place in range(state.entered)
    )


def verdict(state: SweepState, position: int, rung: int, *, final: bool) -> str:
    """Return why a member has stopped at a rung, in words with its figures."""
    asha = state.sweep.asha
    assert asha is not None
    reached = state.rung(rung)
    own, ranking = reached.values.get(position), rankings(state)[rung]
    metric = f"{asha.metric} {'is no number' if own is None else f'{own:.4g}'}"
    said = "stopped" if final else "paused"
    where = f"{said} at rung {rung + 1} ({_epochs(asha.epochs(rung))}): {metric}"
    share = f"the best {_share(asha.eta)}"
    if not ranking.best and final and ranking.ranked:
        first = reached.values[ranking.ranked[0]]
        return f"{where}, behind {first:.4g}, and at most {ranking.most} can go on"
    if not ranking.best:
        return f"{where}; {share} is known once {asha.eta} members have come"
    last = reached.values[ranking.best[-1]]
    side = "above" if asha.largest else "below"
    return f"{where}, {share} of {len(reached.values)} at or {side} {last:.4g}"


def _share(eta: int) -> str:
    return {2: "half", 3: "third", 4: "quarter"}.get(eta, f"1/{eta}")


def _epochs(count: int) -> str:
    return f"{count} epoch" if count == 1 else f"{count} epochs"
