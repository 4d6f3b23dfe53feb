"""Nodes that Ray lends: when their jobs must leave, when they are gone, when an agent is brought."""

from hypothesis import given
from hypothesis import strategies as st

from muster.ports import NodeDeparts, NodeGone
from muster.providers.ray.lent import GRACE, RETURN, Bring, Effect, Lease, Lent

UP = frozenset({"n1"})
"""Its agent is connected."""


def test_a_held_node_gets_an_agent() -> None:
    lent, effects = Lent().held("n1", "a")
    assert effects == (Bring("a"),)
    assert lent.passed(1e9) == (lent, ())


def test_an_agent_of_an_earlier_daemon_is_left_alone() -> None:
    _, effects = Lent().kept("n1", "a")
    assert effects == ()


def test_a_raylet_that_is_restarted_soon_costs_nothing() -> None:
    lent, _ = Lent().held("n1", "a")
    lent, nothing = lent.died("n1", "a", "killed", now=0.0)
    lent, brought = lent.held("n1", "b")
    assert (nothing, brought) == ((), (Bring("b"),))
    assert lent.passed(1e9)[1] == ()


def test_jobs_leave_a_node_whose_raylet_stays_away_and_then_it_is_gone() -> None:
    lent, _ = Lent().held("n1", "a")
    lent, _ = lent.died("n1", "a", "killed", now=0.0)
    assert lent.passed(RETURN - 1)[1] == ()
    lent, effects = lent.passed(RETURN, UP)
    assert effects == (NodeDeparts("n1", GRACE, "Ray lost it: killed"),)
    assert lent.passed(RETURN + GRACE - 1)[1] == ()
    assert lent.passed(RETURN + GRACE, UP)[1] == (), "its agent is still there"
    lent, effects = lent.passed(RETURN + GRACE)
    assert effects == (NodeGone("n1", "Ray lost it: killed"),)
    assert lent == Lent()


def test_a_node_that_is_dead_for_ray_and_silent_for_us_is_gone() -> None:
    lent, _ = Lent().held("n1", "a")
    lent, _ = lent.died("n1", "a", "killed", now=0.0)
    lent, effects = lent.passed(RETURN)
    assert effects == (NodeGone("n1", "Ray lost it: killed"),)
    assert lent == Lent()


def test_jobs_have_until_the_deadline_of_a_drain() -> None:
    lent, _ = Lent().held("n1", "a")
    lent, effects = lent.drained("n1", "a", 300.0, now=0.0)
    assert effects == (NodeDeparts("n1", 300.0, "Ray drains it"),)
    lent, again = lent.drained("n1", "a", 299.0, now=1.0)
    assert again == ()
    lent, early = lent.died("n1", "a", "drained", now=10.0)
    assert early == ()
    assert lent.passed(300.0)[1] == (NodeGone("n1", "Ray drains it"),)


def test_a_later_raylet_waits_until_the_node_has_left() -> None:
    lent, _ = Lent().held("n1", "a")
    lent, _ = lent.drained("n1", "a", None, now=0.0)
    lent, effects = lent.held("n1", "b")
    assert effects == ()
    lent, effects = lent.passed(GRACE)
    assert effects == (NodeGone("n1", "Ray drains it"), Bring("b"))
    assert lent.nodes["n1"].lease is Lease.LENT


@given(
    st.lists(st.tuples(st.sampled_from("hkdxpq"), st.sampled_from("ab"), st.floats(0, 60)), max_size=30)
)
def test_no_agent_is_brought_to_a_node_that_is_leaving(steps: list[tuple[str, str, float]]) -> None:
    lent, now, leaving = Lent(), 0.0, False
    for kind, id, pause in steps:
        now += pause
        lent, effects = _step(lent, kind, id, now)
        for effect in effects:
            if isinstance(effect, Bring):
                assert not leaving
            else:
                leaving = isinstance(effect, NodeDeparts)


def _step(lent: Lent, kind: str, id: str, now: float) -> tuple[Lent, tuple[Effect, ...]]:
    match kind:
        case "h":
            return lent.held("n1", id)
        case "k":
            return lent.kept("n1", id) if "n1" not in lent.nodes else (lent, ())
        case "d":
            return lent.drained("n1", id, None, now)
        case "x":
            return lent.died("n1", id, "killed", now)
        case "q":
            return lent.passed(now, UP)
        case _:
            return lent.passed(now)
