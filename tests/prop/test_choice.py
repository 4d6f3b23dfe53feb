"""The choice table against all subsets, one by one."""

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise
from random import Random

import pytest

from muster.model.choice import Choice
from muster.model.topology import ConfigurationSet, Layer, Level
from tests.unit.model.shapes import LARGE, SMALL, table

small = pytest.mark.parametrize("kind", SMALL.values(), ids=SMALL)
large = pytest.mark.parametrize("kind", LARGE.values(), ids=LARGE)
every = pytest.mark.parametrize("kind", [*SMALL.values(), *LARGE.values()], ids=[*SMALL, *LARGE])


def devices_of(bits: int) -> list[int]:
    return [i for i in range(16) if bits >> i & 1]


def bitmap(devices: tuple[int, ...]) -> int:
    return sum(1 << i for i in devices)


def subsets(free: int, k: int) -> list[int]:
    return [bitmap(chosen) for chosen in combinations(devices_of(free), k)]


@cache
def apart(layers: tuple[Layer, ...], a: int, b: int) -> int:
    """4, 8, 12 for a pair below one switch, socket, node; one less if NVLink joins the pair there."""
    pair = 1 << a | 1 << b
    joining = [layer for layer in layers if any(pair & group == pair for group in layer.groups)]
    level = min(layer.level for layer in joining)
    extra = sum(layer.level == level for layer in joining) - 1
    return 4 * level - extra


def closeness(kind: ConfigurationSet, bits: int) -> tuple[int, int]:
    pairs = [apart(kind.layers, a, b) for a, b in combinations(devices_of(bits), 2)]
    return max(pairs, default=0), sum(pairs)


def whole_left(kind: ConfigurationSet, free: int) -> list[int]:
    """Sizes of the subtrees that are wholly free, largest first."""
    groups = {group for layer in kind.layers for group in layer.groups}
    return sorted((group.bit_count() for group in groups if group & ~free == 0), reverse=True)


def crowd(kind: ConfigurationSet, free: int, bits: int) -> tuple[int, int]:
    """Busy devices below the switches in use, and below the sockets in use."""
    return tuple(  # type: ignore[return-value]
        sum(
            (group & ~free).bit_count()
            for group in [layer.groups for layer in kind.layers if layer.level is level][-1]
            if group & bits
        )
        if any(layer.level is level for layer in kind.layers)
        else 0
        for level in (Level.SWITCH, Level.SOCKET)
    )


