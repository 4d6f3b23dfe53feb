"""`python -m muster.daemon.decider FD`: decides, until its daemon hangs up."""

from muster.daemon.decider.decider import Decider, DeciderQuestion
from muster.daemon.planners.child_main import serve_until_hung_up
from muster.daemon.planners.line import MessageLine
from muster.daemon.planners.pickles import dumps, loads
from muster.daemon.planners.processes import PlannerProcesses


def serve(line: MessageLine) -> None:
    """Answer each question with decisions; an empty one with what policies remember."""
    line.send(b"")  # ready
    policy, planners = loads(line.receive())
    decider = Decider(policy, PlannerProcesses(policy, planners) if planners > 1 else None)
    while True:
        change = loads(line.receive())
        if change is None:
            line.send(dumps(decider.remembered()))
            continue
        asked: DeciderQuestion = loads(line.receive())
        line.send(dumps(decider.decide(change, asked)))


if __name__ == "__main__":
    serve_until_hung_up(serve)
