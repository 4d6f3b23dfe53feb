"""Makes a key and a request for a certificate: `python -m muster.agent.trust.key_request NODE`.

A process of its own, so that the agent never has the library in its memory.
"""

import json
import subprocess
import sys

from muster.agent.options import AgentError


def make_request(node: str) -> tuple[str, str]:
    """Return a new private key and the request for its certificate (PEM). Takes a moment."""
    command = [sys.executable, "-m", "muster.agent.trust.key_request", node]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AgentError(f"no key could be made: {last}")
    key, request = json.loads(done.stdout)
    return key, request


if __name__ == "__main__":
    from muster.executors.fleet.authority import new_request

    json.dump(new_request(sys.argv[1]), sys.stdout)
