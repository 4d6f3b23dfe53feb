"""One planner in a process of its own."""

from muster.core.planners.proposal import Proposal
from muster.daemon.planners.child_process import ChildProcess
from muster.daemon.planners.pickles import loads


class PlannerProcess(ChildProcess):
    """A child process that proposes."""

    def __init__(self, setup: bytes) -> None:
        super().__init__("muster.daemon.planners", setup)
        self.busy = 0.0
        """s of processor time of its last answer."""

    def answer(self, within: float) -> Proposal:
        """Wait for what it proposes."""
        proposal, self.busy = loads(self.receive(within))
        assert isinstance(proposal, Proposal)
        return proposal
