"""What must hold of entitlements, whatever the tree and the demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.quotas.pools import entitle
from muster.model.pool import ROOT, Entitlements, Pool, PoolTree, Quota

TYPE = "A100"
SHARES = (0.1, 0.5, 1.0, 2.0, 3.0, 7.5)
EVERY = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True, slots=True)
class Case:
    """A tree, a capacity and a demand, with what each pool may ask for by its limits."""

    tree: PoolTree
    capacity: int
    demand: Mapping[tuple[str, str], int]

    def entitled(self) -> Entitlements:
        return entitle(self.tree, {TYPE: self.capacity}, self.demand)

    def want(self, name: str) -> int:
        kids = self.tree.below[name]
        asked = sum(map(self.want, kids)) if kids else self.demand.get((name, TYPE), 0)
        limit = self.tree.pools[name].quota(TYPE).limit
        return asked if limit is None else min(asked, limit)

    def owed(self, name: str) -> int:
        return min(self.want(name), self.tree.pools[name].quota(TYPE).reservation)

    def levels(self) -> list[tuple[int, tuple[str, ...]]]:
        """What each inner pool has to deal, and the pools it deals among."""
        entitled = self.entitled()
        return [
            (self.capacity if name == ROOT else entitled.of(name, TYPE), kids)
            for name, kids in self.tree.below.items()
            if kids
        ]


@st.composite
def cases(draw: st.DrawFn, flat: bool = False) -> Case:
    """Trees of up to nine pools whose reservations fit into their parents'."""
    count = draw(st.integers(1, 9))
    names = [f"p{i}" for i in range(count)]
    parents = [ROOT if flat else draw(st.sampled_from([ROOT, *names[:i]])) for i in range(count)]
    reservations = [draw(st.integers(0, 12)) for _ in names]
    for i in reversed(range(count)):
        owed_below = sum(r for r, p in zip(reservations, parents, strict=True) if p == names[i])
        reservations[i] = max(reservations[i], owed_below)
    pools = {}
    for name, parent, reservation in zip(names, parents, reservations, strict=True):
        limit = draw(st.none() | st.integers(reservation, reservation + 25))
        quota = Quota(reservation, draw(st.sampled_from(SHARES)), limit)
        pools[name] = Pool(name, parent, {TYPE: quota})
    tree = PoolTree(pools)
    demand = {(leaf, TYPE): draw(st.integers(0, 40)) for leaf in tree.leaves()}
    return Case(tree, draw(st.integers(0, 120)), demand)


@EVERY
@given(cases())
def test_pools_never_have_more_together_than_their_parent(case: Case) -> None:
    entitled = case.entitled()
    for room, kids in case.levels():
        assert sum(entitled.of(kid, TYPE) for kid in kids) <= room


@EVERY
@given(cases())
def test_no_pool_is_above_its_limit_or_its_demand(case: Case) -> None:
    entitled = case.entitled()
    for name, pool in case.tree.pools.items():
        limit = pool.quota(TYPE).limit
        assert 0 <= entitled.of(name, TYPE) <= case.want(name)
        assert limit is None or entitled.of(name, TYPE) <= limit


@EVERY
@given(cases())
def test_a_pool_that_asks_has_its_reservation_while_the_capacity_covers_them(case: Case) -> None:
    entitled = case.entitled()
    if case.capacity >= sum(case.owed(name) for name in case.tree.below[ROOT]):
        for name in case.tree.pools:
            assert entitled.of(name, TYPE) >= case.owed(name)


@EVERY
@given(cases())
def test_nothing_is_kept_back_while_somebody_asks(case: Case) -> None:
    entitled = case.entitled()
    for room, kids in case.levels():
        dealt = sum(entitled.of(kid, TYPE) for kid in kids)
        assert dealt == min(room, sum(case.want(kid) for kid in kids))


@EVERY
@given(cases())
def test_owed_reservations_are_cut_in_proportion(case: Case) -> None:
    entitled = case.entitled()
    for room, kids in case.levels():
        owed = sum(case.owed(kid) for kid in kids)
        if owed > room:
            for kid in kids:
                fair = Fraction(room * case.owed(kid), owed)
                assert abs(entitled.of(kid, TYPE) - fair) < 1


@EVERY
@given(cases(flat=True))
def test_one_level_is_pelotons_to_within_a_device(case: Case) -> None:
    entitled = case.entitled()
    for name, fair in peloton(case, case.tree.below[ROOT]).items():
        assert abs(entitled.of(name, TYPE) - fair) < 1


def peloton(case: Case, names: Sequence[str]) -> dict[str, Fraction]:
    """Steps 1 and 2 as published: in fractions, and in rounds."""
    owed = {name: Fraction(case.owed(name)) for name in names}
    left = case.capacity - sum(owed.values())
    if left < 0:
        return {name: part * case.capacity / sum(owed.values()) for name, part in owed.items()}
    got = dict(owed)
    while hungry := [name for name in names if got[name] < case.want(name) and left]:
        share = {name: Fraction(case.tree.pools[name].quota(TYPE).share) for name in hungry}
        total, round_room = sum(share.values()), left
        for name in hungry:
            part = min(share[name] / total * round_room, case.want(name) - got[name])
            got[name] += part
            left -= part
    return got


@EVERY
@given(cases(flat=True), st.data())
def test_asking_for_more_never_gives_less(case: Case, data: st.DataObject) -> None:
    pool = data.draw(st.sampled_from(case.tree.leaves()))
    more = {**case.demand, (pool, TYPE): case.demand[pool, TYPE] + data.draw(st.integers(1, 20))}
    after = Case(case.tree, case.capacity, more).entitled()
    assert after.of(pool, TYPE) >= case.entitled().of(pool, TYPE)


@EVERY
@given(cases(flat=True), st.integers(1, 30))
def test_more_capacity_costs_nobody_more_than_the_odd_device(case: Case, more: int) -> None:
    # Not even that would be lost by a divisor rule; largest remainders know this paradox.
    before = case.entitled()
    after = Case(case.tree, case.capacity + more, case.demand).entitled()
    for name in case.tree.pools:
        assert after.of(name, TYPE) >= before.of(name, TYPE) - 1


@EVERY
@given(cases())
def test_equal_inputs_give_equal_entitlements(case: Case) -> None:
    backwards = dict(reversed(list(case.demand.items())))
    assert Case(case.tree, case.capacity, backwards).entitled() == case.entitled()
