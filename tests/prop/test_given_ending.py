"""What holds for endings that members are told while they train."""

from hypothesis import given
from hypothesis import strategies as st

from muster.ending import Ending
from muster.runtime.members.ballot import Vote
from muster.runtime.state.given_ending import GivenEnding
from muster.wire.tasks.messages import UseEnding

endings = st.builds(
    Ending,
    st.floats(-1e6, 1e6).map(lambda bound: float(f"{bound:g}")),
    st.none() | st.sampled_from([0.001, 0.005, 0.25]),
    st.integers(1, 20),
) | st.builds(lambda share: Ending(decrease=share), st.sampled_from([0.001, 0.5]))
orders = st.lists(st.none() | endings, min_size=1, max_size=4)


def judged(found: object) -> tuple[object, ...]:
    """All of an ending that decides; of a bound alone, no patience."""
    if not isinstance(found, Ending):
        return (found,)
    return found.bound, found.decrease, found.patience if found.decrease else 0


@given(orders, st.permutations(range(4)))
def test_all_members_adopt_the_latest_order_whoever_has_heard_of_it(
    ordered: list[Ending | None], shuffled: list[int]
) -> None:
    told = [
        GivenEnding.of(UseEnding(str(each) if each else "", at)) for at, each in enumerate(ordered, 1)
    ]
    votes = [Vote(**told[i % len(told)].row()) for i in shuffled] + [Vote()]
    agreed = GivenEnding().newest(votes)
    latest = ordered[max(i % len(told) for i in shuffled)]
    assert judged(agreed.instead_of(Ending(bound=1.0))) == judged(latest)
    assert agreed.newest([Vote()]) == agreed


def test_without_an_order_the_scripts_own_holds() -> None:
    own = Ending(bound=1.0)
    assert GivenEnding().newest([Vote(), Vote()]).instead_of(own) is own
