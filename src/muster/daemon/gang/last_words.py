"""The line of a log that says why a program failed."""

import re

_RANK = re.compile(r"^\[(?:rank|default)\d+\]:\s?")
"""Prefix of torch's own excepthook, and of torchrun's."""
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?::(?:\s.*)?)?$")
_WRAPPER = "ChildFailedError"
"""What torchrun raises for a failure of a process that has printed its own traceback."""
_ROOT = re.compile(r"^\s*exitcode\s*:\s*(.+?)\s*$")
_THROWN = re.compile(r"^terminate called after throwing an instance of '(.+)'$")
_WHAT = re.compile(r"^\s*what\(\):\s*(.+)$")
_NATIVE = re.compile(
    r"^(Fatal Python error: .+|.*Segmentation fault.*|.*Aborted.*|(?:free|malloc|realloc|corrupted)\b.*"
    r"|.*double free.*|.*Assertion .+ failed.*|Bus error.*|Illegal instruction.*)$"
)
_LONGEST = 300


def last_words(tail: str) -> str:
    """Return the exception that ended the program, else its native error, else its last line."""
    lines = [_RANK.sub("", line.rstrip()) for line in tail.splitlines()]
    raised = _exceptions(lines)
    own = [each for each in raised if _WRAPPER not in each]
    found = own[-1] if own else _child(lines, raised) or _native(lines) or _last(lines)
    return found[:_LONGEST]


def _exceptions(lines: list[str]) -> list[str]:
    """Return the line of each exception, in order: of chained ones the last is what was not caught."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line.strip() == _TRACEBACK:
            inside = True
        elif inside and line and not line[0].isspace() and _EXCEPTION.match(line):
            found.append(line)
            inside = False
    return found


def _child(lines: list[str], raised: list[str]) -> str:
    """Return what torchrun's table says of the process that failed first."""
    if not raised:
        return ""
    codes = [match[1] for match in map(_ROOT.match, lines) if match]
    return f"a process of torchrun failed, exit code {codes[-1]}" if codes else raised[-1]


def _native(lines: list[str]) -> str:
    """Return the error of a C++ exception, of the C library or of Python's fault handler."""
    for place, line in enumerate(lines):
        if thrown := _THROWN.match(line):
            said = _WHAT.match(lines[place + 1]) if place + 1 < len(lines) else None
            return f"{thrown[1]}: {said[1]}" if said else thrown[1]
    return next((line.strip() for line in lines if _NATIVE.match(line)), "")


def _last(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
