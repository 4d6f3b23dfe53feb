"""However connections come and go: their number is bounded, and who was let in is never put out."""

from hypothesis import given
from hypothesis import strategies as st

from muster.api.door.connections import Connections
from muster.api.door.peer import Peer

TOTAL, PER_PEER = 6, 3

steps = st.lists(
    st.tuples(st.sampled_from(["enter", "trust", "leave"]), st.integers(0, 9)), min_size=1, max_size=80
)


@given(steps)
def test_connections_are_bounded_and_proper_ones_stay(path: list[tuple[str, int]]) -> None:
    connections = Connections(TOTAL, PER_PEER)
    inside: list[Peer] = []
    proper: list[Peer] = []

    def hang_up(peer: Peer) -> None:
        assert peer not in proper, "a connection that was let in was ended for another"
        inside.remove(peer)
        connections.leave(peer)

    for step, number in path:
        if step == "enter":
            peer = Peer(f"p{number % 4}", uid=1 if number == 9 else None)
            peer.hang_up = lambda peer=peer: hang_up(peer)  # type: ignore[misc]
            room = sum(each.uid == peer.uid for each in proper) < TOTAL
            mine = sum(each.key == peer.key for each in proper) < PER_PEER
            if connections.enter(peer):
                inside.append(peer)
            else:
                assert not (room and mine), "there was room, or a stranger to make it"
        elif inside:
            peer = inside[number % len(inside)]
            if step == "trust" and peer not in proper:
                peer.trusted = True
                proper.append(peer)
            elif step == "leave":
                inside.remove(peer)
                proper[:] = [each for each in proper if each is not peer]
                connections.leave(peer)
        for uid in (None, 1):
            assert sum(each.uid == uid for each in inside) <= TOTAL
        for key in {each.key for each in inside}:
            assert sum(each.key == key for each in inside) <= PER_PEER
