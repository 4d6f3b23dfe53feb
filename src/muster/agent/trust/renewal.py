"""Renews the agent's certificate while it is good: there is nobody to ask with a bad one."""

from muster.agent.trust.identity import AgentFolder
from muster.agent.trust.key_request import make_request
from muster.executors.local.shim import uptime
from muster.wire.agents.agent_messages import RenewCertificate, Renewed

AGAIN = 60.0
"""s until a request that was not answered is repeated."""


class Renewal:
    """Asks for a certificate when two thirds of the last one's life are over, or when told to."""

    def __init__(self, folder: AgentFolder, node: str) -> None:
        self._folder, self._node = folder, node
        self._key = ""
        """Of the request under way."""
        self._due = uptime() + folder.renewal()
        self._asked = float("-inf")

    def is_due(self, *, told: bool) -> bool:
        """Whether to ask now, once a minute at most; `told`: the daemon wants it."""
        now = uptime()
        if now < self._asked + AGAIN or not (told or now >= self._due):
            return False
        self._asked = now
        return True

    def ask(self) -> RenewCertificate:
        """Make a new key, and return the request for its certificate. Takes a moment."""
        self._key, request = make_request(self._node)
        return RenewCertificate(request)

    def renewed(self, answer: Renewed) -> None:
        """Take the new certificate; it is used from the next connection on."""
        if self._key:
            self._folder.keep_identity(answer.certificate, answer.authority, self._key)
            self._key, self._due = "", uptime() + self._folder.renewal()
