"""How much slower one device type is than another: by applications seen on both, else by data sheets.

The logarithm of the ratio is the mean over those applications, with the data sheets' ratio, where there
is one, as one more: a single application may be special, several are not.
"""

from collections.abc import Iterable
from math import exp, log

from muster.perf.devices import data_sheet

SPREAD = log(1.25)
"""Standard deviation of the logarithm of a step carried over from another type (`perf.compute`)."""


def slower(device_type: str, than: str, seen: Iterable[float]) -> float:
    """Return s of a step on a type per s on another; `seen`: that ratio of each application on both."""
    if device_type == than:
        return 1.0
    logs = [*_by_sheets(device_type, than), *(log(each) for each in seen)]
    return exp(sum(logs) / len(logs)) if logs else 1.0


def _by_sheets(device_type: str, than: str) -> tuple[float, ...]:
    """Return the logarithm of the ratio of the rated speeds; nothing where a data sheet is missing."""
    here, there = data_sheet(device_type), data_sheet(than)
    return () if here is None or there is None else (log(there.single / here.single),)
