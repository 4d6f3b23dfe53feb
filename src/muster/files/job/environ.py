"""The environment of a job's tasks, as a file or a request gives it."""

import re

from muster.files.errors import shown

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

TO_BE_GIVEN = "needs a value at submission: pass --env NAME=value, or set it in your environment"


def parse_variables(value: object) -> dict[str, str | None]:
    """Check variables by name; None: to be given at submission."""
    if not isinstance(value, dict):
        raise ValueError("must be a mapping of names to values, for example {LOG_LEVEL: debug}")
    for name, text in value.items():
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{shown(name)} is not a variable's name; write for example LOG_LEVEL")
        if text is not None and not isinstance(text, str):
            kind = "list" if isinstance(text, list) else "mapping"
            raise ValueError(f"{name} must be one value, not a {kind}")
        if text is not None and "\0" in text:
            raise ValueError(f"{name} contains a null character")
    return value


def parse_text(text: str) -> str:
    """Check that a text is not empty and has no null character."""
    if not text or "\0" in text:
        raise ValueError("contains a null character" if text else "is empty")
    return text
