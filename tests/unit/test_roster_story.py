"""What the roster must never decide, whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from muster.roster.acts import Act, Begin, Kill, Tell, Terms
from muster.roster.roster import Roster
from muster.wire.tasks.messages import MemberPlan
from tests.unit.test_roster import changed, come, names, plans, stepped


class Story:
    """A job to which anything happens; its safety is checked after every event."""

    def __init__(self, terms: Terms, workers: int) -> None:
        self.roster = Roster(terms)
        self.begun: list[str] = []
        self.dead: set[str] = set()
        self.mourned: set[str] = set()
        """The dead that were not to leave anyway."""
        self.dismissed: set[str] = set()
        self.plans: list[MemberPlan] = []
        self.holding: set[str] = set()
        self.largest = 0
        self.asked = 0
        """Workers of all orders together."""
        self.joined: set[str] = set()
        self.left: set[str] = set()
        """Tasks that were told to go by name."""
        self.resize(workers)

    def resize(self, workers: int, leave: frozenset[str] = frozenset()) -> None:
        self.largest, self.asked = max(self.largest, workers), self.asked + workers
        self.left |= leave
        self.check(self.roster.resize(workers, 0, leave))

    def step(self, task: str) -> None:
        if task in self.roster.members:
            self.holding.add(task)
            self.check(self.roster.heard(stepped(task, self.roster.formation)))

    def die(self, task: str, how: str) -> None:
        self.dead.add(task)
        self.mourned |= {task} - self.left
        self.check(self.roster.exited(task, how))

    def take_plan(self) -> None:
        if self.plans and self.plans[-1].after == self.roster.formation:
            plan = self.plans[-1]
            self.check(self.roster.heard(changed(plan.formation, *names(plan))))

    def regroup(self) -> None:
        left = [name for name in self.roster.members if name not in self.dead]
        lost = tuple(name for name in self.roster.members if name in self.dead)
        if left and lost:
            # As real members do: one above all that they know of.
            formation = max(plan.formation for plan in self.plans) + len(self.dead)
            self.check(self.roster.heard(changed(formation, *left, lost=lost)))

    def living(self) -> list[str]:
        return [task for task in self.begun if task not in self.dead]

    def check(self, acts: list[Act]) -> None:
        self.begun += [act.task for act in acts if isinstance(act, Begin)]
        self.dismissed |= {
            act.task for act in acts if isinstance(act, Tell | Kill) and not plans([act])
        }
        for plan in plans(acts).values():
            if not self.plans or plan != self.plans[-1]:
                assert all(plan.formation > earlier.formation for earlier in self.plans)
                assert plan.after == self.roster.formation
                assert not self.dead & set(names(plan)) - set(self.roster.members)
                # Never more than asked; who was told to go is there only as the last with the state.
                staying = set(names(plan)) - self.left
                assert 1 <= len(staying) <= self.roster.target["worker"]
                assert self.left & set(names(plan)) <= set(self.roster.members)
                assert staying == set(names(plan)) or not staying & self.holding
                self.plans.append(plan)
        assert len(self.begun) == len(set(self.begun))
        # Members until the plan is taken up, and those who shall be.
        assert len(set(self.living()) - self.dismissed) <= 2 * self.largest
        # Nothing is started but on order, at a restart, or in place of one that was a member.
        self.joined |= set(self.roster.members)
        terms = self.roster.terms
        lost = len(self.joined & self.mourned) if terms.replace else 0
        assert len(self.begun) <= self.asked + terms.restarts * self.largest + lost


@given(st.data())
def test_whatever_happens(data: st.DataObject) -> None:
    """No name and no formation twice, no dead task planned, never a herd of tasks; who was told to
    leave does."""
    terms = Terms(replace=data.draw(st.booleans()), restarts=data.draw(st.integers(0, 2)))
    story = Story(terms, data.draw(st.integers(1, 4)))
    for kind in data.draw(
        st.lists(
            st.sampled_from(["resize", "leave", "come", "step", "die", "take", "regroup", "wake"]),
            max_size=30,
        )
    ):
        if kind == "resize":
            story.resize(data.draw(st.integers(1, 4)))
        elif kind == "leave":
            names = st.sampled_from(story.begun)
            story.resize(data.draw(st.integers(1, 4)), data.draw(st.frozensets(names, max_size=4)))
        elif kind == "wake":
            story.check(story.roster.woken(story.roster.formation))
        elif kind == "take":
            story.take_plan()
        elif kind == "regroup":
            story.regroup()
        elif living := story.living():
            task = data.draw(st.sampled_from(living))
            if kind == "come":
                story.check(come(story.roster, task))
            elif kind == "step":
                story.step(task)
            else:
                story.die(task, data.draw(st.sampled_from(["signal 9", "exit code 0", "exit code 1"])))
