"""Time lost by a worker that is killed (-9), and by one that is stopped and never says a word again.

Three workers (25.2 M parameters, 200 MB of state), one struck at a time and replaced before the next.
What is lost is the gap between two done steps over the blow, for the survivor that waited longest, less
the typical step. A stopped worker's sockets stay open, so only the deadline (3 s here) tells: survivors
wait for it once in the step that it holds up, and at most once more when they meet, since it might
only be late. For the same kill torchrun restarts all workers from the last checkpoint; the steps
since that checkpoint, done twice, are not counted.

Prints a table, then one line per target.
"""

import argparse
import signal

from support.bars import bar, print_table

BLOWS, PEER_BLOWS = 10, 3
DEADLINE, FAR = 3.0, 30.0
"""Seconds: for the stopped; for the killed, whose end shows by itself."""
TARGET = 10.0
"""Times less than torchrun: our own. Both redo a step; ours need not start a process."""
WAITS = 2.0
"""Deadlines: in the step, and in the meeting."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two kills, without torchrun")
    options = parser.parse_args()
    from support.runtime_kills import Loss, muster_loss, torchrun_loss
    from support.runtime_peers import end_well

    end_well()
    found = {"killed": muster_loss(2 if options.quick else BLOWS, signal.SIGKILL, FAR)}
    if not options.quick:
        found["stopped"] = muster_loss(BLOWS, signal.SIGSTOP, DEADLINE)
        found["torchrun"] = torchrun_loss(PEER_BLOWS)

    def row(name: str, loss: Loss) -> tuple[str, ...]:
        times = (loss.typical, loss.median, loss.worst)
        return name, str(len(loss.seconds)), *(f"{seconds:.3f}" for seconds in times)

    print_table("what times step lost worst", (row(*item) for item in found.items()))
    if options.quick:
        bar("kill-lost-within-deadline", found["killed"].worst, FAR)
        return
    ratio = found["torchrun"].median / max(found["killed"].median, 1e-3)
    bar("kill-lost-vs-torchrun", ratio, TARGET, above=True)
    bar("hang-within-deadline", found["stopped"].worst / DEADLINE, WAITS)


if __name__ == "__main__":
    main()
