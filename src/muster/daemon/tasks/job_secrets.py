"""Tokens with which the tasks of a job prove that they belong to its current run.

    token = HMAC-SHA256(secret, number / name / run . restarts)

A token is good as long as its run: tasks of an earlier one, on a node that was cut off, can join
neither the daemon nor their successors. It stays the same while a job is resized live. A restarted
daemon derives all of them from the secret again; only those of runs that began under an earlier secret
are kept.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping

from muster.daemon.gang.state import GangState
from muster.model.view import JobState

Live = Iterable[tuple[JobState, GangState]]
"""Jobs and their tasks."""


class JobSecrets:
    """The secret behind jobs' tokens."""

    def __init__(
        self, secret: str, site: str | None = None, kept: Mapping[str, str] | None = None
    ) -> None:
        self._secret = secret
        self.site = _hmac(secret, "site")[:8] if site is None else site
        """Keeps the jobs of different daemons apart, whose numbers are the same; never changes."""
        self._kept = dict(kept or {})
        """Tokens of runs that began under an earlier secret."""

    @classmethod
    def new(cls) -> "JobSecrets":
        return cls(secrets.token_hex(32))

    @classmethod
    def load(cls, text: str, live: Live = ()) -> "JobSecrets":
        """Read what `dump` wrote. Before 0.2 it was the secret alone, and a token was of a job, not of
        a run: those of live jobs are kept."""
        if text.startswith("{"):
            return cls(**json.loads(text))
        kept = {_run(*each): _hmac(text, f"{each[0].number}/{each[0].job.name}") for each in live}
        return cls(text, kept=kept)

    def dump(self) -> str:
        """Return it as text."""
        return json.dumps({"secret": self._secret, "site": self.site, "kept": self._kept})

    def token(self, state: JobState, gang: GangState) -> str:
        """Return the token of a job's current run."""
        run = _run(state, gang)
        return self._kept.get(run) or _hmac(self._secret, f"{state.job.name} {run}")

    def restore(self, text: str) -> None:
        """Take back a rotation: be what `dump` wrote."""
        found = JobSecrets.load(text)
        self._secret, self._kept = found._secret, found._kept

    def rotate(self, live: Live) -> None:
        """Replace the secret; live runs keep their tokens until they end."""
        # All at once: also those that were kept before, if they are still live.
        self._kept = {_run(*each): self.token(*each) for each in live if each[1].tasks}
        self._secret = secrets.token_hex(32)


def _run(state: JobState, gang: GangState) -> str:
    """Name a run; a gang that restarts as a whole begins another."""
    return f"{state.number}/{state.run}.{gang.restarts}"


def _hmac(secret: str, message: str) -> str:
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()
