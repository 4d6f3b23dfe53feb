"""`python -m muster.daemon.planners FD`: one planner, until its daemon hangs up."""

import time

from muster.core.planners.delta import ViewFollower
from muster.core.planners.pool_planner import PoolPlanner
from muster.core.planners.proposal import PlanningRequest
from muster.daemon.planners.child_main import serve_until_hung_up
from muster.daemon.planners.line import MessageLine
from muster.daemon.planners.pickles import dumps, loads
from muster.policy.registry import POLICIES


def serve(line: MessageLine) -> None:
    """Answer each question with a proposal."""
    line.send(b"")  # ready
    policy, rules, place, planners = loads(line.receive())
    planner, follower = PoolPlanner(POLICIES[policy], rules), ViewFollower(place, planners)
    while True:
        change, asked, pools = line.receive(), line.receive(), line.receive()
        begun = time.process_time()
        view = follower.follow(loads(change))
        proposal = planner.propose(view, PlanningRequest(loads(pools), *loads(asked)))
        line.send(dumps((proposal, time.process_time() - begun)))


if __name__ == "__main__":
    serve_until_hung_up(serve)
