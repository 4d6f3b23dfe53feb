"""Makes a key and a request for a certificate: `python -m muster.agent.key_request FILE NODE`.

A process of its own, so that the agent never has the library in its memory. The key goes to the file,
for its owner only, and the request (PEM) to standard output.
"""

import os
import subprocess
import sys
from pathlib import Path

from muster.agent.options import AgentError


def make_request(key: Path, node: str) -> str:
    """Write a new key to a file; return the request for its certificate."""
    command = [sys.executable, "-m", "muster.agent.key_request", str(key), node]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AgentError(f"no key could be made: {last}")
    return done.stdout


def _main(key: Path, node: str) -> None:
    from muster.executors.fleet.authority import new_request

    made, request = new_request(node)
    descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(made)
    sys.stdout.write(request)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2])
