"""Who keeps which part of a model: every element is owned once, and mirrored on another worker."""

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from muster.runtime.sharded.blocks import find_blocks
from muster.runtime.sharded.exchange import ShareRoutes
from muster.runtime.sharded.kept_parts import KeptParts
from muster.runtime.sharded.layout import ShareLayout, mirrors
from muster.runtime.sharded.sharded_model import ShardedModel
from muster.runtime.shards.ownership import merged
from muster.runtime.shards.state_pieces import Piece

HOSTS = st.lists(st.sampled_from("abcd"), min_size=2, max_size=9)


@given(hosts=HOSTS)
def test_each_worker_mirrors_one_other(hosts: list[str]) -> None:
    found = mirrors(hosts)
    assert sorted(found) == list(range(len(hosts)))
    assert all(mirror != rank for rank, mirror in enumerate(found))
    if 2 * max(Counter(hosts).values()) <= len(hosts):  # else some host has nowhere to go
        assert all(hosts[mirror] != hosts[rank] for rank, mirror in enumerate(found))


@given(workers=st.integers(1, 9), lengths=st.lists(st.integers(1, 50), min_size=1, max_size=4))
def test_every_element_has_one_owner_and_another_mirror(workers: int, lengths: list[int]) -> None:
    tasks = tuple(f"worker-{rank}" for rank in range(workers))
    layout = ShareLayout(tasks, mirrors(["a"] * workers) if workers > 1 else ())
    held = layout.holdings(lengths)
    whole = [(one.tensor, one.begin, one.end) for one in merged(h.range for h in held)]
    assert whole == [(unit, 0, length) for unit, length in enumerate(lengths)]
    assert all(h.mirror not in (h.owner, None) for h in held) or workers == 1


@given(hosts=HOSTS, mirrored=st.booleans())
def test_workers_are_sent_what_they_lack_and_nothing_else(hosts: list[str], mirrored: bool) -> None:
    count = len(hosts)
    layout = ShareLayout(tuple(map(str, range(count))), mirrors(hosts) if mirrored else ())
    routes = [ShareRoutes(rank, count, layout) for rank in range(count)]
    for rank, route in enumerate(routes):
        assert sorted([*layout.kept(rank), *route.sources]) == list(range(count))
        assert all(rank in routes[peer].targets for peer in route.sources)
        assert len(route.sources) == len(route.targets) == count - (2 if mirrored else 1)
    assert layout.whole == (mirrored and count == 2)


@given(
    before=st.integers(1, 5),
    after=st.integers(1, 5),
    mirrored=st.booleans(),
    width=st.integers(1, 7),
)
def test_parts_fetched_from_others_make_up_the_same_model(
    before: int, after: int, mirrored: bool, width: int
) -> None:
    def layout(workers: int) -> ShareLayout:
        both = mirrored and workers > 1
        return ShareLayout(tuple(map(str, range(workers))), mirrors(["a"] * workers) if both else ())

    whole = [p.detach().clone() for p in make(width)[0].parameters()]
    old = [kept(width, layout(before), rank) for rank in range(before)]
    pieces = [piece for parts, _ in old for piece in parts.own()]
    for rank in range(after):
        parts, model = kept(width, layout(after), rank, pieces)
        for piece in parts.own():
            value = whole[piece.parameter].reshape(-1)[piece.begin : piece.end]
            assert torch.equal(piece.state["value"], value)
            assert torch.equal(piece.state["exp_avg"], value + 1)
        assert sum(p.numel() for p in model.parameters()) >= sum(
            piece.end - piece.begin for piece in parts.own()
        )


def make(width: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Two blocks and a parameter outside of them, with Adam's state of its own values plus one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.ModuleList(nn.Linear(width, width) for _ in range(2)), nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        more = parameter.detach() + 1
        optimizer.state[parameter] = {"step": torch.tensor(3.0), "exp_avg": more, "exp_avg_sq": more}
    return model, optimizer


def kept(
    width: int, layout: ShareLayout, rank: int, pieces: list[Piece] | None = None
) -> tuple[KeptParts, nn.Module]:
    """A worker that began with everything, or got its part in pieces."""
    model, optimizer = make(width)
    if pieces is not None:
        for parameter in model.parameters():
            parameter.data.zero_()
    parts = KeptParts(ShardedModel(model, True), optimizer, torch.device("cpu"))
    parts.keep(layout, rank, pieces or [])
    return parts, model


def test_blocks_are_the_layers_of_lists_and_the_rest_is_the_root() -> None:
    model = nn.ModuleDict(
        {
            "embed": nn.Embedding(7, 4),
            "layers": nn.ModuleList(nn.TransformerEncoderLayer(4, 2, 8) for _ in range(3)),
            "head": nn.Linear(4, 7),
        }
    )
    for kinds in (True, nn.TransformerEncoderLayer):
        blocks = find_blocks(model, kinds)
        assert [block.module for block in blocks] == [None, *model["layers"]]
        assert [len(unit.places) for unit in blocks[0].units] == [3]


def test_what_two_blocks_share_belongs_to_the_root() -> None:
    one, two = nn.Linear(3, 3), nn.Linear(3, 3)
    two.weight = one.weight
    root, first, second = find_blocks(nn.ModuleList([one, two]), True)
    assert [unit.places for unit in root.units] == [[0]]
    assert [unit.places for unit in (*first.units, *second.units)] == [[1], [2]]