def level_of(kind: ConfigurationSet, bits: int) -> Level:
    widest, _ = closeness(kind, bits)
    return Level(-(-widest // 4))


def assert_packed(kind: ConfigurationSet, free: int, k: int) -> None:
    found = table(kind).pack(free, k)
    every = subsets(free, k)
    if not every:
        assert found is None
        return
    assert found is not None
    closest = min(closeness(kind, bits) for bits in every)
    assert closeness(kind, found.bits) == closest
    equals = [bits for bits in every if closeness(kind, bits) == closest]
    assert whole_left(kind, free & ~found.bits) == max(whole_left(kind, free & ~b) for b in equals)
    assert_described(kind, free, k, found)


def assert_spread(kind: ConfigurationSet, free: int, k: int) -> None:
    found = table(kind).spread(free, k)
    every = subsets(free, k)
    if not every:
        assert found is None
        return
    assert found is not None
    widest = min(closeness(kind, bits)[0] for bits in every)
    assert closeness(kind, found.bits)[0] == widest
    equals = [bits for bits in every if closeness(kind, bits)[0] == widest]
    assert crowd(kind, free, found.bits) == min(crowd(kind, free, bits) for bits in equals)
    assert_described(kind, free, k, found)


def assert_beside(kind: ConfigurationSet, free: int, held: int, k: int) -> None:
    found = table(kind).beside(free, held, k)
    every = subsets(free, k)
    if not every:
        assert found is None
        return
    assert found is not None
    assert found.bits & ~free == 0
    assert found.bits.bit_count() == k
    closest = min(closeness(kind, bits | held) for bits in every)
    assert closeness(kind, found.bits | held) == closest
    equals = [bits for bits in every if closeness(kind, bits | held) == closest]
    assert whole_left(kind, free & ~found.bits) == max(whole_left(kind, free & ~b) for b in equals)
    assert found.level is level_of(kind, found.bits | held)


def assert_described(kind: ConfigurationSet, free: int, k: int, found: Choice) -> None:
    assert found.bits & ~free == 0
    assert found.bits.bit_count() == k
    assert found.level is level_of(kind, found.bits) is kind.level_of(found.bits)
    assert divmod(found.neighbours, 32) == crowd(kind, free, found.bits)


def sampled(kind: ConfigurationSet, seed: int, count: int) -> Iterator[int]:
    """Bitmaps of at most 11 free devices: beyond that one by one takes too long."""
    random = Random(seed)
    while count:
        free = random.getrandbits(kind.devices)
        if free.bit_count() <= 11:
            count -= 1
            yield free


@small
def test_pack_takes_the_closest_and_leaves_the_largest_subtree_whole(kind: ConfigurationSet) -> None:
    for free in range(kind.all_devices + 1):
        for k in range(kind.devices + 1):
            assert_packed(kind, free, k)


@large
def test_pack_does_so_with_sixteen_devices(kind: ConfigurationSet) -> None:
    for free in sampled(kind, 1, 40):
        assert_packed(kind, free, 1 + free % 8)


@small
def test_spread_takes_the_closest_with_the_fewest_busy_neighbours(kind: ConfigurationSet) -> None:
    for free in range(kind.all_devices + 1):
        for k in range(kind.devices + 1):
            assert_spread(kind, free, k)


@large
def test_spread_does_so_with_sixteen_devices(kind: ConfigurationSet) -> None:
    for free in sampled(kind, 2, 40):
        assert_spread(kind, free, 1 + free % 8)


@every
def test_beside_takes_what_lies_closest_to_the_devices_already_held(kind: ConfigurationSet) -> None:
    random = Random(3)
    for free in sampled(kind, 4, 60):
        held = random.getrandbits(kind.devices) & ~free
        assert_beside(kind, free, held, random.randrange(6))


def swaps(kind: ConfigurationSet) -> list[dict[int, int]]:
    """Every exchange of two alike neighbours in the tree: devices of one group, groups of one group."""
    found = []
    alone = Layer(Level.DEVICE, tuple(1 << i for i in range(kind.devices)), kind.layers[0].link)
    layers = (alone, *kind.layers)
    for inner, outer in pairwise(layers):
        for a, b in combinations(inner.groups, 2):
            if a.bit_count() == b.bit_count() and any((a | b) & ~g == 0 for g in outer.groups):
                pairs = list(zip(devices_of(a), devices_of(b), strict=True))
                found.append(dict(pairs) | {y: x for x, y in pairs})
    return found


def swapped(bits: int, swap: dict[int, int]) -> int:
    return sum(1 << swap.get(i, i) for i in devices_of(bits))


def orbits(kind: ConfigurationSet) -> list[set[int]]:
    """All bitmaps, those that swaps turn into each other together."""
    left, found = set(range(kind.all_devices + 1)), []
    exchanges = swaps(kind)
    while left:
        orbit, new = set[int](), {left.pop()}
        while new:
            orbit |= new
            new = {swapped(bits, swap) for bits in new for swap in exchanges} - orbit
        left -= orbit
        found.append(orbit)
    return found


def answers(kind: ConfigurationSet, free: int, k: int) -> list[tuple[int, int, int] | None]:
    choices = (table(kind).pack(free, k), table(kind).spread(free, k))
    return [None if c is None else (c.level, c.distance, c.neighbours) for c in choices]


@small
def test_bitmaps_have_one_shape_just_when_swapping_equal_subtrees_joins_them(
    kind: ConfigurationSet,
) -> None:
    found = orbits(kind)
    shapes = [{table(kind).shape(bits) for bits in orbit} for orbit in found]
    assert all(len(each) == 1 for each in shapes)
    assert len(set.union(*shapes)) == len(found)


@small
def test_bitmaps_of_one_shape_give_equally_good_answers(kind: ConfigurationSet) -> None:
    for orbit in orbits(kind):
        for k in range(1, kind.devices + 1):
            pack, spread = zip(*(answers(kind, free, k) for free in orbit), strict=True)
            assert len(set(spread)) == 1
            # Pack does not look at neighbours, so equals may differ in them.
            assert len({each and each[:2] for each in pack}) == 1


@large
def test_bitmaps_of_one_shape_give_equally_good_answers_with_sixteen_devices(
    kind: ConfigurationSet,
) -> None:
    random = Random(5)
    exchanges = swaps(kind)
    for free in sampled(kind, 6, 40):
        other = free
        for swap in random.choices(exchanges, k=12):
            other = swapped(other, swap)
        assert table(kind).shape(free) == table(kind).shape(other)
        for k in (1, 2, 3, 5):
            (pack, spread), (other_pack, other_spread) = answers(kind, free, k), answers(kind, other, k)
            assert spread == other_spread
            assert (pack and pack[:2]) == (other_pack and other_pack[:2])


@small
def test_nodes_of_one_shape_have_places_that_are_equally_close(kind: ConfigurationSet) -> None:
    """Placing ranks a shape by one of its nodes (`place/fit.py`)."""
    choices, seen = table(kind), dict[tuple[int, int], tuple[object, ...]]()
    for free in range(1 << kind.devices):
        for k in range(1, free.bit_count() + 1):
            packed, spread = choices.pack(free, k), choices.spread(free, k)
            assert packed is not None
            assert spread is not None
            assert packed.level is spread.level
            close = (packed.level, packed.distance, free.bit_count())
            assert seen.setdefault((choices.shape(free), k), close) == close
