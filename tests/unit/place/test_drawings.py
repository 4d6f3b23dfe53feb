"""The drawings of docs/explanation/placement.md are what the program does."""

from dataclasses import replace
from pathlib import Path
from textwrap import indent

import pytest

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.topology import ConfigurationSet, Level, each_bit
from muster.place.board import Board
from muster.place.even import even
from muster.place.migrate import cheapest_migration
from muster.place.pack import pack
from muster.place.request import Request, Strategy
from muster.place.spread import spread
from tests.builders import cluster, node_set
from tests.numbers import name_of
from tests.unit.place.asks import ask
from tests.unit.place.test_migrate import small

PAGE = Path(__file__).parents[3] / "docs/explanation/placement.md"
SMALL_JOBS = {"A": ask(1), "B": ask(2), "C": ask(1), "D": ask(4)}
WITH_SERVERS = {"A": ask(6, servers=2)}


def drawn(there: Cluster, jobs: dict[str, Placement]) -> str:
    """A line for each node: a letter for each device in use, `·` free, `|` between sockets."""
    lines = []
    for node in there.nodes:
        kind = there.configuration_of(node)
        marks = ["·"] * kind.devices
        servers = ""
        for letter, placement in jobs.items():
            for slot in placement.slots:
                if slot.node == node.name:
                    servers += letter * (slot.role is Role.SERVER)
                    for at in each_bit(slot.bits):
                        marks[at] = letter
        line = "".join(_gap(kind, at) + mark for at, mark in enumerate(marks))
        lines.append(f"{node.name}  {line}" + (f"   servers: {servers}" if servers else ""))
    return "\n".join(lines)


def _gap(kind: ConfigurationSet, at: int) -> str:
    if at == 0:
        return ""
    level = kind.level_of(0b11 << (at - 1))
    return {Level.SWITCH: "", Level.SOCKET: " "}.get(level, " | ")


def one_by_one(strategy: Strategy, there: Cluster, jobs: dict[str, Request]) -> dict[str, Placement]:
    board, found = Board(there), {}
    for letter, request in jobs.items():
        placement = strategy(board, request)
        assert placement is not None
        board.take(placement.slots)
        found[letter] = placement
    return found


def assert_on_page(text: str) -> None:
    text = indent(text, "    ")
    assert text in PAGE.read_text(encoding="utf-8"), (
        f"docs/explanation/placement.md should show\n{text}"
    )


@pytest.mark.parametrize("strategy", [pack, spread])
def test_the_page_shows_where_pack_and_spread_put_four_small_jobs(strategy: Strategy) -> None:
    there = cluster(2)
    assert_on_page(drawn(there, one_by_one(strategy, there, SMALL_JOBS)))


@pytest.mark.parametrize("strategy", [pack, even])
def test_the_page_shows_six_workers_and_two_servers_packed_and_dealt_evenly(strategy: Strategy) -> None:
    there = cluster(3, replace(node_set(devices=4), millicores=6_000))
    assert_on_page(drawn(there, one_by_one(strategy, there, WITH_SERVERS)))


def test_the_page_shows_a_migration() -> None:
    jobs = [small("A", "n0", 0b1), small("B", "n1", 0b11, cost=2), small("C", "n2", 0b1111, cost=4)]
    there, before = cluster(3), {name_of(m.candidate.job): Placement(m.candidate.slots) for m in jobs}
    board = Board(there)
    for held in before.values():
        board.take(held.slots)
    found = cheapest_migration(board, ask(8, Level.NODE), jobs)
    assert found is not None
    after = before | {name_of(move.job): move.placement for move in found.moves}
    assert_on_page(drawn(there, before))
    assert_on_page(drawn(there, after | {"G": found.placement}))
