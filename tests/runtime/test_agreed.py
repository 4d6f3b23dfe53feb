"""What members know of each other after a step that counted, and after one that did not."""

from muster.runtime.members.agreed import Agreed
from muster.runtime.members.ballot import MemberStatus, Vote
from muster.wire.messages import Member, MemberPlan


def joined() -> Agreed:
    """One worker at work, and one that is still without the state."""
    members = tuple(Member(f"worker-{rank}", "worker", "") for rank in range(2))
    agreed = Agreed(8)
    agreed.enter(
        [MemberStatus(holds=1.0), MemberStatus()], [True, False], MemberPlan(1, 0, members, 9.0)
    )
    return agreed


def test_a_joiner_takes_samples_after_the_step_that_completes_its_state() -> None:
    agreed = joined()
    assert agreed.shares == (8, 0)
    agreed.learn([Vote(able=1.0), Vote(able=1.0)])
    assert agreed.shares == (4, 4)


def test_a_void_step_completes_nobodys_state() -> None:
    # Its state would be whole once the step is applied, which it is not: a share would be lost.
    agreed = joined()
    agreed.learn([Vote(able=1.0), Vote(able=1.0)], applied=False)
    assert agreed.shares == (8, 0)
    agreed.learn([Vote(able=1.0), Vote(able=1.0)])
    assert agreed.shares == (4, 4)
