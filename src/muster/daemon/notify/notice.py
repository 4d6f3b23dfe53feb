"""What is told: made from a fact and the job it is about."""

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from typing import Any

from muster.model.event import Cancelled, Ended, Outcome, Preempted, Started
from muster.model.happening import Happening
from muster.model.task import Fact
from muster.wire.api.records import JobRecord

SIGNATURE, MOMENT = "X-Muster-Signature", "X-Muster-Time"
FIELDS = ("number", "name", "user", "pool", "status", "submitted", "started", "ended", "exit_code")
"""Of the job, in every notice."""
TOLD = tuple(kind.__name__ for kind in (Started, Ended, Cancelled, Preempted))
"""Kinds of facts that mean something to people."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to a job."""

    id: str
    """The same whenever it is told again."""
    event: str
    at: float
    text: str
    """A line for people; chat services show it as it is."""
    job: dict[str, Any]


def happening_of(fact: Fact) -> Happening | None:
    """Return what a fact means to people; None: nothing."""
    match fact:
        case Started():
            return Happening.STARTED
        case Ended(outcome=Outcome.SUCCEEDED):
            return Happening.SUCCEEDED
        case Ended():
            return Happening.FAILED
        case Cancelled():
            return Happening.STOPPED
        case Preempted():
            return Happening.PREEMPTED
    return None


def notice_of(happening: str, about: JobRecord, at: float, id_: str) -> Notice:
    """Return the notice of a happening."""
    job = {name: getattr(about, name) for name in FIELDS}
    return Notice(id_, happening, at, _line(happening, about), job | {"reason": about.reason})


def _line(happening: str, about: JobRecord) -> str:
    which = f"job {about.number} ({about.user}/{about.name})"
    match happening:
        case Happening.FAILED:
            why = (about.error or "").strip().splitlines()
            return f"{which} failed{f': {why[-1]}' if why else ''}"
        case Happening.WAITING:
            return f"{which} still waits: {about.reason or 'no reason given yet'}"
        case Happening.PREEMPTED:
            return f"{which} was stopped and is back in the queue"
    words = {"started": "has started", "succeeded": "succeeded", "stopped": "was stopped"}
    return f"{which} {words[happening]}"


def body_of(notice: Notice) -> bytes:
    """Return the JSON that a webhook gets."""
    return json.dumps(asdict(notice)).encode()


def signature_of(secret: str, moment: str, body: bytes) -> str:
    """Return HMAC-SHA256 of the time and the body, so that receivers know who sent it and when."""
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
