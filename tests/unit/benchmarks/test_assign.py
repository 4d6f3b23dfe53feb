"""Which tensor lies on which server, by three rules."""

from collections.abc import Callable, Sequence

import pytest

from muster.files.profile.profile_file import shipped_profile, shipped_profiles
from muster.model.profile import Tensor
from support.assign import PIECE, ServerLoad, by_shares, optimus, shares_of
from support.mxnet import mxnet

MB = 10**6
Rule = Callable[[Sequence[Tensor], int], list[ServerLoad]]


def tensors(*sizes: int) -> list[Tensor]:
    return [Tensor(f"t{i}", size, 1.0) for i, size in enumerate(sizes)]


def filled(of: Sequence[Tensor], servers: int) -> list[ServerLoad]:
    return by_shares(of, [1 / servers] * servers)


RULES: list[Rule] = [optimus, mxnet, filled]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("model", shipped_profiles())
def test_every_byte_lies_somewhere(rule: Rule, model: str) -> None:
    of = shipped_profile(model).tensors
    loads = rule(of, 5)
    assert sum(load.bytes for load in loads) == pytest.approx(sum(tensor.bytes for tensor in of))
    for tensor in of:
        held = sum(load.pieces.get(tensor.name, 0.0) for load in loads)
        assert held == pytest.approx(tensor.bytes)


def test_optimus_cuts_only_what_is_larger_than_an_even_part() -> None:
    # 100 in all, 25 for each: the 70 is cut over the emptiest, the others stay whole.
    loads = optimus(tensors(70, 20, 10), 4)
    assert sorted(load.bytes for load in loads) == pytest.approx([20, 25, 25, 30])
    assert sum("t1" in load.pieces for load in loads) == 1
    assert sum("t2" in load.pieces for load in loads) == 1


def test_optimus_puts_middle_blocks_where_they_fit_best() -> None:
    # 60 and 40 fill a server of 100 exactly, and so do 70 and 30.
    loads = optimus(tensors(70, 60, 40, 30), 2)
    assert [load.bytes for load in loads] == [100, 100]
    assert [sorted(load.pieces) for load in loads] == [["t0", "t3"], ["t1", "t2"]]


def test_optimus_deals_small_blocks_by_requests() -> None:
    small = [1] * 12
    loads = optimus(tensors(10_000, 10_000, *small), 2)
    assert [load.requests for load in loads] == [7, 7]


def test_optimus_deals_resnet_50_evenly_over_ten_servers() -> None:
    # The paper's own example: both bytes and requests are nearly even.
    of = shipped_profile("resnet50").tensors
    loads = optimus(of, 10)
    assert max(shares_of(loads)) < 0.103
    requests = [load.requests for load in loads]
    assert max(requests) - min(requests) <= 1


def test_optimus_small_blocks_pile_up_on_the_server_with_few_large_ones() -> None:
    # Two servers: blocks up to 1.2 MB count as small; the one full of large blocks has few requests.
    of = shipped_profile("resnet152").tensors
    assert max(shares_of(optimus(of, 2))) > 0.6
    assert max(shares_of(filled(of, 2))) < 0.51


@pytest.mark.parametrize("servers", [2, 4, 8])
@pytest.mark.parametrize("model", shipped_profiles())
def test_water_filling_is_even_to_within_a_piece(model: str, servers: int) -> None:
    of = shipped_profile(model).tensors
    total = sum(tensor.bytes for tensor in of)
    assert max(shares_of(filled(of, servers))) <= 1 / servers + PIECE / total


def test_water_filling_keeps_to_the_shares_wanted() -> None:
    of = shipped_profile("vgg16").tensors
    wanted = (0.4, 0.3, 0.2, 0.1)
    loads = by_shares(of, wanted)
    total = sum(tensor.bytes for tensor in of)
    for share, aim in zip(shares_of(loads), wanted, strict=True):
        assert share == pytest.approx(aim, abs=PIECE / total)


def test_water_filling_gives_nothing_to_a_server_with_no_share() -> None:
    loads = by_shares(tensors(10 * MB, 10 * MB), [0.5, 0.5, 0.0])
    assert loads[2].requests == 0


def test_water_filling_cuts_tensors_into_pieces_of_four_megabytes() -> None:
    (load,) = by_shares(tensors(10 * MB), [1.0])
    assert load.requests == 3


def test_mxnet_cuts_large_tensors_over_all_servers_and_leaves_small_ones_whole() -> None:
    large, small = 4 * MB, 4 * MB - 4
    loads = mxnet(tensors(large, small), 4)
    assert [load.pieces["t0"] for load in loads] == [MB] * 4
    assert sum("t1" in load.pieces for load in loads) == 1


def test_mxnet_is_blind_to_the_bytes_of_tensors_that_it_does_not_cut() -> None:
    # Every fourth tensor is large, and every fourth goes to the same server.
    sizes = [3_900_000 if i % 4 == 0 else 4_000 for i in range(16)]
    assert max(shares_of(mxnet(tensors(*sizes), 4))) > 0.9
    assert max(shares_of(optimus(tensors(*sizes), 4))) < 0.3


def test_shares_are_those_of_the_bytes() -> None:
    assert shares_of([ServerLoad(30.0), ServerLoad(10.0)]) == (0.75, 0.25)
