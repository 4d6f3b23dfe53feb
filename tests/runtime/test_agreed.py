"""What members know of each other after a step that counted, and after one that did not."""

import torch

from muster.runtime.comm.base import Alone
from muster.runtime.comm.choose import SyncChoice
from muster.runtime.members.agreed import Agreed
from muster.runtime.members.ballot import MemberStatus, Vote
from muster.runtime.members.crew import Crew
from muster.wire.tasks.messages import Member, MemberPlan


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


def crew(*tasks: str, formation: int = 1) -> Crew:
    members = tuple(Member(task, "worker", "") for task in tasks)
    ballot, choice = torch.zeros(1), SyncChoice("ring")
    return Crew(MemberPlan(formation, 0, members, 9.0), 0, None, Alone(), choice, ballot)


def test_those_who_stay_are_known_to_each_other() -> None:
    agreed, before = joined(), crew("worker-0", "worker-1")
    agreed.learn([Vote(able=1.0, cap=7), Vote(able=1.0, cap=20)])
    after = crew("worker-1", formation=2)
    assert agreed.knows(before, after)
    agreed.stay([1], after.plan)
    assert agreed.shares == (8,)


def test_a_roll_is_called_for_joiners_and_for_those_without_the_state() -> None:
    agreed, before = joined(), crew("worker-0", "worker-1")
    assert not agreed.knows(before, crew("worker-1", formation=2))
    assert not agreed.knows(before, crew("worker-0", "worker-2", formation=2))
    assert not agreed.knows(before, crew("worker-0", "worker-1", formation=2))
    assert agreed.knows(before, crew("worker-0", formation=2))
