"""Ring or owners: hand-worked times and shares."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.comm.choose import LATENCY, MARGIN, SyncChoice, choose, make
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.probe import _links, probe
from muster.runtime.comm.ring import Ring
from muster.runtime.comm.sharded import CHUNK, Sharded
from muster.wire.tasks.messages import Member

from .comm_members import together

S = 1_200_000_000
"""Bytes of gradients: large, so that latencies and single chunks are little beside them."""


def workers(*bandwidths: float) -> list[Member]:
    """One on each host."""
    return [
        Member(f"w{i}", "worker", f"10.0.0.{i}:1", bandwidth) for i, bandwidth in enumerate(bandwidths)
    ]


def server(bandwidth: float, host: str = "10.0.1.1") -> Member:
    return Member("s", "server", f"{host}:1", bandwidth)


def test_equal_links_take_the_ring() -> None:
    """2 · 3/4 · 1.2e9 B over 1e8 B/s = 18 s, and 6 turns for each of two buckets."""
    choice = choose("auto", workers(1e8, 1e8, 1e8, 1e8), [S // 2, S // 2])
    assert (choice.kind, choice.shares) == ("ring", ())
    assert choice.predicted["ring"] == pytest.approx(18 + 12 * LATENCY)
    # Owners: (S + 2 S/4)/bw = 18 s as well, and the lag of three owners' chunks.
    assert choice.predicted["sharded"] == pytest.approx(18 + 3 * CHUNK / 1e8 + 2 * LATENCY)
    assert choice.words == "ring, predicted 18 s against 18 s by sharded owners"


def test_a_slow_link_owns_nothing() -> None:
    """It pushes and pulls all in S/bw = 24 s anyway; the others could own 1/2 each by then, so 1/3."""
    choice = choose("auto", workers(1e8, 1e8, 1e8, 5e7), [S])
    assert choice.kind == "sharded"
    assert choice.shares == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0), abs=1e-6)
    assert choice.predicted["ring"] == pytest.approx(36, rel=1e-3)
    assert choice.predicted["sharded"] == pytest.approx(24, rel=1e-3)
    assert choice.words == "sharded owners 33/33/33/0 %, predicted 24 s against 36 s by ring"


def test_shares_fill_unequal_links_alike() -> None:
    """(1 + 4x)/150 = (1 + 4y)/100 and 3x + 3y = 1: x = 1/4, y = 1/12, done at 2/150 S = 16 s.

    The ring: 2 · 5/6 S/100 = 20 s. (Links in units of 1e6 B/s.)
    """
    choice = choose("auto", workers(1.5e8, 1.5e8, 1.5e8, 1e8, 1e8, 1e8), [S])
    assert choice.shares == pytest.approx((1 / 4,) * 3 + (1 / 12,) * 3)
    assert choice.predicted["sharded"] == pytest.approx(16, rel=2e-3)
    assert choice.predicted["ring"] == pytest.approx(20, rel=1e-3)


def test_unknown_links_take_the_ring_or_equal_shares() -> None:
    unknown = workers(1e8, 1e8, 0.0)
    assert choose("auto", unknown, [S]) == SyncChoice("ring", (), {}, "ring")
    assert choose("sharded", unknown, [S]).shares == pytest.approx((1 / 3,) * 3)
    assert choose("dedicated", [*unknown, server(0.0)], [S]).shares == (0, 0, 0, 1)


def test_one_host_takes_the_ring_whatever_its_link() -> None:
    members = [replace(member, address=f"h:{i}") for i, member in enumerate(workers(1e8, 1e8, 5e7))]
    assert choose("auto", members, [S]).words == "ring"


def test_members_of_one_host_share_its_link() -> None:
    """Two and two workers: the ring crosses each link once each way, 2 · 3/4 · 1.2e9/1e8 = 18 s.

    Owners of 1/4 each: every link carries 2 S (1 - 1/2) + 2 S/2 = 2 S, 24 s.
    """
    pairs = [replace(member, address=f"h{i // 2}:{i}") for i, member in enumerate(workers(*[1e8] * 4))]
    choice = choose("auto", pairs, [S])
    assert choice.predicted["ring"] == pytest.approx(18, rel=1e-3)
    assert choice.predicted["sharded"] == pytest.approx(24, rel=1e-3)
    # In turns h0 h1 h0 h1 the ring crosses twice as often.
    turns = [pairs[i] for i in (0, 2, 1, 3)]
    assert choose("auto", turns, [S]).predicted["ring"] == pytest.approx(36, rel=1e-3)


def test_servers_own_all_where_they_are_fast_enough() -> None:
    """n O/bw = 2 · 1.2e9/2e8 = 12 s at the server, S/bw = 12 s at the workers: nobody beats that."""
    choice = choose("auto", [*workers(1e8, 1e8), server(2e8)], [S])
    assert (choice.kind, choice.shares) == ("dedicated", (0, 0, 1))
    assert choice.predicted["dedicated"] == pytest.approx(12, rel=1e-2)
    assert choice.words.startswith("servers 0/0/100 %, predicted 12 s against")


def test_a_slow_server_owns_its_part_only() -> None:
    """(1 + x)/100 = 3 y/50 and 3x + y = 1: y = 4/19, x = 5/19; 24/1900 S = 15.16 s against 72 s."""
    members = [*workers(1e8, 1e8, 1e8), server(5e7)]
    choice = choose("auto", members, [S])
    assert choice.kind == "sharded"
    assert choice.shares == pytest.approx((5 / 19, 5 / 19, 5 / 19, 4 / 19))
    assert choice.predicted["sharded"] == pytest.approx(15.16, rel=2e-3)
    assert choice.predicted["dedicated"] == pytest.approx(72, rel=1e-3)
    assert choose("dedicated", members, [S]).kind == "dedicated"


def test_the_plan_has_its_way() -> None:
    slow = workers(1e8, 1e8, 1e8, 5e7)
    assert choose("ring", slow, [S]).kind == "ring"
    assert choose("sharded", workers(1e8, 1e8), [S]).kind == "sharded"
    # A server has no gradients for a ring to sum: the workers own them then.
    assert choose("ring", [*workers(1e8, 1e8), server(1e8)], [S]).shares == (0.5, 0.5, 0)
    assert choose("auto", slow, [S], gpus=True).kind == "nccl"


@given(st.lists(st.floats(1e6, 1e10), min_size=2, max_size=8), st.integers(0, 3))
def test_shares_add_up_and_the_choice_is_never_predicted_slower(
    rates: list[float], servers: int
) -> None:
    members = workers(*rates) + [server(1e9, f"10.0.1.{i}") for i in range(servers)]
    choice = choose("auto", members, [S])
    if choice.shares:
        assert sum(choice.shares) == pytest.approx(1)
        assert min(choice.shares) >= 0 and len(choice.shares) == len(members)
    assert choice.predicted[choice.kind] * MARGIN <= min(choice.predicted.values())


def test_make_builds_what_was_chosen() -> None:
    members = workers(1e8, 1e8)

    def act(group: GlooGroup) -> list[str]:
        flats = [torch.ones(4), torch.ones(2)]
        with pytest.raises(ValueError, match="3 members in a group of 2"):
            make(SyncChoice("ring"), group, flats, workers(1, 1, 1))
        built = [
            make(choice, group, flats, members)
            for choice in (SyncChoice("ring"), SyncChoice("sharded", (1.0, 0.0)))
        ]
        built[-1].begin()
        built[-1].put(0)
        built[-1].put(1)
        built[-1].finish()
        assert flats[0].tolist() == [2.0] * 4
        kinds = [type(each).__name__ for each in built]
        built[-1].close()
        return kinds

    assert together(2, act) == 2 * [[Ring.__name__, Sharded.__name__]]


# --- probing -------------------------------------------------------------------------------------


def test_probing_gives_every_rank_the_same_links() -> None:
    given_one = [
        replace(member, bandwidth=5e6 if i == 1 else 0.0) for i, member in enumerate(workers(1, 1, 1))
    ]
    found = together(3, lambda group: probe(group, given_one, 0.3))
    assert found[0] == found[1] == found[2]
    assert [member.task for member in found[0]] == ["w0", "w1", "w2"]
    assert found[0][1].bandwidth == 5e6  # what the plan says stands
    assert all(member.bandwidth > 0 for member in found[0])


def test_nothing_is_probed_where_all_is_known_or_on_one_host() -> None:
    known = tuple(workers(1e8, 1e9))
    beside = tuple(replace(member, address=f"h:{i}", bandwidth=0.0) for i, member in enumerate(known))
    # A group of one: an exchange with the other member would be an error.
    assert together(1, lambda group: probe(group, known)) == [known]
    assert together(1, lambda group: probe(group, beside)) == [beside]


def test_a_link_is_as_fast_as_the_most_that_was_seen_on_it() -> None:
    """Links of 4, 4 and 1 (both ways): a target's sum, unless more was seen of it as a peer."""
    into = torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 1.0], [0.4, 0.4, 0.0]])
    out_of = torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    # Target 2 saw 0.8 come in, but 1.0 came to it as a peer.
    assert _links(into, out_of) == [4.0, 4.0, 1.0]


def test_shares_that_were_decided_are_followed() -> None:
    choice = choose("sharded", workers(1e8, 1e8), [S], decided=(0.75, 0.25))
    assert (choice.kind, choice.shares) == ("sharded", (0.75, 0.25))


@pytest.mark.parametrize("decided", [(1.0,), (0.5, 0.4), (1.5, -0.5)])
def test_shares_that_are_not_for_these_members_are_ignored(decided: tuple[float, ...]) -> None:
    assert choose("sharded", workers(1e8, 1e8), [S], decided=decided).shares == (0.5, 0.5)


def test_only_owners_are_given_shares() -> None:
    """Of a plan with servers the workers own nothing, whatever it says."""
    members = [*workers(1e8, 1e8), server(1e8)]
    assert choose("dedicated", members, [S], decided=(0.5, 0.5, 0.0)).shares == (0.0, 0.0, 1.0)
    assert choose("dedicated", members, [S], decided=(0.0, 0.0, 1.0)).shares == (0.0, 0.0, 1.0)
