"""Who speaks for all: to accelerate every worker is a training of one process.

Only its index tells workers apart: 0 on the primary, so that it prints, tracks and writes files.
"""

from accelerate.state import AcceleratorState, PartialState


def speak(primary: bool) -> None:
    """Be the first process to accelerate, or another."""
    for shared in (PartialState._shared_state, AcceleratorState._shared_state):
        if shared:
            shared["process_index"] = shared["local_process_index"] = 0 if primary else 1
