"""Muster beside Ray's own tools, on the same Ray cluster, with the same model and data.

change  one training (25.2 M parameters, 200 MB of state) on two nodes; a third comes, and dies. What
        each costs is the longest time without a step that had not been done before, less a typical
        step. Ray Train's elastic training (`ScalingConfig(num_workers=(1, 3))`) looks for nodes every
        5 s (60 unless told) and reports a checkpoint every 20 steps; Muster reads and writes none
start   a job with one device: from the command to the job's first line, against `ray job submit`

Ray Train and `ray job submit` need more than Muster does: give a Python that has `ray[train,default]`
and torch with --peer. Lines of code are compared by benchmarks/runtime_lines.py. Prints a table, then
one line per target.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # the labs are the tests'

from support.bars import bar, print_table  # noqa: E402
from support.engine_costs import (  # noqa: E402
    Costs,
    lab_with,
    muster_costs,
    muster_latency,
    muster_on,
    ray_latency,
    train_costs,
)

NODES = ("r1", "r2", "r3")
TIMES = 20.0
"""What a change must cost Ray Train, in Muster's."""
ROUNDS = 3


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the start of one job alone")
    parser.add_argument("--peer", default=sys.executable, help="a Python that has ray[train,default]")
    options = parser.parse_args()
    # Workers of Ray import the models from here.
    os.environ["PYTHONPATH"] = f"{HERE}"
    reason = missing(options.peer)
    if reason:
        print(f"Ray Train and ray job submit are left out ({reason}); give --peer")
    measure(options.peer, peers=not reason, quick=options.quick)


def missing(python: str) -> str:
    """Return why the peers cannot be measured with this Python; empty if they can."""
    script = "import torch, ray.train.torch, aiohttp"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def measure(peer: str, *, peers: bool, quick: bool) -> None:
    """Measure both on one cluster, one after the other, and print."""
    python, rounds = peer if peers else sys.executable, 1 if quick else ROUNDS
    ours = theirs = submitted = None
    with lab_with(NODES[:2], python, dashboard=peers) as lab:
        if peers:
            submitted = ray_latency(peer, lab.dashboard, rounds)
            theirs = None if quick else train_costs(peer, lab, NODES)
        with muster_on(lab, NODES[:2]) as daemon:
            started = muster_latency(daemon, rounds)
            ours = None if quick else muster_costs(daemon, NODES)
    show(ours, theirs)
    print(f"s to a job's first line: muster run {started:.2f}, ray job submit {submitted or '-'}\n")
    if ours is not None and theirs is not None:
        for name in ("gained", "lost"):
            times = getattr(theirs, name).seconds / max(getattr(ours, name).seconds, 1e-3)
            bar(f"node-{name}-against-ray-train", times, TIMES, above=True)
    if submitted is not None:
        bar("start-against-ray-job-submit", submitted / started, 1.0, above=True)


def show(ours: Costs | None, theirs: Costs | None) -> None:
    """Print a row for each change and system."""
    rows = []
    for system, costs in (("muster", ours), ("ray-train", theirs)):
        for change in ("gained", "lost") if costs else ():
            cost = getattr(costs, change)
            figures = (f"{cost.seconds:.2f}", f"{cost.step:.3f}", str(cost.redone))
            rows.append((system, change, *figures))
    if rows:
        print("s without progress; s of a step; steps done again")
        print_table("system node cost step redone", rows)


if __name__ == "__main__":
    main()
