"""What one user may have and ask at once, so that nobody can fill the daemon for everybody else."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from muster.daemon.service.protocol import ConflictError, LimitedError, RefusedError
from muster.model.job import Job
from muster.wire.api.use_records import LimitRecord

EVERYBODY = "*"
"""Stands for the limits of users without their own."""

COMMAND_BYTES, ENVIRONMENT_BYTES = 128_000, 256_000
"""Of one job: Linux starts no process with an argument above 131,072 bytes, and what a program needs
beyond that belongs in a file."""

FORECASTS, FORECASTS_OF_ONE = 2, 1
"""Forecasts in progress, of all users and of one: each takes the interpreter for as long as a cycle."""

AGAIN = 1.0
"""s after which to ask again for a forecast."""

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The limits of one user; administrators have none."""

    jobs: int = 1_000
    """Live jobs."""
    size: int = 64_000_000
    """Bytes of the commands and environments of live jobs."""
    submissions: int = 1_200
    """Submissions per minute; as many at once after a pause."""
    device_hours: float = 0.0
    """Device-hours in a calendar month; 0: no limit."""


def size_of(job: Job) -> int:
    """Return the bytes of a job that its user chooses freely."""
    return command_size(job) + environment_size(job)


def command_size(job: Job) -> int:
    return sum(len(word.encode()) + 1 for word in job.command)


def environment_size(job: Job) -> int:
    """Bytes of the variables that it sets, and of those it takes along from its submitter."""
    every = (*job.program.environ, *job.program.origin.environ)
    return sum(len(name.encode()) + len(text.encode()) + 2 for name, text in every)


def refuse_oversized(job: Job) -> None:
    """Refuse a job whose command or environment no job needs."""
    parts = (
        ("command", command_size(job), COMMAND_BYTES),
        ("environment", environment_size(job), ENVIRONMENT_BYTES),
    )
    for what, size, most in parts:
        if size > most:
            raise RefusedError(
                f"its {what} has {size:,} bytes, at most {most:,} are allowed; keep the rest in a file"
            )


class Limiter:
    """Counts what users have, and refuses what would exceed their limits."""

    def __init__(self, stored: str | None, live: Mapping[int, Job]) -> None:
        """`stored`: what `stored` returned before."""
        own = json.loads(stored) if stored else {}
        self._own = {user: UserLimits(**fields) for user, fields in own.items()}
        self._live: dict[int, tuple[str, int]] = {}
        """User and bytes of each live job."""
        self._jobs: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._allowances: dict[str, tuple[float, float]] = {}
        """Submissions left to each user, and when that was counted."""
        self._forecasts: Counter[str] = Counter()
        self.spent: Callable[[str], float] = lambda user: 0.0
        """Returns a user's device-hours of this month."""
        for job in live.values():
            self.enter(job)

    def of(self, user: str) -> UserLimits:
        """Return a user's limits."""
        return self._own.get(user) or self._own.get(EVERYBODY) or UserLimits()

    def has_budgets(self) -> bool:
        """Whether anybody's device-hours are limited."""
        return any(limits.device_hours for limits in self._own.values())

    def set(self, user: str, limits: UserLimits | None) -> None:
        """Change a user's limits; None: those of everybody."""
        if limits is None:
            self._own.pop(user, None)
        else:
            self._own[user] = limits

    def stored(self) -> str:
        """Return the limits that were set, as text."""
        return json.dumps({user: asdict(limits) for user, limits in self._own.items()})

    def records(self) -> list[LimitRecord]:
        """Return everybody's limits, then those of users with their own or with live jobs."""
        users = sorted({*self._own, *self._jobs} - {EVERYBODY})
        return [self.record(user) for user in (EVERYBODY, *users)]

    def record(self, user: str) -> LimitRecord:
        """Return a user's limits and use."""
        limits = self.of(user)
        return LimitRecord(
            user,
            limits.jobs,
            limits.size,
            limits.submissions,
            own=user in self._own,
            live=self._jobs[user] if user != EVERYBODY else self._jobs.total(),
            used=self._bytes[user] if user != EVERYBODY else self._bytes.total(),
            device_hours=limits.device_hours,
            device_hours_used=self.spent(user) if user != EVERYBODY else 0.0,
        )

    def enter(self, job: Job) -> None:
        """Count a live job."""
        size = size_of(job)
        self._live[job.number] = (job.user, size)
        self._jobs[job.user] += 1
        self._bytes[job.user] += size

    def leave(self, number: int) -> None:
        """Forget a job that has ended. Idempotent."""
        user, size = self._live.pop(number, ("", 0))
        if user:
            self._jobs[user] -= 1
            self._bytes[user] -= size
            if not self._jobs[user]:
                del self._jobs[user], self._bytes[user]

    def refuse_submission(self, job: Job, now: float) -> None:
        """Refuse a job that would exceed its user's limits, and count it as submitted."""
        limits, user = self.of(job.user), job.user
        if self._jobs[user] >= limits.jobs:
            raise ConflictError(
                f"{user} has {self._jobs[user]:,} live jobs, the most allowed; wait until some have "
                "ended, or ask an administrator (muster limit set)"
            )
        size = self._bytes[user] + size_of(job)
        if size > limits.size:
            raise ConflictError(
                f"the commands and environments of {user}'s live jobs would have {size:,} bytes, at "
                f"most {limits.size:,} are allowed; keep data in files, or ask an administrator "
                "(muster limit set)"
            )
        self._spend(user, limits.submissions, now)

    def _spend(self, user: str, most: int, now: float) -> None:
        left, at = self._allowances.get(user, (float(most), now))
        left = min(float(most), left + max(0.0, now - at) * most / MINUTE)
        if left < 1.0:
            wait = (1.0 - left) * MINUTE / most
            text = f"{user} may submit {most:,} jobs per minute"
            raise LimitedError(text, wait)
        if len(self._allowances) > 10_000:  # users come and go
            self._allowances.clear()
        self._allowances[user] = (left - 1.0, now)

    @contextmanager
    def forecasting(self, user: str) -> Iterator[None]:
        """Take one of the places for forecasts; LimitedError if there is none."""
        if self._forecasts[user] >= FORECASTS_OF_ONE or self._forecasts.total() >= FORECASTS:
            raise LimitedError("other forecasts are in progress", AGAIN)
        self._forecasts[user] += 1
        try:
            yield
        finally:
            self._forecasts[user] -= 1
            if not self._forecasts[user]:
                del self._forecasts[user]


def changed_limits(before: UserLimits, given: Mapping[str, Any]) -> UserLimits:
    """Return the limits with those given; refuse one that would allow nothing."""
    new = {name: value for name, value in given.items() if value is not None}
    for name, value in new.items():
        if value < 1 and name != "device_hours":  # 0 lifts that limit
            raise RefusedError(
                f"{name}: {value} would allow nothing; to keep a user out, revoke their tokens "
                "(muster token revoke)"
            )
    return replace(before, **new)
