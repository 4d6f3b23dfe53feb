"""What members tell each other in a sum."""

from dataclasses import fields
from threading import Thread

import torch

from muster.runtime.comm.group import GlooGroup
from muster.runtime.members.ballot import MemberStatus, Vote, ballot_size, fill, read, roll_call, unused
from tests.runtime.comm_members import StoreServer
from tests.runtime.scripts.jobs import LONG


def test_the_sum_is_everybodys_row() -> None:
    votes = [
        Vote(samples=16, loss=3.5, built=4, able=1, cap=0, fixed=0.25, per_sample=0.5, request=2),
        Vote(samples=8, loss=1.25, built=4, able=0, cap=12, request=1),
    ]
    used = [torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 1.0])]
    total = torch.zeros(ballot_size(2, 3))
    for rank, vote in enumerate(votes):
        ballot = torch.full((ballot_size(2, 3),), 7.0)  # what an earlier step left
        fill(ballot, rank, 2, vote, used[rank])
        total += ballot
    assert list(read(total, 2)) == votes
    # Tensor 0 was used by the first rank, 2 by both, 1 by none.
    assert unused(total, 2) == [1]


def test_large_steps_survive_the_roll_call() -> None:
    # float32 holds whole numbers up to 2^24 only; steps and checksums go beyond.
    rows = meet(
        [MemberStatus(holds=1, step=2**40 + 1, layout=2**32 - 1), MemberStatus(worker=1, losses=0.1)]
    )
    for seen in rows:
        assert seen[0] == MemberStatus(holds=1, step=2**40 + 1, layout=2**32 - 1)
        assert seen[1] == MemberStatus(worker=1, losses=0.1)


def test_alone() -> None:
    mine = MemberStatus(worker=1, step=3)
    assert roll_call(None, mine, 0, 1) == (mine,)


def test_every_field_has_its_place() -> None:
    numbers = {field.name: float(place + 1) for place, field in enumerate(fields(MemberStatus))}
    assert roll_call(None, MemberStatus(**numbers), 0, 1) == (MemberStatus(**numbers),)


def meet(standings: list[MemberStatus]) -> list[tuple[MemberStatus, ...]]:
    """A roll call of two members, each a thread with a group of its own."""
    server = StoreServer()
    seen: dict[int, tuple[MemberStatus, ...]] = {}

    def member(rank: int) -> None:
        group = GlooGroup(server.client("1-roll", LONG), rank, 2, "127.0.0.1")
        seen[rank] = roll_call(group, standings[rank], rank, 2)
        group.close()

    threads = [Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    server.close()
    return [seen[0], seen[1]]
