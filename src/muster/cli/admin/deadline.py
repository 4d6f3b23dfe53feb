"""`--by`: a duration, or a time of the day."""

import re
from datetime import datetime, timedelta

from muster.cli.parse import parsed
from muster.files.errors import shown
from muster.files.source.quantity import parse_duration

_EXAMPLES = "30m, 14:30 or 2026-05-01T14:30"
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})")


def seconds_until(option: str, text: str, now: datetime) -> float:
    """Return the seconds from now to `30m` later, the next `14:30`, or `2026-05-01T14:30`."""
    return parsed(option, text, lambda given: _parse(given, now))


def _parse(text: str, now: datetime) -> float:
    moment = _moment(text, now)
    if moment is None:
        return _duration(text)
    left = (moment - now).total_seconds()
    if left < 0:
        raise ValueError(f"{text} is in the past")
    return left


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        if text[:1].isdigit():  # a duration was meant
            raise
        problem = f"{shown(text)} is not a time; write for example {_EXAMPLES}"
        raise ValueError(problem) from error


def _moment(text: str, now: datetime) -> datetime | None:
    """Return a time as written, in this machine's zone; None: it is not one."""
    try:
        if match := _TIME.fullmatch(text):
            then = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
            return then if then >= now else then + timedelta(days=1)
        if "T" in text:
            return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ValueError(f"{text!r} is not a time, such as 14:30 or 2026-05-01T14:30") from None
    return None
