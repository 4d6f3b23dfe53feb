"""The speed of one job on devices of several types, from its speeds on each type alone.

The runtime gives each device a part of the batch that suits it, so that all finish together (KAIST;
`split.batch`): devices of rates r_t add up, and then all synchronise. With n_t devices of type t, K in
all, and s_t(k) the job's speed on k devices of type t, in work per s:

    1 / s = 1 / sum n_t s_t(1)  +  S,    S_t = 1 / s_t(K) - 1 / (K s_t(1))         [s per unit of work]

S_t is what K devices of one type lose to synchronising. Where links alone decide it is the same for all
types; where it is a part of a step it is shorter on faster devices. S is their harmonic mean, weighted
by n_t: exact in both cases.
"""

from collections.abc import Mapping

from muster.model.outlook import Speed


def mixed_rate(speed: Speed, workers: Mapping[str, int]) -> float:
    """Return work per s on this many workers of each type; 0: it cannot run so, or nobody can tell."""
    parts = {each: count for each, count in workers.items() if count}
    if len(parts) < 2:
        return sum(speed.rate(each, count) for each, count in parts.items())
    total = sum(parts.values())
    alone = {each: speed.rate(each, 1) for each in parts}
    together = {each: speed.rate(each, total) for each in parts}
    if min((*alone.values(), *together.values())) <= 0.0:
        return 0.0
    added = sum(count * alone[each] for each, count in parts.items())
    lost = {each: max(0.0, 1 / together[each] - 1 / (total * alone[each])) for each in parts}
    if min(lost.values()) <= 0.0:
        return added
    return 1 / (1 / added + total / sum(count / lost[each] for each, count in parts.items()))
