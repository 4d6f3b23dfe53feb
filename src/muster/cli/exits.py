"""Exit codes. Those of jobs are SkyPilot's, so that scripts written for it keep working."""

from muster.wire.api.records import OVER

SUCCEEDED = 0
OTHER_FAILURE = 1
BAD_INPUT = 2
JOB_FAILED = 100
NOT_FINISHED = 101
NOT_FOUND = 102
CANCELLED = 103
NOT_REACHABLE = 104
NOT_ALLOWED = 105
INTERRUPTED = 130
"""After Ctrl-C, by the convention of shells."""

WOULD_START, WOULD_WAIT, NO_FORECAST = 0, 1, 255
"""Of `muster run --dry-run`: the contract of Nomad's `job plan`."""
WORSE = 3
"""Of `muster whatif --check`: some job would end later."""

MEANINGS = {
    SUCCEEDED: "succeeded",
    OTHER_FAILURE: "other failure",
    BAD_INPUT: "bad input",
    JOB_FAILED: "job failed",
    NOT_FINISHED: "not finished in time",
    NOT_FOUND: "not found",
    CANCELLED: "job cancelled, skipped or pruned",
    NOT_REACHABLE: "no daemon",
    NOT_ALLOWED: "not allowed",
}

EPILOG = "Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()) + "."

_OF_STATUS = dict(zip(OVER, (SUCCEEDED, JOB_FAILED, CANCELLED, CANCELLED, CANCELLED), strict=True))


def code_of(status: str) -> int:
    return _OF_STATUS.get(status, NOT_FINISHED)
