"""Times given as options."""

from muster.files.errors import InputError
from muster.files.source.quantity import parse_duration


def seconds_of(option: str, text: str) -> float:
    """Seconds of a time such as `30s` or `1h30m`; `0` needs no unit."""
    try:
        return 0.0 if text == "0" else parse_duration(text)
    except ValueError as error:
        raise InputError.at(option, str(error)) from None
